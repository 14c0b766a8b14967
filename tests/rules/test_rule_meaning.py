"""What rules mean, checked by hand on small labelings."""

import pytest

from rulefield import rules as r
from rulefield.exceptions import InputError, RuleError


def amount(rule, labels, tokens=None, scheme=None):
    labels = labels.split()
    tokens = labels if tokens is None else tokens.split()
    return rule.violation(tokens, labels, scheme)


@pytest.mark.parametrize(
    ("rule", "labels", "expected"),
    [
        (r.before("a", "b"), "a b a", 1),
        (r.before("a", "b"), "a a b b", 0),
        (r.before("a", "b"), "b a a", 1),
        (r.before("a", "b", level="token"), "b a a", 2),
        (r.before("a", "b"), "b a c a", 2),
        (r.eventually("a", "b"), "a c b", 0),
        (r.eventually("a", "b"), "a b a c a", 2),
        (r.eventually("a", "b", level="token"), "a b a a", 2),
        (r.eventually("a", "b"), "b", 0),
        (r.followed_by("a", "b"), "a a b", 0),
        (r.followed_by("a", "b", level="token"), "a a b", 1),
        (r.followed_by("a", "b"), "a c a", 1),
        (r.followed_by("a", "b"), "c a", 0),
        (r.segments("a") <= 1, "a a b a", 1),
        (r.count("a") <= 1, "a a b a", 2),
        (r.count("a") >= 5, "a a b a", 2),
        (r.count("a") == r.count("b"), "a a b a", 2),
        (2 * r.count("b") - r.segments("a") == 1, "a b b a", 1),
        (r.count(["a", "b"]) <= 0, "a c b", 2),
        (r.count("*") <= 0, "a c b", 3),
        (r.present("a"), "b b", 1),
        (r.present("a"), "b a", 0),
        (r.absent("a"), "a a b a", 2),
        (r.absent("a", level="token"), "a a b a", 3),
        (r.first("a"), "a b", 0),
        (r.first("a"), "b a", 1),
        (r.last("a"), "a b", 1),
        (r.last("a"), "b a", 0),
        (r.all_of(r.present("a"), r.present("b"), r.present("c")), "d", 1),
        (r.any_of(r.present("a"), r.present("b")), "d b", 0),
        (r.implies(r.present("a"), r.count("b") >= 3), "a b", 1),
        (r.implies(r.present("a"), r.count("b") >= 3), "c b", 0),
        (r.iff(r.first("a"), r.last("b")), "a b", 0),
        (r.iff(r.first("a"), r.last("b")), "a c", 1),
        (r.exactly(1, r.present("a"), r.present("b")), "a b", 1),
        (r.at_most(1, r.present("a"), r.present("b")), "a c", 0),
        (r.at_least(2, r.present("a"), r.present("b"), r.present("c")), "a c", 0),
        (r.not_(r.before("a", "b")), "a b", 1),
        (r.not_(r.before("a", "b")), "b a b a", 0),
        (r.not_(r.not_(r.count("a") <= 0)), "a a a", 1),
    ],
    ids=str,
)
def test_amounts_without_a_scheme(rule, labels, expected):
    assert amount(rule, labels) == expected


