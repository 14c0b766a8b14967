"""Proposed and mined rules: the counts behind them are those of the rules' own definition."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulefield import rules as r
from rulefield.encode.spans import convert
from rulefield.exceptions import InputError, RuleError
from rulefield.rules.finding.check import amounts_table, check, importance, prune
from rulefield.rules.finding.mine import FAMILIES, mine, mine_table, violation_cost
from rulefield.rules.finding.propose import propose

FLAT = ["a", "b", "c"]
TREE = ["O", "B-x/B-a", "I-x/B-a", "I-x/I-a", "B-c"]
FLAT_BIO = ["O", "B-a", "I-a", "B-b"]


def random_data(seed, labels, n_sequences=6, max_length=6):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, max_length + 1, n_sequences)
    y = [[labels[i] for i in rng.integers(0, len(labels), n)] for n in lengths]
    return [[("p", "q", ",")[i] for i in rng.integers(0, 3, n)] for n in lengths], y


SETS = st.sampled_from([(FLAT, None), (FLAT_BIO, "BIO"), (TREE, "BIO")])


# --- checking --------------------------------------------------------------------------------


def test_check_counts_what_violation_says():
    X, y = random_data(1, FLAT)
    rules = [
        r.segments("a") <= 1,
        r.before("a", "b"),
        r.at(r.token_equals(","), here="a"),
        r.present("c").soft("learn"),
    ]
    table = amounts_table(rules, X, y)
    assert table.tolist() == [[rule.violation(t, s) for t, s in zip(X, y)] for rule in rules]
    for found, row in zip(check(rules, X, y), table):
        assert found.sequences == len(y)
        assert found.broken == (row > 0).sum()
        assert found.amount == row.sum()
        assert found.holds == pytest.approx((row == 0).mean())


def test_sequences_with_unknown_labels_are_left_out():
    (found,) = check([r.present("a")], None, [["a", "b"], ["b", None], ["b", {"a", "b"}], ["b"]])
    assert (found.sequences, found.broken) == (2, 1)
    with pytest.raises(InputError, match="every label is known"):
        check([r.present("a")], None, [["a", None]])


def test_data_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="2 tokens has 1 labels"):
        check([r.present("a")], [["x", "y"]], [["a"]])
    with pytest.raises(InputError, match="as many sequences"):
        check([r.present("a")], [], [["a"]])
    with pytest.raises(InputError, match="'b' of y is not in the label set"):
        check([r.present("a")], None, [["b"]], labels=["a"])


# --- proposing -------------------------------------------------------------------------------


def test_templates_of_two_types():
    rules = propose([["a", "b"]], min_share=0)
    texts = {rule.text for rule in rules}
    assert "segments('a') <= 1" in texts
    assert "segments('a') + segments('b') <= 0" in texts
    assert "segments('a') + segments('b') >= 3" in texts
    assert "segments('b') - segments('a') <= 3" in texts
    # 4 singletons; sums <= 0..3 and >= 1..3; differences both ways <= 0..3 and >= 0..3, of which >= 0 repeats <= 0
    # lengths: >= 2, ..., 24 for two types; no sequence comes near to a limit
    assert len(rules) == 4 + 7 + 8 + 8 - 2 + 16
    assert all(rule.weight == "learn" and rule.name for rule in rules)
    assert len({rule.name for rule in rules}) == len(rules)


def test_lengths_are_limits_that_sequences_come_near_to():
    y = [["a"] * n + ["b"] for n in (3, 3, 4, 4, 4, 4, 5, 5, 6, 9)]
    rules = propose(y, scheme=None, families=["length"], min_share=0.8)
    assert [rule.text for rule in rules] == [
        "count('a') >= 2",
        "count('a') >= 3",
        "count('a') >= 4",
        "count('a') <= 6",
        "count('a') <= 8",
        "count('a') <= 12",
        "count('a') <= 16",
    ]
    assert rules[3].name == "at most 6 tokens of a"


def test_hierarchies_are_compared_with_what_they_hold():
    rules = propose([["B-x/B-a", "I-x/B-a"]], families=["hierarchy"], min_share=0)
    assert [rule.text for rule in rules] == [
        "segments('x') - segments('a') >= 0",
        "segments('x') - segments('a') <= 0",
    ]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), SETS, st.sampled_from([0.0, 0.5, 0.9]))
def test_proposed_rules_hold_in_the_share_asked_for(seed, kind, share):
    labels, scheme = kind
    _, y = random_data(seed, labels)
    every = propose(y, scheme, min_share=0, labels=labels)
    holds = [found.holds for found in check(every, None, y, scheme, labels)]
    kept = propose(y, scheme, min_share=share, labels=labels)
    assert kept == [rule for rule, h in zip(every, holds) if h >= share]


def test_importance_counts_sequences():
    rules = [r.present("a"), r.count("b") <= 0, r.absent("c"), r.present("b")]
    gold = [["a"], ["a"], ["b"]]
    predicted = [["b"], ["b", "b"][:1], ["b"]]
    scores = importance(rules, None, gold, predicted, labels=FLAT)
    assert scores.tolist() == [3.0, 3.0, 0.0, 0.0]
    assert importance([r.absent("b")], None, [["a"], ["a"]], [["b"], ["a"]]).tolist() == [np.inf]
    assert prune(rules, None, gold, predicted, labels=FLAT) == rules[:2]
    assert prune(rules, None, gold, predicted, cutoff=3.5, labels=FLAT) == []


# --- mining ----------------------------------------------------------------------------------


def test_cost_is_minus_log_of_the_share_broken():
    assert violation_cost(9, 1) == pytest.approx(log(11 / 1.5))
    assert violation_cost(1000, 0) > violation_cost(10, 0) > violation_cost(10, 5) > violation_cost(0, 5) > 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), SETS)
def test_violated_instances_are_the_amount_of_the_rule(seed, kind):
    labels, scheme = kind
    X, y = random_data(seed, labels)
    found = mine_table(X, y, scheme, min_support=0, min_confidence=0, delimiters=[","], labels=labels)
    amounts = amounts_table([m.rule for m in found], X, y, scheme, labels).sum(axis=1)
    for mined, amount in zip(found, amounts):
        assert mined.violated == amount
        assert mined.rule.weight == pytest.approx(violation_cost(mined.satisfied, mined.violated))
    assert [m.cost for m in found] == sorted((m.cost for m in found), reverse=True)


def cues(text, words, tokens):
    """Tokens that are the cue of a rule; the last one has nothing after it."""
    (cue,) = (
        w for w in ("p", "q", ",", "q,", "in lower case", "punctuation") if f"{w!r} " in words or f"{w} " in words
    )
    meets = {"in lower case": str.isalpha, "punctuation": lambda token: token == ","}.get(
        cue, lambda token: token == cue
    )
    return sum(meets(token) for token in (tokens[:-1] if "next=" in text else tokens))


def instances(m, tokens, labels):
    """For one sequence of plain labels, from the words of each family: the instances where a rule could fail."""
    runs, n = [], len(labels)
    for t, label in enumerate(labels):
        if t == 0 or labels[t - 1] != label:
            runs.append([label, t, t])
        runs[-1][2] = t
    if m.family == "token class":
        return labels.count(m.words.split()[1])
    if m.family == "cue":
        return cues(m.rule.text, m.words, tokens)
    a, b = m.names
    if m.family == "adjacency":
        return sum(label == a and last < n - 1 for label, _, last in runs)
    if m.family == "precedence":
        return sum(label == a for label, _, _ in runs)
    if m.family == "presence":
        return sum(label == a for label, _, _ in runs) if b in labels else 0
    if m.family == "begin-end":
        return int(labels[0] == a)
    if "prev=" in m.rule.text:
        return sum(tokens[t] == "," and labels[t - 1] == a for t in range(1, n - 1))
    return sum(len(tokens[t]) > 1 and tokens[t][-1] == "," and labels[t] == a for t in range(n - 1))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_counts_are_those_of_the_instances_where_a_rule_could_fail(seed):
    X, y = random_data(seed, FLAT, n_sequences=8)
    X = [["q," if t % 3 == 1 and w == "q" else w for t, w in enumerate(x)] for x in X]
    every = [*FAMILIES, "token class", "cue"]
    found = mine_table(X, y, None, every, min_support=0, min_confidence=0, delimiters=[","], labels=FLAT)
    seen = set()
    for m in found:
        seen.add(m.family)
        violated = sum(m.rule.violation(t, s, None) for t, s in zip(X, y))
        total = sum(instances(m, t, s) for t, s in zip(X, y))
        assert (m.satisfied, m.violated) == (total - violated, violated)
    assert seen >= {*FAMILIES, "cue"} - {"state change"}


def test_sequences_without_the_label_are_no_evidence():
    """Of the sequences that have both, most have b first: "no b before a" must not be found."""
    y = [["a", "c"]] * 100 + [["b", "a"]] * 8 + [["a", "b"]] * 2
    found = {m.rule.text: m for m in mine_table(None, y, min_confidence=0, families=["presence"], min_support=0)}
    assert (found["before('a', 'b')"].satisfied, found["before('a', 'b')"].violated) == (2, 8)
    assert "before('a', 'b')" not in {rule.text for rule in mine(None, y)}


def test_planted_rules_are_found():
    y = [["m", "a", "a", "t", "d"], ["m", "a", "t", "t", "d"], ["a", "t", "d"]] * 5
    X = [[",", "x", ",", "y", "z"], [",", "x", "y", ",", "z"], ["x", "y", ","]] * 5
    found = {(m.family, m.rule.text): m for m in mine_table(X, y)}
    assert found["adjacency", "followed_by('a', 't')"].satisfied == 15
    assert found["precedence", "eventually('m', 'd')"].confidence == 1
    assert ("precedence", "eventually('a', 't')") not in found, "right after says more on the same evidence"
    assert found["presence", "before('a', 't')"].satisfied == 15
    assert found["begin-end", "implies(first('m'), last('d'))"].satisfied == 10
    assert found["state change", "at(token_equals(','), prev='a', next='t')"].satisfied == 5
    assert ("adjacency", "followed_by('t', 'a')") not in found
    mined = found["adjacency", "followed_by('a', 't')"]
    assert str(mined) == f"right after a comes t (100.0% of 15, cost {log(16 / 0.5):.2f})"


def test_what_the_tokens_of_a_label_look_like():
    X = [["12", "Elm", "ME"], ["7", "Oak", "VT"], ["Old", "Mill", "NH"]] * 5
    y = [["n", "s", "t"], ["n", "s", "t"], ["s", "s", "t"]] * 5
    found = {m.words: m for m in mine_table(X, y, families=["token class"])}
    assert set(found) == {
        "every n is a number",
        "every n is something with a digit",
        "every s is capitalized",
        "every t is all capitals",
    }
    mined = found["every n is a number"]
    assert (mined.family, mined.satisfied, mined.violated) == ("token class", 10, 0)
    assert mined.rule.violation(["Old", "Mill", "NH"], ["n", "s", "t"]) == 1
    assert mined.rule.violation(["3", "Mill", "NH"], ["n", "s", "t"]) == 0
    with pytest.raises(RuleError, match="looks at tokens"):
        mine_table(None, y, families=["token class"])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), SETS)
def test_violated_tokens_are_the_amount_of_the_rule(seed, kind):
    labels, scheme = kind
    X, y = random_data(seed, labels)
    asked = {"families": ["token class", "cue"], "min_support": 0, "min_confidence": 0, "labels": labels}
    found = mine_table(X, y, scheme, **asked)
    amounts = amounts_table([m.rule for m in found], X, y, scheme, labels).sum(axis=1)
    assert [m.violated for m in found] == amounts.tolist()


@pytest.mark.parametrize("scheme", [None, "BIO", "BIOES"])
def test_what_cues_say_of_labels(scheme):
    X = [["x", "pp.", "3", "vol.", "7"], ["x", "y", "vol.", "2", "z"]] * 5
    plain = [["t", "p", "p", "n", "v"], ["t", "t", "n", "v", "t"]] * 5
    y = [segments_as(labels, scheme) for labels in plain]
    found = {m.words: m for m in mine_table(X, y, scheme, families=["cue"])}
    assert (found["after 'pp.' comes p"].satisfied, found["after 'vol.' comes v"].satisfied) == (5, 10)
    assert found["'vol.' begins n" if scheme else "'vol.' is in n"].satisfied == 10
    assert ("'vol.' is in n" in found) == (scheme is None), "that it begins n says more"
    assert ("'3' begins p" in found, "'3' is in p" in found) == (False, True)
    assert not any("'2' comes" in words for words in found if "z" not in words and "t" not in words)
    rule = found["after 'pp.' comes p"].rule
    assert rule.violation(X[0], segments_as(["t", "p", "t", "n", "v"], scheme), scheme) == 1


def segments_as(labels, scheme):
    """Runs of labels as prefixed labels."""
    if scheme is None:
        return labels
    bio = [("I-" if t and labels[t - 1] == label else "B-") + label for t, label in enumerate(labels)]
    return bio if scheme == "BIO" else list(convert(bio, "BIO", scheme))


def test_delimiters_may_end_tokens():
    """Where punctuation stays on the words, the label of the token that ends with the mark is the premise."""
    y = [["a", "t", "t", "d"], ["a", "a", "t", "d"]] * 5
    X = [["x,", "y", "y.", "1,"], ["x", "x,", "y.", ","]] * 5
    found = {m.rule.text: m for m in mine_table(X, y, families=["state change"])}
    assert set(found) == {
        r"at(token_matches('.,$'), here='a', next='t')",
        r"at(token_matches('.\\.$'), here='t', next='d')",
    }
    assert all(m.satisfied == 10 and m.violated == 0 for m in found.values())
    spoilt = [*X, ["x,", "y"]], [*y, ["a", "d"]]
    (mined,) = (m for m in mine_table(*spoilt, families=["state change"]) if "'a'" in m.rule.text)
    assert (mined.satisfied, mined.violated) == (10, 1)
    assert mined.rule.violation(["x,", "y"], ["a", "d"]) == 1
    assert mined.words == "t follows where a token with ',' ends a"


def test_mine_gives_rules_at_their_price_or_to_be_learned():
    y = [["a", "t"]] * 10
    rules = mine(None, y, price="eq30")
    assert all(isinstance(rule.weight, float) and rule.name for rule in rules)
    assert [rule.soft("learn") for rule in rules] == mine(None, y, price="learn")
    assert [rule.soft("auto") for rule in rules] == mine(None, y)
    with pytest.raises(RuleError, match="price must be"):
        mine(None, y, price="own")
    assert mine(None, y, min_support=11) == []


def test_mining_asks_for_what_it_needs():
    with pytest.raises(RuleError, match="looks at tokens"):
        mine(None, [["a", "b", "a"]], families=["state change"])
    with pytest.raises(RuleError, match="families are"):
        mine(None, [["a"]], families=["adjecency"])
    assert len(FAMILIES) == 5
