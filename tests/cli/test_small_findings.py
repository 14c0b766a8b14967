"""Mistakes that a newcomer makes: each gets one sentence that names the thing and the way out, or simply works."""

import re

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import rulefield as rf
from rulefield import rules as r
from rulefield.data.documents import Document
from rulefield.datasets import make_addresses, make_citations
from rulefield.exceptions import InputError, RuleError

TEXTS, SPANS = make_addresses(40, seed=0, noise=0, messy=True, plain=True)
LOGITS = [np.log(np.array([[0.7, 0.3], [0.2, 0.8]]))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    rf.TextParser(model=rf.ChainCRF(scheme="BIO")).fit(TEXTS, SPANS).save(folder / "m.rf")
    (folder / "t.txt").write_text("".join(f"{' '.join(text.split())}\n" for text in TEXTS))
    return folder


def test_one_rule_stands_for_a_list_and_a_text_is_named():
    one = rf.decode_scores(LOGITS, ["a", "t"], rules=r.segments("t") <= 0)
    assert one[0].labels == ["a", "a"]
    with pytest.raises(RuleError, match="read by rulefield.rules.parse_rule"):
        rf.decode_scores(LOGITS, ["a", "t"], rules=["segments('t') <= 1"])
    assert rf.decode_scores(LOGITS, ["a", "t"], rules=[r.parse_rule("segments('t') <= 0")])[0].labels == ["a", "a"]


def test_probabilities_in_place_of_scores_are_noticed():
    with pytest.warns(UserWarning, match=r"give np.log\(scores\)"):
        rf.decode_scores([np.exp(LOGITS[0])], ["a", "t"])


def test_labels_of_numpy_come_back_as_strings():
    assert type(rf.decode_scores(LOGITS, np.array(["a", "t"]))[0].labels[0]) is str


def test_features_that_are_the_default_can_be_searched():
    X, y = make_citations(12, seed=0)
    search = GridSearchCV(rf.ChainCRF(max_iter=3), {"features__window": [1, 2]}, cv=2).fit(X, y)
    assert search.best_estimator_.features.window in (1, 2)
    with pytest.raises(ValueError, match="rules is None"):
        rf.ChainCRF().set_params(rules__x=1)


def test_spans_of_a_parse_make_a_document_and_wrong_ones_are_named(folder):
    parse = rf.load(folder / "m.rf").parse(TEXTS[0])
    made = Document(TEXTS[0], spans=parse.spans)
    assert [span.score for span in made.spans] == [span.probability for span in parse.spans]
    with pytest.raises(InputError, match=r"text 0: a span must be \(start, end, label\); got 'x'"):
        rf.TextParser().fit(["abc def"], ["x"])


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ("- segments('city') = 1\n", "line 1: .*equal to is written =="),
        ("- segments('city') <= 1\n- segments('citty') <= 1\n", "r.yaml, line 2: .*did you mean 'city'"),
        ("- name: x\n  rule: segments('citty') <= 1\n", "r.yaml, line 2: .*did you mean 'city'"),
        ("", "holds no rule"),
        ("# none\n", "holds no rule"),
    ],
)
@pytest.mark.parametrize("command", ["parse", "predict"])
def test_a_rule_that_is_wrong_is_named_with_its_line(run, folder, rules, sentence, command):
    (folder / "r.yaml").write_text(rules)
    code, _, said = run(command, folder / "m.rf", folder / "t.txt", "--format", "lines", "--rules", folder / "r.yaml")
    assert code == 2
    assert re.search(sentence, said), said


def test_rules_about_labels_that_a_file_lacks_are_named_with_their_line(run, folder):
    (folder / "c.conll").write_text("a B-city\nb O\n\n")
    (folder / "c.yaml").write_text("- segments('city') <= 1\n- segments('citty') <= 1\n")
    code, _, said = run("rules", "check", folder / "c.yaml", "--labels", folder / "c.conll")
    assert (code, "c.yaml, line 2: " in said) == (2, True)


def test_an_unknown_label_in_a_rule_is_one_traceback(folder):
    with pytest.raises(RuleError, match="did you mean 'city'") as caught:
        rf.load(folder / "m.rf").parse(TEXTS[0], rules=[r.segments("citty") <= 1])
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_two_rules_of_one_name_are_noticed(folder):
    with pytest.warns(UserWarning, match="two rules are named 'a'"):
        r.load(
            _written(folder, "- {name: a, rule: segments('city') <= 1}\n- {name: a, rule: segments('zip') <= 1}\n")
        )


def _written(folder, text):
    (folder / "two.yaml").write_text(text)
    return folder / "two.yaml"


def test_columns_that_hold_no_predictions_are_not_scored(run, folder):
    (folder / "x.conll").write_text("a\tNN\tB-x\nb\tVB\tI-x\n\n")
    code, _, said = run("evaluate", folder / "x.conll")
    assert (code, "no label in common" in said) == (2, True)


def test_inspect_says_that_a_file_holds_a_parser(run, folder):
    _, out, _ = run("inspect", folder / "m.rf", "--top", "1")
    assert "parser" in out
    assert "tokenizer" in out


def test_lines_of_text_can_be_converted(run, folder):
    code, _, said = run("convert", folder / "t.txt", folder / "out.csv")
    assert (code, "--format lines" in said) == (2, True)
    assert run("convert", folder / "t.txt", folder / "out.csv", "--format", "lines")[0] == 0
    assert len((folder / "out.csv").read_text().splitlines()) == len(TEXTS) + 1


def test_a_report_on_learned_rules_is_short(run, folder):
    data = folder / "gold.jsonl"
    assert run("convert", _table(folder), data, "--to", "doccano")[0] == 0
    _, _, said = run("train", data, "-o", folder / "ruled.rf", "--rules", "learn", "--l2", "1", "--l1", "0")
    assert sum("importance" in line for line in said.splitlines()) <= 10


def _table(folder):
    from rulefield.encode.formats import write_documents

    write_documents(
        [Document(text, tuple(spans)) for text, spans in zip(TEXTS, SPANS)], folder / "gold.json", "label-studio"
    )
    return folder / "gold.json"
