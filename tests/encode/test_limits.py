"""No input hangs or exhausts: patterns, long tokens, compressed files, deep nesting, giant numbers."""

import gzip
import re
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rulefield import regexes
from rulefield import rules as r
from rulefield.cli.corpus import read_corpus
from rulefield.data.plain_json import DEEPEST, read_json
from rulefield.data.sequences import Sequences
from rulefield.encode.features import FeatureEncoder
from rulefield.encode.patterns import TokenClasses
from rulefield.encode.tokens import TokenFeatures
from rulefield.exceptions import InputError, RuleError
from rulefield.rules import expectation_text, text

PATTERNS = [r"^\d{4}$", r"(?i)ab+c", r"\bü\w+", r"[^a-z]", r"a(?=b)", r"(a)\1", r"^$", r"x{2,3}y", r"\{e\}", "é|ß"]
TEXTS = ["", "1999", "aABBC", "über", "ab", "aa", "xxxy", "{e}", "ß", "a\nb", "aé", "12"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_what_re_means(pattern):
    limited = regexes.limited(pattern)
    assert [limited.search(t) for t in TEXTS] == [re.search(pattern, t) is not None for t in TEXTS]
    assert [limited.fullmatch(t) for t in TEXTS] == [re.fullmatch(pattern, t) is not None for t in TEXTS]


def test_a_search_that_would_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr(regexes, "SECONDS", 0.1)
    monkeypatch.setattr(regexes.LimitedPattern.search, "__defaults__", (0.1,))
    with pytest.raises(InputError, match="takes more than 0.1 s"):
        r.token_matches("(a|a)*$")("a" * 40 + "!")
    with pytest.raises(InputError, match="takes more than"):
        TokenClasses({"x": "(a|aa)+"})("a" * 200 + "!")


def test_slow_texts_share_an_allowance():
    slow = regexes.limited("(a|a)*$")
    texts = ("a" * 20 + f"!{i}" for i in range(10_000))  # answers are remembered, so each text is another one
    allowance = regexes.Allowance(0.05)
    begun = time.process_time()
    with pytest.raises(InputError, match="takes more than"):
        [allowance.search(slow, text) for text in texts]
    assert time.process_time() - begun < 5
    assert_array_equal(r.token_matches("a").over(["a", "b"] * 50_000), [True, False] * 50_000)


@pytest.mark.parametrize(
    "pattern",
    ["((a{1000}){1000}){1000}", "(" * 5000 + ")" * 5000, "a{99999999999999999999}", "a" * 20_000, "(a", "x{2e}", "*"],
)
def test_patterns_beyond_the_limits_are_refused(pattern):
    with pytest.raises(RuleError, match="cannot be used") as error:
        r.token_matches(pattern)
    assert len(str(error.value)) < 300


LONG = 200_000


@pytest.mark.parametrize(
    "token",
    ["1" * LONG, "a" * LONG, "a" + "!" * LONG + "a", '"' * LONG + "a", "a-1:" * (LONG // 4), "a@." * (LONG // 3)],
    ids=["digits", "letters", "signs", "quotes", "ranges", "mail"],
)
def test_features_of_a_long_token_take_linear_time(token):
    features = TokenFeatures(marks=True)
    begun = time.process_time()
    features.transform([[token]])
    assert time.process_time() - begun < 5  # quadratic time: minutes


@pytest.mark.parametrize(
    ("token", "classes"),
    [("12-15", {"range"}), ("a1:b2", {"range"}), ("--1--2", {"range"}), ("1-", set()), ("!!x!!", {"lower"})],
)
def test_classes_of_short_tokens(token, classes):
    assert classes <= set(TokenClasses()(token))
    assert ("range" in TokenClasses()(token)) == ("range" in classes)


def test_a_compressed_bomb_is_refused(tmp_path):
    path = tmp_path / "bomb.conll.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(40):
            file.write((b"a" * 1022 + b" O\n") * (1 << 10))
    with pytest.raises(InputError, match="unpacks to more than 100 times"):
        read_corpus(str(path), labeled=True)
    path.write_bytes(path.read_bytes()[:1000] + b"\0" * 500)
    with pytest.raises(InputError, match="gzip"):
        read_corpus(str(path), labeled=True)


@pytest.mark.parametrize(
    "line",
    [
        '{"tokens": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"tokens": ' + "[" * 500 + "]" * 500 + "}",
        '{"tokens": [' + "9" * 5000 + "]}",
        '{"tokens": ["\\ud800"]}',
        '{"tokens": [',
    ],
    ids=["deep", "deep enough to be read", "digits", "surrogate", "cut"],
)
def test_json_that_cannot_be_used_names_file_and_line(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a"]}\n' + line + "\n")
    with pytest.raises(InputError, match=r"a.jsonl', line 2 is not JSON that can be read"):
        read_corpus(str(path), labeled=False)


def test_nesting_that_is_not_deep_is_read():
    wide = "[" + ",".join(["[]"] * (3 * DEEPEST)) + "]"
    assert len(read_json(wide)) == 3 * DEEPEST
    assert read_json('["\\ud83d\\ude00"]') == ["😀"]


@pytest.mark.parametrize(
    "entry",
    [
        "[" * 5000 + "]" * 5000,
        "- " + "[" * 50 + "]" * 50,
        "- {rule: present('a'), weight: " + "9" * 5000 + "}",
        "- 2024-99-99",
        "- &a [x, x]\n- [*a, *a]",
        "- 'a' * 999999999 == count('a')",
        "- None - 1 == count('a')",
        "- -'a' == count('a')",
        "- {rule: present('a'), weight: " + "9" * 400 + "}",
    ],
)
@pytest.mark.parametrize("loads", [text.loads, expectation_text.loads])
def test_rules_that_cannot_be_used_are_refused_with_the_place(entry, loads):
    with pytest.raises(RuleError, match=r"x\.yaml"):
        loads(entry, "x.yaml")


@pytest.mark.parametrize("value", [1e20, 10**400, float("inf"), float("nan"), -1e13])
def test_features_beyond_doubles_are_refused(value):
    with pytest.raises(InputError, match="token 0 of sequence 1: feature 'x'.* in magnitude"):
        FeatureEncoder().fit_transform([[{"y": 1}], [{"x": value}]])
    if not isinstance(value, int):
        with pytest.raises(InputError, match="row 1, column 0"):
            Sequences(np.array([[1.0], [value]]), [2])


def test_feature_dicts_nested_too_deeply_are_refused():
    deep = {"x": 1}
    for _ in range(3000):
        deep = {"x": deep}
    with pytest.raises(InputError, match="nested more than"):
        FeatureEncoder().fit_transform([[deep]])
