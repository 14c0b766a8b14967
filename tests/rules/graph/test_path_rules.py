"""Rules of sequences along the paths of a graph: the compiled forms against the definition, by enumeration."""

import itertools

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import RuleError
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.result import Status
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.rules.graph.compiler import GraphRuleCompiler
from rulefield.rules.nodes import paths_of, violation_on_graph
from rulefield.rules.text import from_dicts, to_dicts

LABELS = ["B", "E", "I", "S"]
# 3 -> 0 -> 4 is a path; 1 leads to two nodes and 2 is led to from two, so that they stand alone
PAIRS = np.array([[3, 0], [0, 4], [1, 2], [1, 5], [5, 2]])
GRAPH = TypedGraph({"line": 6}, {("line", "line"): PAIRS}, {"below": ("line", "line", PAIRS)})
RULES = [
    r.followed_by(["B", "I"], ["I", "E"], level="token"),
    r.followed_by(["E", "S"], ["B", "S"], level="token"),
    r.first(["B", "S"]),
    r.last("E"),
    r.before("B", "E", level="token"),
    r.eventually("B", "E"),
    r.count("B") <= 1,
    r.segments("I") <= 0,
    r.implies(r.present("B"), r.present("E")),
    r.at(r.last_token(), here=["E", "S"]),
    r.absent("I", level="token"),
]


def test_paths_are_runs_of_only_successors():
    assert paths_of(GRAPH, "below") == ("line", [(1,), (2,), (3, 0, 4), (5,)])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_the_best_labeling_is_that_of_the_definition(rule):
    """Hard, and at a price."""
    rng = np.random.default_rng(len(rule.text))
    whole = r.along("below", rule)
    ways = np.array(list(itertools.product(range(4), repeat=6)))
    amounts = np.array([violation_on_graph(whole, GRAPH, {"line": [LABELS[k] for k in y]}) for y in ways])
    for weight in (np.inf, 0.7):
        unary, pairwise = rng.normal(size=24), 0.5 * rng.normal(size=16 * len(PAIRS))
        potentials = GraphPotentials(np.full(6, 4), unary, PAIRS, pairwise)
        priced = whole if weight == np.inf else whole.soft(weight)
        factors, rows = GraphRuleCompiler([priced], {"line": LABELS}).compile(GRAPH)
        found = decode_graph(GraphProblem(potentials, factors, rows))
        worth = np.array([potentials.score(y) for y in ways])
        worth[amounts > 0] -= weight * amounts[amounts > 0]
        assert found.status is Status.optimal
        assert found.objective == pytest.approx(worth.max(), abs=1e-6)
        amount = amounts[(ways == found.labels).all(axis=1)]
        assert sum(broken.amount for broken in found.broken) == pytest.approx(amount.item())


def test_rules_along_paths_round_trip_through_text_and_refuse_what_has_no_meaning():
    rule = r.along("below", r.followed_by("B", ["I", "E"])).soft(2.0).named("cells")
    assert to_dicts(from_dicts(to_dicts([rule]))) == to_dicts([rule])
    with pytest.raises(RuleError, match="rule of sequences"):
        r.along("below", r.this().is_("B"))
    with pytest.raises(RuleError, match="stands by itself"):
        violation_on_graph(r.not_(r.along("below", r.present("B"))), GRAPH, {"line": ["B"] * 6})
    with pytest.raises(RuleError, match="inside one type"):
        paths_of(TypedGraph({"a": 1, "b": 1}, {}, {"on": ("a", "b", [[0, 0]])}), "on")
    with pytest.raises(RuleError, match="circles"):
        paths_of(TypedGraph({"a": 2}, {}, {"next": ("a", "a", [[0, 1], [1, 0]])}), "next")
    once = r.along("below", r.present("B")).soft(1.0, per="once")
    with pytest.raises(RuleError, match="unit of violation"):
        GraphRuleCompiler([once], {"line": LABELS}).compile(GRAPH)
