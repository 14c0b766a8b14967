"""Rules print as they are written, are read back as they were, and refuse bad spelling with the right one."""

import json
import pickle
from copy import deepcopy

import pytest
from hypothesis import given, settings

from oracles.rules import rule_cases
from rulefield import rules as r
from rulefield.exceptions import RuleError
from rulefield.rules import text
from rulefield.rules.parse import parse_rule

NAMES = {name: getattr(r, name) for name in r.__all__}


@settings(max_examples=300, deadline=None)
@given(rule_cases(max_rules=3))
def test_printed_rules_are_read_back(case):
    for rule in case.rules:
        named = rule.named("it's a name: # 1")
        assert eval(repr(rule), dict(NAMES)) == rule
        assert parse_rule(repr(named)) == named
        assert deepcopy(named) == pickle.loads(pickle.dumps(named)) == named
    assert text.loads(text.dumps(case.rules)) == case.rules
    assert text.from_dicts(json.loads(json.dumps(text.to_dicts(case.rules)))) == case.rules


@pytest.mark.parametrize(
    "written",
    [
        "segments('title') <= 1",
        "segments(['author', 'editor']) + 2 * count('x') - count('y', where=token_in(',', '.')) >= 1",
        "segments('person') == segments('person-last')",
        "(segments('title') <= 1).soft(2.5).named('one title')",
        "followed_by('volume', 'number', level=\"token\").soft(0.4, per=\"once\")",
        "implies(first('marker'), last('date')).soft('learn')",
        "before('a', 'b').soft('auto', per=\"once\").named('order')",
        "at(token_equals(','), prev='city', next='state', require=True)",
        "at_least(2, present('a'), not_(absent('b')), exactly(1, first('a'), last('b')))",
        "each_at_most_once()",
        "each_at_most_once('a', 'b')",
        "not_(each_at_most_once(but=['a']))",
        "all_of(any_of(before('a', 'b')), iff(eventually('a', 'b'), at(feature('x=1'), here='a')))",
        "at(token_matches('^\\\\d+$'), here='a').soft(1.0)",
    ],
)
def test_rules_print_as_they_are_written(written):
    rule = parse_rule(written)
    assert repr(rule) == written
    assert eval(written, dict(NAMES)) == rule


def test_the_file_format():
    rules = text.loads(
        """
        - name: one title
          rule: r.segments('title') <= 1
          weight: 2.5
        - {rule: "before('a', 'b')", weight: learn, per: once}
        - rule: present('a')
        - present('b').soft(1)
        """
    )
    assert rules == [
        (r.segments("title") <= 1).soft(2.5).named("one title"),
        r.before("a", "b").soft("learn", per="once"),
        r.present("a"),
        r.present("b").soft(1.0),
    ]
    assert text.loads("") == []
    assert text.loads("rules: [present('b')]") == [r.present("b")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- rule: present('a')\n- name: x\n  rule: segmnts('a') <= 1", r"line 3: .*did you mean 'segments'"),
        ("- 1 <= count('a') <= 2", r"line 1: .*all_of\(n >= 1, n <= 3\)"),
        ("- present('a') and present('b')", r"write all_of\(a, b\)"),
        ("- present('a') or present('b')", r"write any_of\(a, b\)"),
        ("- not present('a')", r"write not_\(a\)"),
        ("- present('a') >> present('b')", "joined with all_of"),
        ("- {rule: present('a'), wieght: 2}", "did you mean 'weight'"),
        ("- {rule: present('a'), weight: heavy}", 'number, "learn", "auto" or "hard"'),
        ("- {rule: present('a'), weight: -1}", "finite number >= 0"),
        ("- {rule: present('a'), weight: 1, per: twice}", '"unit" or "once"'),
        ("- name: x", "needs the key 'rule'"),
        ("- present(title)", "written in quotes"),
        ("- count('a') < 2", "n <= k - 1"),
        ("- __import__('os')", "not a word of the rules language"),
        ("- present('a').__class__", "no meaning in a rule"),
        ("- present('a').delete()", "not a word of the rules language"),
        ("- count('a')", "is not a rule"),
        ("- present(", "cannot be read"),
        ("- present()", "cannot be read"),
        ("- " + "not_(" * 2000 + "present('a')" + ")" * 2000, "cannot be read|too deeply"),
        ("- count('a') <= 2 ** 99", "counts are added"),
        ("- [1, 2]", "must be a rule or a mapping"),
        ("a: [", "line 1: not YAML"),
        ("a: 1", "is a list of rules"),
        ("- !!python/object:os.system {}", "not plain YAML"),
    ],
)
def test_errors_name_the_line_and_the_way_out(content, message):
    with pytest.raises(RuleError, match=message) as caught:
        text.loads(content, "rules.yaml")
    assert str(caught.value).startswith("rules.yaml, line ")


