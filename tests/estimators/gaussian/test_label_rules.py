"""The best label vector of a Gaussian field under rules, against all label vectors, by the rules' own definitions."""

import itertools

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.data.graphs import TypedGraph
from rulefield.estimators.gaussian.answers import best_labelings
from rulefield.estimators.gaussian.labels import LabelCodes
from rulefield.estimators.graph.decoding import DEFAULT_SEARCH, NODE, GraphRules
from rulefield.exceptions import InfeasibleError
from rulefield.inference.result import Status
from rulefield.rules.nodes import how_many, node, nodes, violation_on_graph

TOLERANCE = 1e-6


def random_statement(rng, n, classes, depth=2):
    """A statement about labels: simple, a count, a comparison, or logic over such."""
    kind = rng.integers(8) if depth else 0
    if kind <= 1:
        wanted = [int(k) for k in rng.permutation(classes)[: rng.integers(1, classes)]]
        return node(NODE, int(rng.integers(n))).is_(wanted)
    if kind == 2:
        return r.at_most(int(rng.integers(n)), nodes(NODE).is_(int(rng.integers(classes))))
    if kind == 3:
        return how_many(nodes(NODE).is_(0)) - how_many(nodes(NODE).is_(1)) <= int(rng.integers(-1, 2))
    parts = [random_statement(rng, n, classes, depth - 1) for _ in range(2)]
    return [r.implies, r.iff, lambda a, b: r.not_(r.any_of(a, b)), lambda a, b: r.exactly(1, a, b)][kind - 4](*parts)


def random_rules(rng, n, classes):
    made = []
    for _ in range(int(rng.integers(1, 4))):
        statement = random_statement(rng, n, classes)
        soft = statement.soft(float(10.0 ** rng.integers(-3, 3)), per=str(rng.choice(["unit", "once"])))
        made.append(soft if rng.random() < 0.5 else statement)
    return made


def random_scores(rng, n, classes):
    proba = rng.dirichlet(np.full(classes, float(rng.choice([0.01, 0.3, 3.0]))), n)
    proba[rng.random((n, classes)) < 0.05] = 0.0
    return proba


@pytest.mark.parametrize("on_infeasible", ["raise", "relax"])
def test_the_best_vector_by_definition(on_infeasible):
    conflicts = 0
    for seed in range(130):
        rng = np.random.default_rng(seed)
        n, classes = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        rules, graph = random_rules(rng, n, classes), TypedGraph({NODE: np.zeros((n, 1))})
        vectors = list(itertools.product(range(classes), repeat=n))
        amounts = np.array([[violation_on_graph(rule, graph, {NODE: list(y)}) for rule in rules] for y in vectors])
        hard = np.array([rule.is_hard for rule in rules])
        paid = np.array([sum(rule.cost(a) for rule, a in zip(rules, row) if not rule.is_hard) for row in amounts])
        violation = amounts[:, hard].sum(axis=1)
        acting = GraphRules(rules, {NODE: np.arange(classes)}, on_infeasible)
        codes = LabelCodes(np.arange(classes), flat=False)
        for _ in range(4):
            proba = random_scores(rng, n, classes)
            with np.errstate(divide="ignore"):
                score = np.array([np.log(proba[np.arange(n), y]).sum() for y in vectors])
            possible = score > -np.inf
            if not possible.any():
                continue
            least = violation[possible].min()
            value = np.where(possible & (violation == least), score - paid, -np.inf)
            if least and on_infeasible == "raise":
                conflicts += 1
                with pytest.raises(InfeasibleError):
                    best_labelings(codes, acting, [proba], DEFAULT_SEARCH)
                continue
            (found,) = best_labelings(codes, acting, [proba], DEFAULT_SEARCH)
            k = vectors.index(tuple(int(y) for y in found.labels))
            assert found.status == Status.optimal
            assert violation[k] == least
            assert value[k] >= value.max() - TOLERANCE
            assert found.objective == pytest.approx(score[k] - paid[k], abs=1e-9)
            assert sum(b.amount for b in found.broken if b.cost == np.inf) == least
    assert conflicts > 20 or on_infeasible == "relax"
