"""Rules on graphs: their meaning, their text, and their compiled forms, by enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rulefield import rules as r
from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import RuleError
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.result import Status
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.rules.graph.compiler import GraphRuleCompiler
from rulefield.rules.nodes import for_each, how_many, node, nodes, related, this, violation_on_graph
from rulefield.rules.text import from_dicts, to_dicts

CLASSES = {"block": ["title", "text", "note"], "page": ["cover", "body"]}
GRAPH = TypedGraph(
    {"block": 3, "page": 2},
    {("block", "page"): np.array([[0, 0], [1, 0], [2, 1]])},
    {
        "blocks": ("page", "block", np.array([[0, 0], [0, 1], [1, 2]])),
        "pages": ("block", "page", [[0, 0], [1, 0], [2, 1]]),
    },
)
N_LABELS = np.array([3, 3, 3, 2, 2])


def every_labeling():
    for y in itertools.product(*[range(k) for k in N_LABELS]):
        yield (
            np.array(y),
            {"block": [CLASSES["block"][k] for k in y[:3]], "page": [CLASSES["page"][k] for k in y[3:]]},
        )


statements = st.one_of(
    st.builds(
        lambda t, k, label: node(t, k).is_(label),
        st.just("block"),
        st.integers(0, 2),
        st.one_of(st.sampled_from(CLASSES["block"]), st.just(["title", "note"])),
    ),
    st.builds(lambda k, label: node("page", k).is_(label), st.integers(0, 1), st.sampled_from(CLASSES["page"])),
)
sets = st.sampled_from(
    [
        nodes("block").is_("title"),
        nodes("block").is_(["text", "note"]),
        nodes("page").is_("cover"),
        related("blocks", of=node("page", 0)).is_("text"),
    ]
)
inner_sets = st.one_of(
    sets, st.sampled_from([related("blocks").is_("title"), related("blocks").is_(["title", "note"])])
)


def counted(parts):
    number = st.integers(0, 3)
    lists = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda n, p: r.at_most(n, *p), number, lists),
        st.builds(lambda n, p: r.at_least(n, *p), number, lists),
        st.builds(lambda n, p: r.exactly(n, *p), number, lists),
        st.builds(lambda p: r.any_of(*p), lists),
        st.builds(lambda p: r.all_of(*p), lists),
    )


def compared(parts):
    return st.builds(
        lambda a, b, k, sign: {"<=": a - b <= k, ">=": a >= k, "==": 2 * a - b == k}[sign],
        st.builds(how_many, parts),
        st.builds(how_many, parts),
        st.integers(-1, 3),
        st.sampled_from(["<=", ">=", "=="]),
    )


def logic(children):
    return st.one_of(
        st.builds(r.implies, children, children),
        st.builds(r.iff, children, children),
        st.builds(r.not_, children),
        counted(st.one_of(children, sets)),
    )


flat = st.one_of(statements, counted(st.one_of(statements, sets)), compared(sets))
outer = st.recursive(flat, logic, max_leaves=4)
here = st.just(this().is_("cover"))
per_page = st.one_of(
    counted(st.one_of(inner_sets, here)),
    compared(inner_sets),
    st.builds(r.implies, here, counted(inner_sets)),
    st.builds(r.iff, here, counted(inner_sets)),
)
whole = st.one_of(outer, st.builds(lambda body: for_each("page", body), per_page))
rules = st.one_of(
    whole,
    st.builds(
        lambda a, w, per: a.soft(w, per=per), whole, st.sampled_from([0.5, 2.0]), st.sampled_from(["unit", "once"])
    ),
)


def world_cost(rule_list, labels):
    return sum(rule.cost(violation_on_graph(rule, GRAPH, labels)) for rule in rule_list)


@settings(max_examples=120, deadline=None)
@given(st.lists(rules, min_size=1, max_size=3), st.integers(0, 10**6))
def test_the_engine_on_compiled_rules_finds_the_best_by_definition(rule_list, seed):
    rng = np.random.default_rng(seed)
    edges = np.array([[0, 3], [1, 3], [2, 4]])
    potentials = GraphPotentials(N_LABELS, rng.normal(size=13), edges, rng.normal(size=18))
    logic_factors, rows = GraphRuleCompiler(rule_list, CLASSES).compile(GRAPH)
    result = decode_graph(GraphProblem(potentials, logic_factors, rows))
    best = max(potentials.score(y) - world_cost(rule_list, labels) for y, labels in every_labeling())
    if best == -np.inf:
        assert result.status is Status.infeasible
    else:
        assert result.status is Status.optimal
        assert_allclose(result.objective, best, atol=1e-6)
        names = {
            "block": [CLASSES["block"][k] for k in result.labels[:3]],
            "page": [CLASSES["page"][k] for k in result.labels[3:]],
        }
        assert_allclose(result.score - world_cost(rule_list, names), best, atol=1e-6)


@settings(max_examples=100, deadline=None)
@given(rules)
def test_rules_come_back_from_their_text(rule):
    (again,) = from_dicts(to_dicts([rule]))
    assert again == rule
    assert from_dicts([repr(rule)]) == [rule]


def test_the_issue_example():
    rule = for_each("page", r.at_most(1, related("blocks").is_("title")))
    assert repr(rule) == "for_each('page', at_most(1, related('blocks').is_('title')))"
    labels = {"block": ["title", "title", "title"], "page": ["body", "body"]}
    assert violation_on_graph(rule, GRAPH, labels) == 1
    logic_factors, rows = GraphRuleCompiler([rule], CLASSES).compile(GRAPH)
    assert logic_factors.n_factors == 1
    assert rows.n_rows == 0


A, B, C = (node("block", k).is_("title") for k in range(3))
OPERATORS = {
    "XOR": (r.exactly(1, A, B, C), {(0, 0, 1), (0, 1, 0), (1, 0, 0)}),
    "ATMOSTONE": (r.at_most(1, A, B, C), {(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)}),
    "OR": (r.any_of(A, B, C), set(itertools.product((0, 1), repeat=3)) - {(0, 0, 0)}),
    "XOROUT": (r.all_of(r.at_most(1, A, B), r.iff(C, r.any_of(A, B))), {(0, 0, 0), (0, 1, 1), (1, 0, 1)}),
    "OROUT": (r.iff(C, r.any_of(A, B)), {(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)}),
    "ANDOUT": (r.iff(C, r.all_of(A, B)), {(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1)}),
    "IMPLY": (r.implies(r.all_of(A, B), C), set(itertools.product((0, 1), repeat=3)) - {(1, 1, 0)}),
    "BUDGET": (r.at_most(2, A, B, C), set(itertools.product((0, 1), repeat=3)) - {(1, 1, 1)}),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_operators_of_the_paper(name):
    rule, feasible = OPERATORS[name]
    factors, rows = GraphRuleCompiler([rule], CLASSES).compile(GRAPH)
    assert rows.n_rows == 0  # each is said by logic factors alone
    for truth in itertools.product((0, 1), repeat=3):
        labels = {"block": ["title" if x else "text" for x in truth], "page": ["body", "body"]}
        assert (violation_on_graph(rule, GRAPH, labels) == 0) == (truth in feasible)
        numbers = np.array([0 if x else 1 for x in truth] + [1, 1])
        assert (not factors.broken(numbers).any()) == (truth in feasible)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: nodes("block").is_("title"), "stands for many nodes"),
        (lambda: r.implies(nodes("block").is_("title"), A), "stands for many nodes"),
        (lambda: this().is_("title"), "only inside for_each"),
        (lambda: r.at_most(1, this().is_("title")), "only inside for_each"),
        (lambda: r.at_most(1, related("blocks").is_("title")), "needs a node"),
        (lambda: for_each("block", r.at_most(1, related("blocks").is_("title"))), "says nothing of a 'block'"),
        (lambda: r.at_most(1, related("lines", of=node("page", 0)).is_("title")), "no relation 'lines'"),
        (lambda: node("block", 7).is_("title"), "does not exist"),
        (lambda: r.at_most(1, node("block", 7).is_("title")), "does not exist"),
        (lambda: node("line", 0).is_("title"), "'line'"),
        (lambda: node("block", 0).is_("titel"), "did you mean 'title'"),
        (lambda: r.any_of(nodes("block").is_("cover")), "no label 'cover'"),
        (lambda: node("block", -1), "whole number"),
        (lambda: node("block", 0).is_([]), "is_ needs a label"),
        (lambda: related("blocks", of="page"), "of must be a node"),
        (lambda: how_many(r.any_of(A)), "counts nodes"),
        (lambda: r.segments("title") <= 1, "sequence"),
        (lambda: A.soft("learn"), "still to be learned"),
    ],
)
def test_mistakes_are_explained(write, message):
    with pytest.raises(RuleError, match=message):
        GraphRuleCompiler([write()], CLASSES).compile(GRAPH)
