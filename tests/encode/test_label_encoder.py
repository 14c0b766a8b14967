"""Labels to numbers and back, and the usual mistakes."""

import numpy as np
import pytest

from rulefield.encode.labels import LabelEncoder
from rulefield.exceptions import LabelError


def test_known_labels():
    encoder = LabelEncoder()
    labels = encoder.fit_encode([["b", "a"], [], ["c"]])
    assert encoder.classes_ == ["a", "b", "c"]
    assert labels.ids.tolist() == [1, 0, 2]
    assert labels.ids.dtype == np.int32
    assert labels.lengths.tolist() == [2, 0, 1]
    assert not labels.is_partial
    assert encoder.decode(labels.ids) == ["b", "a", "c"]


def test_labels_may_be_numbers_and_arrays():
    encoder = LabelEncoder()
    labels = encoder.fit_encode([np.array([3, 1]), np.array([2])])
    assert encoder.classes_ == [1, 2, 3]
    assert labels.ids.tolist() == [2, 0, 1]
    assert encoder.decode(labels.ids) == [3, 1, 2]
    assert LabelEncoder().fit_encode(np.array([["a", "b"], ["b", "b"]])).ids.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("options", [{"a", "b"}, frozenset("ab"), ["a", "b"], ("a", "b")])
def test_partial_labels(options):
    encoder = LabelEncoder()
    labels = encoder.fit_encode([["a", None, options], ["c", {"b"}]])
    assert labels.is_partial
    assert labels.ids.tolist() == [0, -1, -1, 2, 1]
    assert labels.allowed.tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert not labels[1].is_partial
    assert labels[0].allowed.shape == (3, 3)


def test_a_label_may_be_known_only_inside_sets():
    assert LabelEncoder().fit([["a", {"a", "z"}]]).classes_ == ["a", "z"]


def test_given_classes():
    assert LabelEncoder(["b", "a"]).fit([["a", "b"]]).classes_ == ["a", "b"]
    with pytest.raises(LabelError, match=r"label 'titel' never occurs in y.*did you mean 'title'"):
        LabelEncoder(["title", "titel"]).fit([["title"]])


@pytest.mark.parametrize(
    ("y", "match"),
    [
        ([[None], [None]], "no known label"),
        ([], "no known label"),
        (["O", "B-x"], r"y\[0\] is the single label 'O'"),
        ("O", "got str"),
        (3, "got int"),
        ([1, 2], r"y\[0\] is the single label 1"),
        ([{"O"}], r"y\[0\] must be a list of labels; got set"),
        ([[{"word": "the"}]], "X and y are swapped"),
        ([[["w=the", "bias"], ["w=cat", "bias"]]], "X and y look swapped"),
        ([["a", float("nan")]], "NaN"),
    ],
)
def test_mistakes_in_y(y, match):
    with pytest.raises(LabelError, match=match):
        LabelEncoder().fit(y)


def test_mistakes_in_encode():
    encoder = LabelEncoder().fit([["title", "author"]])
    with pytest.raises(LabelError, match=r"sequence 1, token 0: label 'titel' is unknown \(did you mean 'title'\?\)"):
        encoder.encode([["title"], ["titel"]])
    with pytest.raises(LabelError, match="label 'zzz' is unknown; known labels: author, title"):
        encoder.encode([[{"title", "zzz"}]])
    with pytest.raises(LabelError, match="empty set"):
        encoder.encode([[set()]])
    with pytest.raises(LabelError, match="X has 1 sequences but y has 2"):
        encoder.encode([["title"], ["title"]], np.array([1]))
    with pytest.raises(LabelError, match="sequence 1 has 3 tokens in X but 1 labels in y"):
        encoder.encode([["title"], ["title"]], np.array([1, 3]))
