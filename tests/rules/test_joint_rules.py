"""Rules that name tasks: how they are written and read back, what they mean, and what is refused."""

import re

import pytest

from rulefield import rules as r
from rulefield.exceptions import RuleError
from rulefield.rules import text
from rulefield.rules.joint import JointRuleCompiler
from rulefield.rules.parse import parse_rule

TASKS = {"ner": (["O", "B-PER", "I-PER", "B-ORG"], "BIO"), "pos": (["NOUN", "VERB", "O"], None)}
TOKENS = ["Ada", "Lovelace", "wrote"]
LABELS = {"ner": ["B-PER", "I-PER", "O"], "pos": ["NOUN", "NOUN", "VERB"]}
EXAMPLES = {
    "segments('PER', task='ner') <= 1": 0,
    "count('NOUN', where=token_in('Ada', 'wrote'), task='pos') == 2": 1,
    "count({'ner': 'PER', 'pos': ['NOUN', 'VERB']}) <= 0": 2,
    "segments({'ner': 'PER', 'pos': 'NOUN'}) == 1": 0,
    "present('ORG', task='ner')": 1,
    "absent({'ner': 'PER', 'pos': 'NOUN'}, level=\"token\")": 2,
    "before({'ner': 'PER'}, {'pos': 'VERB'})": 0,
    "before({'pos': 'VERB'}, {'ner': 'PER'})": 1,
    "before('VERB', 'NOUN', level=\"token\", task='pos')": 1,
    "followed_by({'ner': 'PER'}, {'pos': 'NOUN'})": 1,
    "eventually({'ner': 'PER', 'pos': 'NOUN'}, 'VERB')": 0,
    "at(token_equals('Ada'), here={'ner': 'B-PER', 'pos': 'NOUN'})": 0,
    "at(any_token(), here={'ner': 'PER'}, next={'pos': 'NOUN'})": 1,
    "at(any_token(), prev='PER', here='ORG', then='prev', task='ner')": 0,
    "implies(present('PER', task='ner'), last('VERB', task='pos'))": 0,
}


@pytest.mark.parametrize(("written", "amount"), EXAMPLES.items())
def test_rules_over_tasks_read_back_as_written_and_mean_what_they_say(written, amount):
    rule = parse_rule(written)
    assert repr(rule) == written
    assert text.loads(text.dumps([rule])) == [rule]
    assert rule.violation(TOKENS, LABELS, {"ner": "BIO", "pos": None}) == amount
    JointRuleCompiler([rule], TASKS)


def test_a_task_may_be_named_in_two_ways():
    assert r.present({"ner": "PER"}) == r.present("PER", task="ner")
    assert r.before({"ner": "PER"}, {"ner": "ORG"}) == r.before("PER", "ORG", task="ner")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (r.present("O"), "matches labels of the tasks ner and pos; say which: task='ner'"),
        (r.present("ORK"), "the pattern 'ORK' matches no label; did you mean 'ORG'?"),
        (r.present(["PER", "NOUN"]), "matches labels of the tasks ner and pos"),
        (r.present("NOUN", task="ner"), "the pattern 'NOUN' matches no label"),
        (r.present("PER", task="near"), "names the task 'near', which is unknown; did you mean 'ner'?"),
        (r.present({"ner": "PER", "pos": "VREB"}), "did you mean 'VERB'?"),
    ],
)
def test_unclear_names_are_refused(rule, message):
    with pytest.raises(RuleError, match=re.escape(message)):
        JointRuleCompiler([rule], TASKS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: r.present({}),
        lambda: r.present({"ner": {"pos": "NOUN"}}),
        lambda: r.present({"ner": "PER"}, task="ner"),
        lambda: r.count("PER", task=3),
        lambda: r.present({1: "PER"}),
        lambda: r.expected(r.segments("PER", task="ner") + r.segments("NOUN", task="pos")),
    ],
)
def test_nonsense_is_refused_where_it_is_written(make):
    with pytest.raises(RuleError):
        make()


def test_a_chain_of_one_task_takes_no_tasks():
    with pytest.raises(RuleError, match="names a task, but there is only one task here"):
        r.RuleCompiler([r.present("PER", task="ner")], ["O", "B-PER"], "BIO")
    with pytest.raises(RuleError, match="names a task, but there is only one task here"):
        r.present({"ner": "PER", "pos": "NOUN"}).violation(["x"], ["PER"])
