"""Every compiled form says the amount that the definition says, for every labeling of small inputs."""

import pickle
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.rules import automaton_amounts, counters_amount, rows_amount, rule_cases, tally_amount
from rulefield import rules as r
from rulefield.exceptions import RuleError
from rulefield.rules import RuleCompiler, compile_rules


def check_forms(case):
    """Tally, counters and automaton agree with the definition; return the amounts by labeling."""
    (rule,) = case.rules
    (compiled,) = compile_rules(case.rules, case.labels, case.scheme, case.tokens)
    classes = compiled.token_class
    assert compiled.tally is not None or compiled.counters or compiled.automaton is not None
    amounts = []
    for y in case.labelings():
        amount = rule.violation(case.tokens, case.names(y), case.scheme)
        if compiled.tally is not None:
            assert tally_amount(compiled.tally, classes, y) == amount
        if compiled.counters:
            assert counters_amount(compiled.counters, classes, y) == amount
        if compiled.automaton is not None:
            assert automaton_amounts(compiled.automaton, classes, y) == [amount]
        assert amount <= compiled.max_amount
        amounts.append((y, amount))
    return compiled, amounts


@settings(max_examples=300, deadline=None)
@given(rule_cases(max_tokens=4, depth=0))
def test_facts_and_comparisons_compile_to_their_definition(case):
    check_forms(case)


@settings(max_examples=400, deadline=None)
@given(rule_cases(max_tokens=4, depth=2))
def test_nested_logic_compiles_to_its_definition(case):
    check_forms(case)


@settings(max_examples=120, deadline=None)
@given(rule_cases(max_tokens=3, depth=1), st.randoms(use_true_random=False))
def test_least_slack_of_rows_is_the_amount(case, random):
    compiled, amounts = check_forms(case)
    rows = compiled.make_rows()
    n, m = len(case.tokens), len(case.labels)
    for y, amount in random.sample(amounts, min(4, len(amounts))):
        assert rows_amount(rows, n, m, y) == amount


@settings(max_examples=150, deadline=None)
@given(rule_cases(max_tokens=4, max_rules=4, depth=2))
def test_amounts_of_all_rules_at_once(case):
    """Measured in one pass, rules have the amounts of their definition, for several inputs of different lengths."""
    compiler = RuleCompiler(case.rules, case.labels, case.scheme)
    rows = [(case.tokens, y) for y in list(case.labelings())[:20]]
    rows += [(case.tokens[:1], y[:1]) for _, y in rows[:3] if len(y) and compiler.labels.allowed[2][y[0]]]
    expected = [[rule.violation(x, case.names(y), case.scheme) for rule in case.rules] for x, y in rows]
    inputs, owner = [case.tokens, case.tokens[:1]], np.array([int(x is not case.tokens) for x, _ in rows], dtype=int)
    found = compiler.amounts_of_all(inputs, [y for _, y in rows], owner)
    assert found.toarray().tolist() == expected
    for (tokens, y), amounts in zip(rows[-4:], expected[-4:]):
        assert compiler.amounts(tokens, y).tolist() == amounts


def test_long_differences_inside_logic():
    rule = r.implies(r.present("a"), r.count("a") - 2 * r.count("b") == 1)
    labels, n = ["a", "b", "c"], 40
    (compiled,) = compile_rules([rule], labels, None, n)
    rng = np.random.default_rng(0)
    for _ in range(200):
        share = rng.random()
        y = np.where(rng.random(n) < share, 0, rng.integers(0, 3, n))
        expected = rule.violation(["x"] * n, [labels[i] for i in y])
        assert automaton_amounts(compiled.automaton, compiled.token_class, y) == [expected]


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "BILOU"])
def test_segments_need_no_edges_where_the_scheme_leaves_no_choice(scheme):
    prefixes = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU"}[scheme]
    labels = ["O"] + [f"{p}-{t}" for t in "ab" for p in prefixes]
    (compiled,) = compile_rules([r.segments("a") <= 1], labels, scheme, 5)
    assert compiled.counters[0].tally.edge is None
    assert compiled.counters[0].tally.first is None


def test_automata_are_small():
    labels = [f"l{i}" for i in range(30)]
    rules = [
        r.before("l1", "l2", level="token"),
        r.eventually("l1", "l2", level="token"),
        r.implies(r.present("l1"), r.present("l2")),
        r.any_of(*(r.present(label) for label in labels[:20])),
        r.all_of(*(r.absent(label) for label in labels[:20])),
    ]
    compiled = compile_rules(rules, labels, None, 5)
    assert [c.automaton.n_states for c in compiled] == [2, 2, 3, 2, 2]
    assert max(c.automaton.n_letters for c in compiled) <= 21


def test_tables_are_shared_between_inputs():
    labels = ["a", "b"]
    rules = [r.segments("a") <= 1, r.before("a", "b"), r.at(r.token_in(","), prev="a", next="b")]
    compiler = RuleCompiler(rules, labels, None)
    one, two = compiler(["x", ",", "y"]), compiler(["x", "y", ","])
    assert one[0] is two[0]
    assert one[1] is two[1]
    assert one[2].automaton is two[2].automaton
    assert one[2].token_class.tolist() == [0, 1, 0]
    assert compiler(["x"] * 4)[0].counters is one[0].counters
    assert compiler([{"word": "x"}, {"word": ","}, {"word": "y"}])[2].token_class.tolist() == [0, 1, 0]


