"""Many chains at once: those whose rules have the same tables go through the first levels of ``auto`` in compiled calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rulefield.inference.chain.auto import DUAL_ITERATIONS, FIRST, NODE_LIMIT, PATH_NODES
from rulefield.inference.chain.prepare import has_large_costs, local_edges, local_edges_vary
from rulefield.inference.checker import definitions_of
from rulefield.inference.flatten import Flat, flatten
from rulefield.inference.result import Breach, Result, Status
from rulefield.kernels.chain.check import certify_batch
from rulefield.kernels.lattice.first import first_answers, ready_batch
from rulefield.problem.chain_rules import ChainProblem


@dataclass
class _SameRules:
    """Chains whose rules have the same tables and weights."""

    flat: Flat
    own: Flat
    numbers: list[int] = field(default_factory=list)
    flats: list[tuple[Flat, Flat]] = field(default_factory=list)


def decode_batch(problems: Sequence[ChainProblem], node_limit: int = NODE_LIMIT) -> list[Result | None]:
    """Decode chains under rules as ``auto`` does, as far as its first levels prove the answer; None for the others.

    Duals, prices of automata and paths, and the checker's judgement of each answer, run for all chains with the same rules in
    three compiled calls that hold no lock. An answer is the one that ``decode`` would give, to the last bit.
    """
    answers: list[Result | None] = [None] * len(problems)
    for group in _groups(problems):
        _solve(problems, group, min(PATH_NODES, node_limit), answers)
    return answers


def _groups(problems: Sequence[ChainProblem]) -> list[_SameRules]:
    """Chains by their rules' tables; those left out that these calls cannot read."""
    by_flat: dict[int, _SameRules | None] = {}
    by_tables: dict[tuple, _SameRules] = {}
    held = []  # flat forms stay alive, so that their ids stay their own
    for number, problem in enumerate(problems):
        n, m = problem.potentials.unary.shape
        if n == 0 or m == 0:
            continue
        own = flatten(problem.rules, m)
        if id(own) not in by_flat:
            held.append(own)
            by_flat[id(own)] = _group_of(own, n, m, by_tables)
        group = by_flat[id(own)]
        if group is not None:
            group.numbers.append(number)
            group.flats.append((own.together or own, own))
    return list(by_tables.values())


def _group_of(own: Flat, n: int, m: int, by_tables: dict[tuple, _SameRules]) -> _SameRules | None:
    flat = own.together or own
    if flat.shared.rows_only or has_large_costs(flat, n):
        return None
    key = m, id(flat.shared), id(own.shared), flat.tables.weight.tobytes(), own.tables.weight.tobytes()
    return by_tables.setdefault(key, _SameRules(flat, own))


def _solve(
    problems: Sequence[ChainProblem], group: _SameRules, path_nodes: int, answers: list[Result | None]
) -> None:
    """Decode the chains of a group, and write the answers that are proved to their places."""
    flat, own, numbers = group.flat, group.own, group.numbers
    given = [problems[number].potentials for number in numbers]
    tokens = np.concatenate([[0], np.cumsum([p.n_steps for p in given])])
    count, m, rules, own_rules = len(given), given[0].n_states, len(flat.rules), len(own.rules)
    unary = np.concatenate([p.unary for p in given]).astype(np.float64, copy=False)
    pairwise, steps = _stacked([p.pairwise_stack for p in given])
    classes = np.concatenate([f.classes.ravel() for f, _ in group.flats])
    own_classes = classes if flat is own else np.concatenate([o.classes.ravel() for _, o in group.flats])
    places = _places(tokens, steps, flat)
    ready, arriving = unary.copy(), np.empty((int(places[:, 1].max()), m, m))
    offset, right = np.empty(count), np.empty(count, np.bool_)
    ready_batch(
        ready, pairwise, tokens, steps, flat.tables, classes, flat.shared.folds, arriving, places, offset, right
    )
    labels, duals = np.zeros(len(unary), np.int64), np.zeros((count, len(flat.caps)))
    values, effort = np.empty((count, 3)), np.empty((count, 4), np.int64)
    lowered, order = np.empty_like(unary), np.empty((count, rules), np.int64)
    caps = np.array([f.caps for f, _ in group.flats]).reshape(count, -1)
    first_answers(
        ready, arriving, tokens, places, flat.tables, classes, caps, DUAL_ITERATIONS, path_nodes,
        labels, lowered, duals, order, values, effort,
    )  # fmt: skip
    worth, amounts, sure = np.empty((count, 3)), np.zeros((count, own_rules), np.int64), np.empty(count, np.bool_)
    certify_batch(
        unary, pairwise, tokens, steps, definitions_of(own), own.tables.weight, own_classes, rules,
        labels, offset, values, worth, amounts, sure,
    )  # fmt: skip
    broken = _broken(amounts, own)
    cuts, worths, efforts = tokens.tolist(), worth.tolist(), effort.tolist()
    for i in np.flatnonzero(sure & right).tolist():
        score, objective, bound = worths[i]
        by, passes, nodes, _ = efforts[i]
        path = labels[cuts[i] : cuts[i + 1]]
        answers[numbers[i]] = Result(
            path, score, objective, bound, Status.optimal, FIRST[by], passes + nodes, broken.get(i, ())
        )


def _broken(amounts: np.ndarray, own: Flat) -> dict[int, tuple[Breach, ...]]:
    """Rules that each chain's labels break, by the chain's place."""
    found: dict[int, list[Breach]] = {}
    places, rules = np.nonzero(amounts)
    for i, r, amount in zip(places.tolist(), rules.tolist(), amounts[places, rules].tolist()):
        rule = own.rules[r]
        found.setdefault(i, []).append(Breach(rule.rule, float(amount), rule.weight * (1.0 if rule.once else amount)))
    return {i: tuple(broken) for i, broken in found.items()}


def _stacked(given: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return all matrices of steps as one array, those that chains share once, and where each chain's are, (chains, 2)."""
    places: dict[tuple, tuple[int, int]] = {}
    arrays, size, spans = [], 0, []
    for array in given:
        key = array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
        if key not in places:
            places[key] = size, size + len(array)
            arrays.append(array)
            size += len(array)
        spans.append(places[key])
    return np.concatenate(arrays).astype(np.float64, copy=False), np.array(spans, dtype=np.int64)


def _places(tokens: np.ndarray, steps: np.ndarray, flat: Flat) -> np.ndarray:
    """Where each chain's transposed matrices go: its own where rules are folded into steps, else those of its pairwise."""
    n = np.diff(tokens)
    if not local_edges(flat.tables):
        return steps
    sizes = steps[:, 1] - steps[:, 0]
    if local_edges_vary(flat.tables):
        sizes = np.maximum(n - 1, 1)
    ends = np.cumsum(sizes)
    return np.stack([ends - sizes, ends], axis=1)
