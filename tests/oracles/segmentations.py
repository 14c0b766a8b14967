"""Every segmentation of a sequence, listed: slow, obvious, and the oracle of the other engines.

There are n_types * (n_types + 1) ** (n_steps - 1) of them (at each later token a segment of some type begins, or goes
on); more than ``LIMIT`` are refused.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oracles.definition import amounts_of, costs_of
from rulefield.exceptions import InputError
from rulefield.inference.result import Breach, Result, Status
from rulefield.problem.segments import SegmentPotentials, SegmentProblem

LIMIT = 200_000


def enumerate_segmentations(potentials: SegmentPotentials) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Yield (lengths, labels, score) of every segmentation into segments of at most ``max_length`` tokens."""
    opens, types = all_segmentations(potentials.n_steps, potentials.n_states, potentials.max_length)
    for begins, kinds, score in zip(opens, types, all_scores(potentials, opens, types).tolist()):
        starts = np.flatnonzero(begins)
        yield np.diff(np.append(starts, potentials.n_steps)), kinds[starts], score


def all_segmentations(n: int, m: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (opens, types), each (n_segmentations, n): where segments begin, and the type at each token."""
    if n and m * float(m + 1) ** (n - 1) > LIMIT:
        raise InputError(
            f"n_types = {m} on {n} tokens have more than {LIMIT} segmentations; enumeration lists fewer."
        )
    opens, types, size = np.zeros((1, 0), bool), np.zeros((1, 0), np.int64), np.zeros(1, np.int64)
    for t in range(n):
        begin = np.repeat(np.arange(len(size)), m)
        go_on = np.flatnonzero((size < longest) & (t > 0))
        rows = np.concatenate([begin, go_on])
        here = np.concatenate([np.tile(np.arange(m), len(size)), types[go_on, -1] if t else go_on])
        first = np.arange(len(rows)) < len(begin)
        size = np.where(first, 1, size[rows] + 1)
        opens, types = np.column_stack([opens[rows], first]), np.column_stack([types[rows], here])
    return opens, types


def all_scores(p: SegmentPotentials, opens: np.ndarray, types: np.ndarray) -> np.ndarray:
    """Scores (n_segmentations,), part by part."""
    total, size = np.zeros(len(opens)), np.zeros(len(opens), np.int64)
    for t in range(p.n_steps):
        begins, here = opens[:, t], types[:, t]
        ends = opens[:, t + 1] if t + 1 < p.n_steps else np.ones(len(opens), bool)
        size = np.where(begins, 1, size + 1)
        total += p.token[t, here]
        total[begins] += p.first[t, here[begins]]
        if t:
            total[begins] += p.pairwise[types[begins, t - 1], here[begins]]
        total[ends] += p.last[t, here[ends]] + p.length[size[ends] - 1, here[ends]]
        for k in np.flatnonzero(p.spans.start + p.spans.length - 1 == t):
            whole = ends & (size == p.spans.length[k])
            total[whole] += p.spans.score[k, here[whole]]
    return total


class JudgedSegmentations(NamedTuple):
    """All segmentations of a problem: token labels (k, n), scores (k,), amounts of each rule (rules, k), objectives (k,)."""

    labels: np.ndarray
    scores: np.ndarray
    amounts: np.ndarray
    objectives: np.ndarray


def judge_all(problem: SegmentProblem) -> JudgedSegmentations:
    """Score every segmentation and read every rule, term by term."""
    p, spelling = problem.potentials, problem.spelling
    opens, types = all_segmentations(p.n_steps, p.n_states, p.max_length)
    labels = spelling.write(opens, types)
    scores = all_scores(p, opens, types)
    if problem.allowed is not None:
        scores[~problem.allowed[np.arange(p.n_steps), labels].all(axis=1)] = -np.inf
    amounts = np.array([amounts_of(rule, labels) for rule in problem.rules]).reshape(len(problem.rules), len(labels))
    objectives = scores.copy()
    for rule, amount in zip(problem.rules, amounts):
        objectives -= costs_of(rule, amount)
    return JudgedSegmentations(labels, scores, amounts, objectives)


def decode_enumerate(problem: SegmentProblem) -> Result:
    """Return a best segmentation under the rules by judging all of them; refused where they are too many."""
    found = judge_all(problem)
    if not len(found.objectives) or found.objectives.max() == -np.inf:
        none = np.zeros(0, np.int64)
        return Result(none, -np.inf, -np.inf, -np.inf, Status.infeasible, "enumerate", len(found.scores))
    best = int(np.argmax(found.objectives))
    broken = tuple(
        Breach(rule.rule, float(amount[best]), float(costs_of(rule, amount)[best]))
        for rule, amount in zip(problem.rules, found.amounts)
        if amount[best] > 0
    )
    value, score = float(found.objectives[best]), float(found.scores[best])
    return Result(found.labels[best], score, value, value, Status.optimal, "enumerate", len(found.scores), broken)