def test_files(tmp_path):
    rules = [r.before("a", "b").soft(1.5), (r.count("ü") <= 1).named("ä")]
    text.dump(rules, tmp_path / "rules.yaml")
    assert text.load(tmp_path / "rules.yaml") == rules
    with pytest.raises(RuleError, match="cannot be read"):
        text.load(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: bool(r.present("a")), "neither true nor false"),
        (lambda: r.present("a") and r.present("b"), r"all_of\(a, b\)"),
        (lambda: 1 <= r.count("a") <= 3, r"all_of\(n >= 1, n <= 3\)"),
        (lambda: (r.count("a") <= 3) <= 4, "chained comparison"),
        (lambda: r.count("a") < 1, "n <= k - 1"),
        (lambda: r.count("a") > 1, r"n >= k \+ 1"),
        (lambda: r.count("a") != 1, r"not_\(n == k\)"),
        (lambda: r.present("a") & r.present("b"), r"all_of\(a, b\)"),
        (lambda: r.present("a") | r.present("b"), r"any_of\(a, b\)"),
        (lambda: ~r.present("a"), r"not_\(a\)"),
        (lambda: bool(r.count("a")), "no value before"),
        (lambda: bool(r.token_in("a")), "neither true nor false"),
        (lambda: r.count("a") <= 1.5, "whole numbers only"),
        (lambda: r.count("a") * 1.5, "whole number"),
        (lambda: r.count("a") * r.count("b"), "whole number"),
        (lambda: r.count("a") <= "b", "whole numbers only"),
        (lambda: r.present(3), "label pattern"),
        (lambda: r.present([]), "label pattern"),
        (lambda: r.count("a", where="b"), "condition on tokens"),
        (lambda: r.at("x", prev="a"), "condition on tokens"),
        (lambda: r.at(r.token_in("x")), "at least one label"),
        (lambda: r.at(r.token_in("x"), prev="a", then="next"), "then must name"),
        (lambda: r.before("a", "b", level="word"), "level must be"),
        (lambda: r.implies(r.present("a"), "b"), "implies needs rules"),
        (lambda: r.all_of(), "at least one rule"),
        (lambda: r.all_of(r.present("a").soft(1)), "belong to the whole rule"),
        (lambda: r.any_of(r.present("a").named("x")), "belong to the whole rule"),
        (lambda: r.exactly(r.present("a"), 1), "whole number >= 0 first"),
        (lambda: r.present("a").soft(float("nan")), "finite number"),
        (lambda: r.present("a").soft(float("inf")), "finite number"),
        (lambda: r.present("a").soft(True), "finite number"),
        (lambda: r.present("a").named(""), "non-empty"),
        (lambda: r.token_matches("("), "regular expression"),
        (lambda: r.token_in(), "one or more strings"),
        (lambda: r.feature(""), "name of a feature"),
    ],
)
def test_wrong_spelling_is_answered_with_the_right_one(wrong, message):
    with pytest.raises(RuleError, match=message):
        wrong()
