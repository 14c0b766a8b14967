"""Scores against definitions: sets of chunks found by conlleval's tables, plain counting."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from oracles.label_schemes import conlleval_chunks, pieces, split
from rulefield import metrics
from rulefield.exceptions import InputError, LabelError

TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]
BIOES = [*TAGS, "E-x", "S-x", "E-y", "S-y"]


def pairs(tags):
    pair = st.lists(st.tuples(st.sampled_from(tags), st.sampled_from(tags)), max_size=7)
    return st.lists(pair, min_size=1, max_size=4)


def chunk_set(y, find):
    return {(i, *chunk) for i, labels in enumerate(y) for chunk in find(labels)}


def unzip(data):
    return [[a for a, _ in seq] for seq in data], [[b for _, b in seq] for seq in data]


@pytest.mark.parametrize(("tags", "scheme"), [(TAGS, "BIO"), (TAGS, "IOB1"), (BIOES, "BIOES")])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_span_counts_are_those_of_conlleval(tags, scheme, data):
    y_true, y_pred = unzip(data.draw(pairs(tags)))
    gold, found = chunk_set(y_true, conlleval_chunks), chunk_set(y_pred, conlleval_chunks)
    counts = metrics.span_counts(y_true, y_pred, scheme=scheme)
    total = metrics._total(counts)
    assert total == (len(gold & found), len(found), len(gold))
    for kind in "xy":
        of_kind = [{c for c in s if c[-1] == kind} for s in (gold & found, found, gold)]
        assert counts.get(kind, (0, 0, 0)) == tuple(map(len, of_kind))
    p, r = (len(gold & found) / max(1, len(s)) for s in (found, gold))
    assert metrics.span_precision(y_true, y_pred, scheme=scheme) == pytest.approx(p)
    assert metrics.span_recall(y_true, y_pred, scheme=scheme) == pytest.approx(r)
    assert metrics.span_f1(y_true, y_pred, scheme=scheme) == pytest.approx(2 * p * r / (p + r) if p + r else 0)


def test_levels_of_hierarchical_labels():
    true = [["B-a/B-x", "I-a/I-x", "I-a/B-x", "O"]]
    pred = [["B-a/B-x", "I-a/B-x", "I-a/I-x", "O"]]
    expected = pieces([split(label) for label in true[0]], "BIO")
    assert metrics._total(metrics.span_counts(true, true)).gold == len(expected) == 3
    assert metrics.span_counts(true, pred, level=0) == {"a": (1, 1, 1)}
    assert metrics.span_counts(true, pred, level=1) == {"a/x": (0, 2, 2)}
    assert metrics.span_f1(true, pred) == pytest.approx(1 / 3)


def test_plain_labels_are_runs_without_o():
    counts = metrics.span_counts([["a", "a", "O", "b"]], [["a", "b", "O", "b"]])
    assert counts == {"a": (0, 1, 1), "b": (1, 2, 1)}


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-x", "I-x"], "BIO"),
        (["O"], "BIO"),
        (["B-x", "E-x"], "BIOES"),
        (["B-x", "L-x", "I-x"], "BILOU"),
        (["O", "I-x", "E-x"], "IOE2"),
        (["x", "B-x"], "none"),
        (["B-a/B-b", "I-a/O"], "BIO"),
        ([1, 2], "none"),
    ],
)
def test_guess_scheme(labels, scheme):
    assert metrics.guess_scheme(labels) == scheme


@settings(max_examples=60, deadline=None)
@given(pairs(["a", "b", "c"]).filter(lambda d: any(d)))
def test_token_scores_are_those_of_scikit_learn(data):
    y_true, y_pred = unzip(data)
    true, pred = list(chain(*y_true)), list(chain(*y_pred))
    assert metrics.token_accuracy(y_true, y_pred) == pytest.approx(np.mean(np.array(true) == np.array(pred)))
    for average in ("micro", "macro", "weighted"):
        expected = f1_score(true, pred, average=average, zero_division=0)
        assert metrics.token_f1(y_true, y_pred, average=average) == pytest.approx(expected)
    wrong = sum(a != b for a, b in zip(y_true, y_pred))
    assert metrics.sequence_accuracy(y_true, y_pred) == pytest.approx(1 - wrong / len(y_true))


def test_partial_gold():
    true, pred = [["a", None, {"a", "b"}, "b"]], [["a", "b", "b", "a"]]
    assert metrics.token_accuracy(true, pred) == 0.5
    for score in (metrics.span_f1, metrics.sequence_accuracy):
        with pytest.raises(LabelError, match="token 1 of sequence 0 is not exactly known"):
            score(true, pred)


def test_lengths_that_disagree_are_named():
    with pytest.raises(LabelError, match="sequence 1 has 1 tokens in y_true but 2 labels in y_pred"):
        metrics.span_f1([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(LabelError, match="y_true has 1 sequences but y_pred has 2"):
        metrics.token_accuracy([["O"]], [["O"], ["O"]])
    with pytest.raises(InputError, match="average"):
        metrics.span_f1([["O"]], [["O"]], average="mean")


def test_nothing_to_find():
    assert metrics.span_f1([["O", "O"], []], [["O", "O"], []]) == 0.0
    assert metrics.token_accuracy([], []) == 0.0
    assert metrics.sequence_accuracy([], []) == 0.0


def test_reports():
    true, pred = [["B-x", "I-x", "O", "B-y"]], [["B-x", "I-x", "O", "B-x"]]
    table = metrics.span_report(true, pred, output_dict=True)
    assert table["x"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 1}
    assert table["micro avg"]["f1"] == 0.5
    assert table["macro avg"]["f1"] == pytest.approx(1 / 3)
    text = metrics.span_report(true, pred)
    assert text.splitlines()[2].split() == ["x", "50.00", "100.00", "66.67", "1"]
    assert "micro avg" in text
    assert "O" in metrics.token_report(true, pred, output_dict=True)
    assert "O" not in metrics.token_report(true, pred, output_dict=True, exclude=["O"])


def test_sequence_accuracy_is_a_plain_share():
    assert metrics.sequence_accuracy([["a"], ["a"], ["b"]], [["a"], ["a"], ["a"]]) == 2 / 3
