"""Expectations files: what is written is what is read, and errors name the line."""

import pytest

from rulefield import rules as r
from rulefield.exceptions import RuleError
from rulefield.rules import expectation_text

GOOD = """
- name: names are nouns
  expect: share(ner='B-PER', pos='NOUN')
  between: [0.05, 0.06]
- "share(ner='B-PER', after={'ner': 'O'}).at_most(0.5)"
- expect: expected(segments('title') - 1, task='a')
  at_least: 0.2
- expect: r.share('X', given=r.feature('suffix=ing')).at_most(0.1)
- share('I-PER', after=['B-PER', 'I-PER']).at_least(0.01)
"""


def test_files_say_what_python_says():
    found = expectation_text.loads(GOOD)
    wanted = [
        r.share(ner="B-PER", pos="NOUN").between(0.05, 0.06).named("names are nouns"),
        r.share(ner="B-PER", after={"ner": "O"}).at_most(0.5),
        r.expected(r.segments("title") - 1, task="a").at_least(0.2),
        r.share("X", given=r.feature("suffix=ing")).at_most(0.1),
        r.share("I-PER", after=["B-PER", "I-PER"]).at_least(0.01),
    ]
    assert [repr(e) for e in found] == [repr(e) for e in wanted]
    assert [e.label for e in found] == [e.label for e in wanted]
    again = expectation_text.loads(expectation_text.dumps(found))
    assert [(repr(e), e.name) for e in again] == [(repr(e), e.name) for e in found]


def test_a_mapping_and_nothing():
    assert len(expectation_text.loads("expectations:" + GOOD.replace("\n", "\n  "))) == 5
    assert expectation_text.loads("") == []


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("- share('X')", "says no range"),
        ("- present('a')", "is not an expectation"),
        ("- present('a').between(1, 2)", "not a share or an expected number"),
        ("- share('a').soft(1)", "is not a rule, so it has no .soft"),
        ("- share('x').at_most('u')", "cannot be read"),
        ("- share('x', **{'a':1}).at_most(1)", "no meaning"),
        ("- expect: share('X')\n  between: [2, 1]", "needs low <= high"),
        ("- expect: share('X')\n  between: 3", "two finite numbers"),
        ("- expect: share('X')\n  at_most: " + "9" * 400, "one finite number"),
        ("- expect: share('X')\n  at_most: .nan", "one finite number"),
        ("- expect: share('X')\n  at_most: 1\n  at_least: 0", "not at_most and at_least"),
        ("- expect: share('X')\n  betwen: [1, 2]", "did you mean 'between'"),
        ("- expect: present('a')\n  at_most: 3", "must be a share"),
        ("- between: [1, 2]", "needs the key 'expect'"),
        ("- expect: __import__('os')\n  at_most: 1", "not a word of the rules language"),
        ("- 3", "must be an expectation or a mapping"),
    ],
)
def test_errors_name_the_line(entry, words):
    with pytest.raises(RuleError, match=r"mine.yaml, line 3: ") as error:
        expectation_text.loads("- share('a').at_most(1)\n\n" + entry, source="mine.yaml")
    assert words in str(error.value)


def test_files_that_are_not_there_or_not_lists(tmp_path):
    with pytest.raises(RuleError, match="the expectations file .* cannot be read"):
        expectation_text.load(tmp_path / "none.yaml")
    with pytest.raises(RuleError, match="an expectations file is a list"):
        expectation_text.loads("a: 1")