def test_compilers_can_be_pickled():
    labels = ["O", "B-a", "I-a"]
    rules = [r.implies(r.present("a"), r.count("a") >= 2), r.at(r.token_in(","), here="a"), r.segments("a") <= 1]
    compiler = RuleCompiler(rules, labels, "BIO")
    compiler([","])
    other = pickle.loads(pickle.dumps(compiler))
    assert other.amounts(["x", ","], [1, 0]).tolist() == compiler.amounts(["x", ","], [1, 0]).tolist() == [1, 1, 0]


def test_open_weights_are_refused_and_amounts_do_not_ask_for_them():
    rules = [(r.segments("a") <= 1).soft("learn"), r.before("a", "b").soft(3), r.at(r.token_in(","), here="a")]
    compiler = RuleCompiler(rules, ["a", "b"], None)
    with pytest.raises(RuleError, match=r'"segments\(.a.\) <= 1" is still to be learned'):
        compiler(["x"])
    assert compiler.amounts(["x", ",", "x"], [0, 1, 0]).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (r.present("tittle"), r'rule "present\(.tittle.\)": .*did you mean .title.'),
        ((r.segments(["title", "authr"]) <= 1).named("few"), 'rule "few": .*did you mean .author.'),
        (r.present("zzz"), r"known names are author, title\."),
        (r.present("title/author"), "matches no label"),
    ],
)
def test_unknown_labels_are_named_with_the_nearest(rule, message):
    with pytest.raises(RuleError, match=message):
        compile_rules([rule], ["O", "B-title", "I-title", "B-author"], "BIO", 3)


def test_prefixed_labels_without_a_scheme_say_so():
    with pytest.raises(RuleError, match="give the scheme"):
        compile_rules([r.present("title")], ["O", "B-title"], None, 3)


def test_rules_too_large_for_an_automaton_keep_their_rows_and_their_amount():
    counts = [r.count(f"l{i}") - r.count(f"l{i + 1}") == 0 for i in range(0, 8, 2)]
    compiler = r.RuleCompiler([r.any_of(*counts)], [f"l{i}" for i in range(9)])
    (rule,) = compiler(100)
    assert rule.automaton is None
    assert len(rule.make_rows().bound) > 0
    assert rule.find_amount(np.zeros(100, np.int64)) == 0  # 0 of l2 and 0 of l3
    assert rule.find_amount(np.array([0, 2, 4, 6] * 25)) == 1
    with pytest.raises(RuleError, match="more than 10000 states, so its amounts cannot be measured in bulk"):
        compiler.amounts(100, np.zeros(100, np.int64))
    with pytest.raises(
        RuleError, match="only its linear rows are known, which segments and joint chains cannot read"
    ):
        rule.relabeled(np.arange(9))


def test_numbers_too_large_for_the_tables_say_so():
    with pytest.raises(RuleError, match="must lie within"):
        compile_rules([10**12 * r.count("a") <= 1], ["a"], None, 3)


def test_rules_that_read_tokens_need_them():
    with pytest.raises(RuleError, match="only the number of tokens is known"):
        compile_rules([r.at(r.token_in(","), here="a")], ["a"], None, 3)


def test_only_rules_are_rules():
    with pytest.raises(RuleError, match="written with the functions"):
        compile_rules(["present('a')"], ["a"], None, 3)


def test_logic_over_every_two_facts_is_its_definition():
    """Truths of all kinds of facts side by side, settled and idle ones included."""
    comma = r.token_in(",")
    facts = [
        *(r.present("a"), r.absent("b"), r.first("a"), r.last("c"), r.before("a", "b"), r.eventually("a", "c")),
        *(r.followed_by("a", "b"), r.at(comma, prev="a", next="b"), r.at(comma, here="c")),
        *(r.count("a") >= 2, r.count("a") == r.count("b"), r.segments("c") <= 1, r.count("b") + 1 <= 0),
    ]
    kinds = [
        r.all_of,
        r.any_of,
        r.implies,
        r.iff,
        partial(r.exactly, 1),
        partial(r.at_most, 1),
        partial(r.at_least, 2),
    ]
    rules = [kind(a, b) for kind in kinds for a, b in combinations(facts, 2)] + [r.not_(fact) for fact in facts]
    labels, tokens = ["a", "b", "c"], ["x", ",", "x", ","]
    every = [np.array(y) for y in product(range(3), repeat=4)]
    compiler = RuleCompiler(rules, labels)
    found = compiler.amounts_of_all([tokens], every, np.zeros(len(every), np.int64)).toarray()
    for y, amounts in list(zip(every, found))[::3]:
        world = [labels[i] for i in y]
        assert amounts.tolist() == [rule.violation(tokens, world, None) for rule in rules]
