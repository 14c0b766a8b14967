"""Random segment problems under many count rules, and the plain integer program of each for HiGHS."""

from dataclasses import dataclass
from time import process_time

import numpy as np

from rulefield import rules as r
from rulefield.inference.highs import Program, minimize
from rulefield.problem.segments import SegmentPotentials, SegmentProblem, Spans, Spelling
from rulefield.rules import RuleCompiler
from rulefield.rules.labels import CutLabels

TYPES = [f"t{k}" for k in range(8)]
TOKENS, LONGEST = 60, 10


@dataclass(frozen=True)
class CountRule:
    """``weights`` (types,) times the tokens, or the segments, of each type are at most ``bound``."""

    of_tokens: bool
    weights: np.ndarray
    bound: int
    price: float

    def written(self):
        """Return it in the language of rules."""
        counted = r.count if self.of_tokens else r.segments
        terms = [int(w) * counted(TYPES[k]) for k, w in enumerate(self.weights) if w]
        rule = sum(terms[1:], terms[0]) <= self.bound
        return rule if self.price == np.inf else rule.soft(self.price)


def random_potentials(rng: np.random.Generator) -> SegmentPotentials:
    """Return normal scores of everything but particular spans."""
    m = len(TYPES)
    shapes = [(TOKENS, m), (TOKENS, m), (TOKENS, m), (LONGEST, m), (m, m)]
    return SegmentPotentials(*(rng.normal(size=shape) for shape in shapes), Spans.none(m))


def random_rules(rng: np.random.Generator, count: int, hard: int) -> list[CountRule]:
    """Return rules of which the hard ones all hold in one random segmentation, so that some segmentation obeys them."""
    lengths = rng.integers(1, LONGEST + 1, TOKENS)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), TOKENS)) + 1]
    lengths[-1] -= lengths.sum() - TOKENS
    kinds = rng.integers(len(TYPES), size=len(lengths))
    tokens, segments = (np.bincount(kinds, w, len(TYPES)).astype(int) for w in (lengths, np.ones(len(lengths))))
    found = []
    for k in range(count):
        of_tokens = bool(rng.random() < 0.5)
        weights = np.zeros(len(TYPES), int)
        some = rng.choice(len(TYPES), int(rng.integers(1, 4)), replace=False)
        weights[some] = rng.choice([-2, -1, 1, 2], len(some))
        value = int(weights @ (tokens if of_tokens else segments))
        price = np.inf if k < hard else float(rng.uniform(0.2, 2.0))
        found.append(CountRule(of_tokens, weights, value + int(rng.integers(0, 2)), price))
    return found


def random_problem(seed: int, count: int, hard: int) -> tuple[SegmentProblem, list[CountRule]]:
    """Return a problem and its rules in plain numbers."""
    rng = np.random.default_rng([seed, count])
    potentials, rules = random_potentials(rng), random_rules(rng, count, hard)
    compiler = RuleCompiler([rule.written() for rule in rules], CutLabels(TYPES))
    compiled = compiler([{"text": "x"}] * TOKENS)
    return SegmentProblem(potentials, Spelling.of_types(len(TYPES)), compiled), rules


def plain_program(p: SegmentPotentials, rules: list[CountRule]) -> Program:
    """Return one unit of flow through segments (columns) and the steps between them (columns), with a row per rule."""
    n, m, program = p.n_steps, p.n_states, Program()
    begin, length, kind = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(1, LONGEST + 1), np.arange(m)))
    inside = begin + length <= n
    begin, length, kind = begin[inside], length[inside], kind[inside]
    sums = np.vstack([np.zeros(m), np.cumsum(p.token, axis=0)])
    end = begin + length - 1
    score = (
        sums[end + 1, kind]
        - sums[begin, kind]
        + p.first[begin, kind]
        + p.last[end, kind]
        + p.length[length - 1, kind]
    )
    program.add_columns(-score, 1.0, True)
    at, before, after = (x.ravel() for x in np.meshgrid(np.arange(n - 1), np.arange(m), np.arange(m)))
    first_step = program.add_columns(-p.pairwise[before, after], 1.0, False)
    steps, segments = first_step + np.arange(len(at)), np.arange(len(score))
    starts = begin == 0
    program.add_rows(np.zeros(starts.sum()), segments[starts], np.ones(starts.sum()), np.ones(1), equal=True)
    ends, begins = end < n - 1, begin > 0
    for side, where, step_kind in ((ends, end, before), (begins, begin - 1, after)):
        row = np.r_[where[side] * m + kind[side], at * m + step_kind]
        value = np.r_[np.ones(side.sum()), -np.ones(len(at))]
        program.add_rows(row, np.r_[segments[side], steps], value, np.zeros((n - 1) * m), equal=True)
    for rule in rules:
        value = rule.weights[kind] * (length if rule.of_tokens else 1)
        column, used = segments, value != 0
        column, value = column[used], value[used].astype(float)
        if rule.price < np.inf:
            slack = program.add_columns(np.array([rule.price]), np.inf, False)
            column, value = np.r_[column, slack], np.r_[value, -1.0]
        program.add_rows(np.zeros(len(column)), column, value, np.array([float(rule.bound)]))
    return program


def by_highs(p: SegmentPotentials, rules: list[CountRule]) -> tuple[float, float]:
    """Return the best objective by HiGHS's integer program (``-inf`` if there is none) and its CPU seconds."""
    begun = process_time()
    program = plain_program(p, rules)
    found = minimize(program, seconds=120.0)
    value = -np.inf if found.values is None else -float(np.concatenate(program.cost) @ found.values)
    return value, process_time() - begun