@pytest.mark.parametrize(
    ("rule", "labels", "scheme", "expected"),
    [
        (r.segments("t") == 0, "B-t I-t B-t O", "BIO", 2),
        (r.count("t") == 0, "B-t I-t B-t O", "BIO", 3),
        (r.count("B-t") == 0, "B-t I-t B-t O", "BIO", 2),
        (r.count("I-*") == 0, "B-t I-t B-t O", "BIO", 1),
        (r.count("O") == 0, "B-t I-t B-t O O", "BIO", 2),
        (r.segments("O") == 0, "O B-t O O", "BIO", 2),
        (r.count("*") == 0, "B-t I-t B-t O", "BIO", 3),
        (r.segments("t") == 0, "I-t I-t B-t O I-t", "IOB1", 3),
        (r.segments("t") == 0, "B-t I-t E-t S-t O", "BIOES", 2),
        (r.segments("t") == 0, "B-t L-t U-t O", "BILOU", 2),
        (r.count("L-t") == 0, "B-t L-t U-t O", "BILOU", 1),
        (r.followed_by("t", "u"), "B-t I-t B-u", "BIO", 0),
        (r.followed_by("t", "u"), "B-t B-t B-u", "BIO", 1),
        (r.followed_by("t", "O"), "B-t I-t O B-u", "BIO", 0),
        (r.followed_by("t", "t"), "B-t I-t B-t O", "BIO", 1),
        (r.segments("p") == 0, "B-a/B-p I-a/B-p I-a/I-p B-a/B-p O", "BIO", 3),
        (r.segments("a") == 0, "B-a/B-p I-a/B-p I-a/I-p B-a/B-p O", "BIO", 2),
        (r.segments("a/p") == 0, "B-a/B-p I-a/B-p I-a/I-p B-a O", "BIO", 2),
        (r.count("I-a/B-p") == 0, "B-a/B-p I-a/B-p I-a/I-p B-a O", "BIO", 1),
        (r.count("*/B-p") == 0, "B-a/B-p I-a/B-p I-a/I-p B-p O", "BIO", 2),
        (r.count("**/B-p") == 0, "B-a/B-p I-a/B-p I-a/I-p B-p O", "BIO", 3),
        (r.segments("p") == r.segments("l"), "B-p/B-f I-p/B-l B-p/B-l B-p/B-f", "BIO", 1),
        (r.segments("a") == 0, "a/p a/q b a/p", None, 2),
        (r.segments("p") == 0, "a/p a/q b a/p c/p", None, 3),
        (r.segments("a/*") == 0, "a/p a/p a/q b a/p", None, 3),
    ],
    ids=str,
)
def test_amounts_under_schemes_and_in_hierarchies(rule, labels, scheme, expected):
    assert amount(rule, labels, scheme=scheme) == expected


@pytest.mark.parametrize(
    ("options", "labels", "expected"),
    [
        ({"prev": "a", "next": "b"}, "a c b", 0),
        ({"prev": "a", "next": "b"}, "a c c", 1),
        ({"prev": "a", "next": "b"}, "c c c", 0),
        ({"prev": "a", "next": "b", "require": True}, "c c c", 1),
        ({"prev": "a", "next": "b", "require": True}, "c c b", 1),
        ({"prev": "a"}, "c c b", 1),
        ({"here": "a"}, "c c b", 1),
        ({"here": "c", "next": "b"}, "c c a", 1),
        ({"prev": "a", "here": "b"}, "a b c", 0),
        ({"prev": "a", "here": "b", "next": "c"}, "a b a", 1),
        ({"prev": "a", "here": "b", "next": "c"}, "a a a", 0),
        ({"prev": "a", "here": "b", "next": "c", "then": "here"}, "a a c", 1),
        ({"prev": "a", "here": "b", "next": "c", "then": "here"}, "a a b", 0),
        ({"here": "b", "next": "c", "then": "here"}, "a a c", 1),
        ({"prev": "a", "next": "c", "then": "prev"}, "b b c", 1),
    ],
    ids=str,
)
def test_labels_around_a_token(options, labels, expected):
    assert amount(r.at(r.token_equals(","), **options), labels, "x , y") == expected


def test_tokens_without_the_neighbor_do_not_count():
    assert amount(r.at(r.token_equals(","), prev="a", next="b", require=True), "c c c", ", x ,") == 0
    assert amount(r.at(r.token_equals(","), here="a"), "c c c", ", x ,") == 2


def test_counts_where_tokens_meet_a_condition():
    assert amount(r.count("a", where=r.token_in(",", ".")) <= 0, "a a b a", ", x . .") == 2


