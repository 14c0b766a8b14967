"""AD3 as an engine: the relaxation's bound, its rounding improved by local search, and a state to start from again."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.graph.auto import search_answer
from rulefield.inference.graph.evaluate import Answer
from rulefield.inference.graph.parts import extend, parts_of
from rulefield.inference.graph.trws import begin
from rulefield.kernels.graph.ad3 import Factors, ad3
from rulefield.problem.graph import GraphPotentials, GraphProblem

ITERATIONS = 2_000
"""Steps at most."""
TOLERANCE = 1e-6
"""Distance between copies of an indicator and their mean at which steps end."""


@dataclass
class AD3State:
    """Consensus, multipliers, edge solutions and step size of a run, for the next on the same graph and rules."""

    z: np.ndarray
    multiplier: np.ndarray
    mass: np.ndarray
    eta: float


@dataclass(frozen=True)
class _Rule:
    """One inequality: indicators, coefficients, what their sum may reach, and the price of each unit above."""

    var: np.ndarray
    value: np.ndarray
    high: float
    price: float


def ad3_graph(
    problem: GraphProblem,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
    state: AD3State | None = None,
) -> Answer:
    """Relaxation by AD3, bounded by its dual, rounded and improved; ``state`` (if given) is started from and updated.

    Hard logic factors enter by their convex hull, soft ones by the convex envelope of their cost, rows exactly.
    Forbidden pairs and labels must be few: they are priced above the range of all scores, which slows AD3 down.
    """
    parts, rest = parts_of(problem)
    search = begin(parts)
    p = _finite(extend(problem), search.price)
    factors = _factors(p, problem)
    if state is None:
        state = AD3State(np.zeros(0), np.zeros(0), np.zeros(0), 0.0)
    if len(state.multiplier) != len(factors.var):
        _reset(state, p, factors)
    bound, done, state.eta, _ = ad3(
        factors, p.unary, p.pairwise, state.z, state.multiplier, state.mass, state.eta, iterations, tolerance, -np.inf
    )
    labels = np.array([np.argmax(state.z[a:b]) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])])
    search.offer(labels[search.network.order])
    search.bound, search.rounds = max(bound, search.value), done
    return search_answer(problem, search, rest, "ad3")


def _finite(p: GraphPotentials, price: float) -> GraphPotentials:
    """Loops folded into nodes; -inf replaced by a price that no labeling would pay (bounds stay true)."""
    loop = p.edges[:, 0] == p.edges[:, 1]
    unary = p.unary.copy()
    for e in np.flatnonzero(loop):
        v = p.edges[e, 0]
        table = p.pairwise[p.pairwise_offset[e] : p.pairwise_offset[e + 1]]
        unary[p.unary_offset[v] : p.unary_offset[v + 1]] += table[:: p.n_labels[v] + 1]
    pairwise = p.pairwise[~np.repeat(loop, np.diff(p.pairwise_offset))]
    return GraphPotentials(p.n_labels, np.maximum(unary, -price), p.edges[~loop], np.maximum(pairwise, -price))


def _reset(state: AD3State, p: GraphPotentials, factors: Factors) -> None:
    """Start: uniform consensus, no multipliers, edges at their first pair of labels."""
    state.z = np.repeat(1.0 / p.n_labels, p.n_labels)
    state.multiplier = np.zeros(len(factors.var))
    state.mass = np.zeros(len(p.pairwise))
    state.mass[p.pairwise_offset[:-1]] = 1.0
    state.eta = 0.5 * max(float(np.std(p.unary)), 1e-3)


def _factors(p: GraphPotentials, problem: GraphProblem) -> Factors:
    i, j = p.edges[:, 0], p.edges[:, 1]
    start = p.unary_offset
    ends = [
        np.concatenate([np.arange(start[a], start[a + 1]), np.arange(start[b], start[b + 1])]) for a, b in p.edges
    ]
    rules = [*_logic_rules(p, problem), *_row_rules(p, problem)]
    lengths = np.array([len(r.var) for r in rules], dtype=np.int64)
    edge_at = len(p.unary) + np.concatenate([[0], np.cumsum(p.n_labels[i] + p.n_labels[j])])
    before = np.ones(int(edge_at[-1]))
    return Factors(
        var=np.concatenate([np.arange(len(p.unary)), *ends, *(r.var for r in rules)]).astype(np.int64),
        node_at=start,
        edge_at=edge_at.astype(np.int64),
        wide=p.n_labels[j].astype(np.int64),
        pair_at=p.pairwise_offset,
        rule_at=(edge_at[-1] + np.concatenate([[0], np.cumsum(lengths)])).astype(np.int64),
        high=np.array([r.high for r in rules], dtype=np.float64),
        price=np.array([r.price for r in rules], dtype=np.float64),
        value=np.concatenate([before, *(r.value for r in rules)]),
    )


def _logic_rules(p: GraphPotentials, problem: GraphProblem) -> list[_Rule]:
    """Inequalities of logic factors: their convex hull if they are hard."""
    logic, same = problem.logic, problem.logic.canonical
    rules: list[_Rule] = []
    for f in range(logic.n_factors):
        span = slice(logic.pointer[f], logic.pointer[f + 1])
        var = p.unary_offset[logic.atom_node[span]] + logic.atom_label[span]
        sign = np.where(same.negated[span], -1.0, 1.0)
        add = _output if same.has_output[f] else _count
        rules.extend(add(var, sign, int(same.low[f]), int(same.high[f]), float(logic.weight[f])))
    return [r for r in rules if len(r.var)]


def _count(var: np.ndarray, sign: np.ndarray, low: int, high: int, price: float) -> list[_Rule]:
    """Envelope of "pay once": price / (largest excess) for each unit below low or above high."""
    negated = float((sign < 0).sum())
    rules = []
    if low > 0:
        rules.append(_Rule(var, -sign, negated - low, price / low))
    if high < len(var):
        rules.append(_Rule(var, sign, high - negated, price / (len(var) - high)))
    return rules


def _output(var: np.ndarray, sign: np.ndarray, low: int, high: int, price: float) -> list[_Rule]:
    """Output above all inputs costs ``price``; inputs above the output cost their share of it."""
    k = len(var) - 1
    flipped = sign.copy()
    flipped[-1] *= -1
    rules = [_Rule(var, -flipped, float((flipped < 0).sum()) - 1, price)]
    for i in range(k):
        pair, signs = var[[i, k]], sign[[i, k]] * np.array([1.0, -1.0])
        rules.append(_Rule(pair, signs, 1.0 - float((signs < 0).sum()), price / k))
    return rules


def _row_rules(p: GraphPotentials, problem: GraphProblem) -> list[_Rule]:
    rows = problem.rows
    var = p.unary_offset[rows.atom_node] + rows.atom_label
    spans = [slice(rows.pointer[r], rows.pointer[r + 1]) for r in range(rows.n_rows)]
    rules = [_Rule(var[s], rows.value[s], float(rows.bound[r]), float(rows.weight[r])) for r, s in enumerate(spans)]
    return [r for r in rules if len(r.var)]
