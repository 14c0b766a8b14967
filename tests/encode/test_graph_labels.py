"""Labels of typed graphs: to numbers and back."""

import numpy as np
import pytest

from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_labels import GraphLabels
from rulefield.exceptions import LabelError

GRAPH = TypedGraph({"a": 3, "b": 2})


def test_round_trip_with_unknown_labels():
    y = {"a": ["x", None, "w"], "b": np.array([5, 3])}
    names = GraphLabels.fit([GRAPH], [y])
    assert {t: c.tolist() for t, c in names.classes.items()} == {"a": ["w", "x"], "b": [3, 5]}
    numbers = names.encode(GRAPH, y)
    assert numbers.tolist() == [1, -1, 0, 1, 0]
    decoded = names.decode(GRAPH, np.array([1, 0, 0, 1, 0]))
    assert decoded["a"].tolist() == ["x", "w", "w"]
    assert decoded["b"].tolist() == [5, 3]


def test_given_labels_and_left_out_types():
    names = GraphLabels.fit([GRAPH], [{"a": ["q", "p", "q"]}], {"b": 4, "a": ["q", "p"]})
    assert names.counts == {"a": 2, "b": 4}
    assert names.encode(GRAPH, {"a": ["q", "p", "q"]}).tolist() == [0, 1, 0, -1, -1]


def test_a_label_may_be_one_of_several():
    y = {"a": [{"x", "w"}, ["w"], None], "b": [3, {3, 4, 5}]}
    names = GraphLabels.fit([GRAPH], [y], {"a": ["v", "w", "x"]})
    assert {t: c.tolist() for t, c in names.classes.items()} == {"a": ["v", "w", "x"], "b": [3, 4, 5]}
    assert names.encode(GRAPH, y).tolist() == [-1, 1, -1, 0, -1]
    allowed = names.by_type(GRAPH, names.allowed(GRAPH, y))
    assert allowed["a"].tolist() == [[False, True, True], [False, True, False], [True, True, True]]
    assert allowed["b"].tolist() == [[True, False, False], [True, True, True]]
    assert names.allowed(GRAPH, None).all()


@pytest.mark.parametrize(
    ("y", "given", "message"),
    [
        ({"a": ["x", 1, "y"], "b": [0, 1]}, None, "all be names"),
        ({"a": ["x"] * 3}, None, "no node 'b'"),
        ([0, 1, 2], None, "dict by type"),
        ({"a": ["x", set(), "x"], "b": [0, 1]}, None, "empty set"),
        ({"a": ["x", {"x", "z"}, "x"], "b": [0, 1]}, {"a": ["x", "y"]}, "no label 'z'"),
        ({"a": ["x"] * 3, "b": [0, 1]}, {"a": ["y"]}, "no label 'x'"),
        ({"a": ["x"] * 3, "b": [0, 1]}, {"b": 0}, "at least 1"),
        ({"a": ["x"] * 3, "b": [0, 1]}, {"b": ["u", "u"]}, "different names"),
    ],
)
def test_mistakes_are_explained(y, given, message):
    with pytest.raises(LabelError, match=message):
        GraphLabels.fit([GRAPH], [y], given).encode(GRAPH, y)