@pytest.mark.parametrize(
    ("token", "condition", "expected"),
    [
        (",", r.token_equals(","), True),
        ((",", "PUNCT"), r.token_equals(","), True),
        ((",", "PUNCT"), r.feature("PUNCT"), True),
        ({"word": "1999", "is_digit": True}, r.token_matches(r"^\d{4}$"), True),
        ({"word": "1999", "is_digit": True}, r.feature("is_digit"), True),
        ({"word": "1999", "is_digit": False}, r.feature("is_digit"), False),
        ({"word": "x", "pos": "NNP"}, r.feature("pos=NNP"), True),
        (["word=x", "upper"], r.token_equals("x"), True),
        (["x", "upper"], r.token_equals("x"), True),
        (["word=x", "upper"], r.feature("upper"), True),
        ("in 1999", r.token_matches("99"), True),
    ],
)
def test_conditions_read_every_form_of_token(token, condition, expected):
    assert condition(token) is expected


def test_conditions_refuse_what_they_cannot_read():
    with pytest.raises(InputError, match="needs tokens with features"):
        r.feature("upper")("word")
    with pytest.raises(InputError, match="text of a token"):
        r.token_equals(",")({"shape": "Xx"})


def test_every_token_needs_a_label():
    with pytest.raises(InputError, match="3 tokens have 2 labels"):
        r.present("a").violation(["x", "y", "z"], ["a", "a"])


def test_nothing_but_present_and_counts_fails_without_tokens():
    held = [r.absent("a"), r.first("a"), r.last("a"), r.before("a", "b"), r.eventually("a", "b"), r.count("a") <= 0]
    assert [rule.violation([], []) for rule in held] == [0] * len(held)
    assert r.present("a").violation([], []) == 1


def test_costs():
    assert r.before("a", "b").cost(2) == float("inf")
    assert r.before("a", "b").soft(0.5).cost(2) == 1.0
    assert r.before("a", "b").soft(0.5, per="once").cost(2) == 0.5
    assert r.before("a", "b").cost(0) == 0.0
    with pytest.raises(RuleError, match="still to be learned"):
        r.before("a", "b").soft("learn").cost(1)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (r.token_not(r.token_equals(",")), [1, 0, 1, 0]),
        (r.token_all(r.token_equals(","), r.last_token()), [0, 0, 0, 1]),
        (r.previous_token(r.token_equals(",")), [0, 0, 1, 0]),
        (r.next_token(r.token_equals(",")), [1, 0, 1, 0]),
        (r.first_token(), [1, 0, 0, 0]),
        (r.last_token(), [0, 0, 0, 1]),
    ],
    ids=str,
)
def test_conditions_on_place_and_neighbors(condition, expected):
    assert condition.over(["x", ",", "y", ","]).tolist() == expected
    assert condition.over([]).tolist() == []


def test_the_scheme_is_guessed_unless_given():
    labels = ["B-t", "I-t", "O", "B-t"]
    assert (r.segments("t") == 0).violation(labels, labels) == 2
    assert (r.segments("B-t") == 0).violation(labels, labels, None) == 2
    assert (r.segments("t") == 0).violation(["x", "y"], ["t", "t"]) == 1


def test_each_at_most_once_counts_segments_beyond_the_first():
    labels = "a a b a c c O b O".split()
    assert r.each_at_most_once().violation(["t"] * 9, labels) == 2
    assert r.each_at_most_once("b").violation(["t"] * 9, labels) == 1
    assert r.each_at_most_once(but=["a"]).violation(["t"] * 9, labels) == 1
    assert r.each_at_most_once().violation(["t"] * 3, ["B-x", "B-x", "I-x"], "BIO") == 1
    with pytest.raises(RuleError, match="not both"):
        r.each_at_most_once("a", but=["b"])
    with pytest.raises(RuleError, match="types as strings"):
        r.each_at_most_once(but="b")
