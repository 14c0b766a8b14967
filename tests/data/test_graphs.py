"""TypedGraph: what it accepts, keeps and refuses."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy import sparse

from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import InputError

ONES = np.ones((2, 3))


def test_keeps_features_edges_and_relations():
    graph = TypedGraph(
        {"a": ONES, "b": sparse.csr_matrix(np.eye(2)), "c": 4},
        {("a", "b"): (np.array([[0, 1]]), None), ("a", "a"): ([[0, 1]], [[2.0]]), ("c", "c"): []},
        {"near": ("a", "c", [[1, 3]])},
    )
    assert graph.n_nodes == {"a": 2, "b": 2, "c": 4}
    assert graph.n_edges == {("a", "b"): 1, ("a", "a"): 1, ("c", "c"): 0}
    assert graph.nodes["c"].tolist() == [[1.0]] * 4
    assert sparse.issparse(graph.nodes["b"])
    assert graph.edges["a", "a"][1].tolist() == [[2.0]]
    assert graph.relations["near"][2].tolist() == [[1, 3]]
    assert "2 a" in repr(graph)


def test_is_frozen_and_pickles():
    graph = TypedGraph({"a": ONES}, {("a", "a"): [[0, 1]]})
    with pytest.raises(FrozenInstanceError):
        graph.nodes = {}
    with pytest.raises(ValueError, match="read-only"):
        graph.nodes["a"][0, 0] = 2.0
    again = pickle.loads(pickle.dumps(graph))
    assert (again.nodes["a"] == ONES).all()


def test_does_not_copy_what_already_fits():
    assert np.shares_memory(TypedGraph({"a": ONES}).nodes["a"], ONES)
    assert ONES.flags.writeable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({},), "at least one type"),
        (({"a": np.ones(3)},), "must be a matrix"),
        (({"a": np.array([[np.nan]])},), "finite"),
        (({"a": ONES}, {"a": []}), "keyed by a pair"),
        (({"a": ONES}, {("a", "b"): [[0, 0]]}), "names the type 'b'"),
        (({"a": ONES}, {("a", "a"): [[0, 2]]}), r"pair 0 is \(0, 2\)"),
        (({"a": ONES}, {("a", "a"): [[1, 1]]}), "to itself"),
        (({"a": ONES}, {("a", "a"): [[0.5, 1]]}), "whole numbers"),
        (({"a": ONES}, {("a", "a"): ([[0, 1]], [[1.0], [2.0]])}), "one row for each of 1"),
        (({"a": ONES}, {}, {"near": [[0, 1]]}), "must be"),
        (({"a": ONES}, {}, {"near": ("a", "a", [[0, 5]])}), "relation 'near'"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    with pytest.raises(InputError, match=message):
        TypedGraph(*arguments)
