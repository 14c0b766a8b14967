"""Containers: indexing is that of a list of sequences; bad parts are refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

from rulefield.data.sequences import Labels, Sequences, is_ones, ones, ranges
from rulefield.exceptions import InputError


def make(lengths, sparse=True, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, size=(sum(lengths), n_features)).astype(float)
    return Sequences(sp.csr_array(dense) if sparse else dense, lengths), dense


def rows_of(X):
    return X.matrix.toarray() if X.is_sparse else X.matrix


def parts(dense, lengths):
    return np.split(dense, np.cumsum(lengths)[:-1])


@pytest.mark.parametrize("sparse", [True, False])
@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=6), data=st.data())
def test_indexing_is_that_of_a_list(sparse, lengths, data):
    X, dense = make(lengths, sparse)
    pieces, n = parts(dense, lengths), len(lengths)
    keys = [
        data.draw(st.integers(-n, n - 1)),
        data.draw(st.slices(n)),
        np.array(data.draw(st.lists(st.integers(-n, n - 1), max_size=5)), dtype=int),
        np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n))),
    ]
    for key in keys:
        got = X[key]
        picked = np.atleast_1d(np.arange(n)[key])
        assert got.lengths.tolist() == [lengths[i] for i in picked]
        expected = np.concatenate([pieces[i] for i in picked]) if len(picked) else np.zeros((0, 4))
        assert np.array_equal(rows_of(got), expected)
        assert got.is_sparse is sparse
        assert got.n_features == 4


def test_stored_types():
    X, _ = make([2, 3])
    assert X.matrix.data.dtype == np.float64
    assert X.matrix.indices.dtype == X.matrix.indptr.dtype == np.int32
    assert X.offsets.tolist() == [0, 2, 5]
    assert (len(X), X.n_tokens, X.shape) == (2, 5, (2,))
    wide = sp.csr_matrix(np.eye(3), dtype=np.float32)
    wide.indices = wide.indices.astype(np.int64)
    assert Sequences(wide, [3]).matrix.indices.dtype == np.int32
    assert "2 sequences, 5 tokens, 4 sparse" in repr(X)
    assert [x.n_tokens for x in X] == [2, 3]


def test_the_matrix_is_not_copied():
    dense = np.ones((3, 2))
    assert Sequences(dense, [3]).matrix is dense
    sparse = sp.csr_array(dense)
    assert np.shares_memory(Sequences(sparse, [3]).matrix.data, sparse.data)


def test_scikit_learn_indexes_it():
    X, _ = make([2, 0, 1, 3])
    assert _safe_indexing(X, [3, 0]).lengths.tolist() == [3, 2]
    assert _safe_indexing(X, np.array([True, False, True, False])).lengths.tolist() == [2, 1]
    for train, test in KFold(2).split(X):
        assert len(X[train]) + len(X[test]) == 4


def test_empty_sequences_are_reported():
    X, _ = make([2, 0, 1, 0])
    assert X.empty.tolist() == [1, 3]
    assert Sequences(np.zeros((0, 3)), []).n_tokens == 0


@pytest.mark.parametrize(
    ("matrix", "lengths", "match"),
    [
        (np.zeros((3, 2)), [2, 2], r"number of rows of the matrix \(3\); got 2 lengths that add up to 4"),
        (np.zeros((3, 2)), [4, -1], "sequence 1 has length -1"),
        (np.zeros((3, 2)), [1.5, 1.5], "whole numbers"),
        (np.zeros((3, 2)), [[3]], "1-D"),
        (np.zeros(3), [3], r"2-D \(n_tokens, n_features\); got shape \(3,\)"),
        ([["a"]], [1], "numeric"),
        (np.array([[0.0, np.nan]]), [1], "row 0, column 1 is nan"),
        (sp.csr_array(np.array([[0.0, 1.0], [np.inf, 0.0]])), [2], "row 1, column 0 is inf"),
    ],
)
def test_bad_parts_are_refused(matrix, lengths, match):
    with pytest.raises(InputError, match=match):
        Sequences(matrix, lengths)


@pytest.mark.parametrize("key", [5, -5, [4], np.array([True]), "a", (0, 0), 1.5, [[0]]])
def test_bad_indices_are_refused(key):
    with pytest.raises(IndexError):
        make([1, 1, 1, 1])[0][key]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=6))
def test_ranges(pairs):
    starts = np.array([a for a, _ in pairs], dtype=int)
    lengths = np.array([n for _, n in pairs], dtype=int)
    assert ranges(starts, lengths).tolist() == [a + i for a, n in pairs for i in range(n)]


def test_labels_are_indexed_by_sequence():
    labels = Labels(np.array([0, 1, -1, 1]), np.array([2, 0, 2]), 2, np.array([[1, 0], [0, 1], [1, 1], [0, 1]]))
    assert labels.is_partial
    assert labels[2].ids.tolist() == [-1, 1]
    assert labels[[2, 0]].ids.tolist() == [-1, 1, 0, 1]
    assert not labels[:2].is_partial
    assert labels.offsets.tolist() == [0, 2, 2, 4]
    assert [len(x.ids) for x in labels] == [2, 0, 2]


@pytest.mark.parametrize(
    ("ids", "allowed", "match"),
    [
        ([0, -1], None, "need `allowed`"),
        ([0, 2], None, r"must be in -1..1"),
        ([0], None, "do not fit lengths"),
        ([0, -1], [[1, 0]], r"shape \(n_tokens, n_labels\) = \(2, 2\)"),
        ([0, -1], [[1, 0], [0, 0]], "token 1 allows no label"),
    ],
)
def test_bad_labels_are_refused(ids, allowed, match):
    with pytest.raises(InputError, match=match):
        Labels(np.array(ids), np.array([2]), 2, None if allowed is None else np.array(allowed))


@pytest.mark.parametrize(
    "key", [2, -1, slice(1, 4), slice(0, 0), slice(None, None, 2), [3, 0, 3], np.array([True] * 3 + [False] * 2)]
)
def test_ones_in_the_room_of_one_are_ones(key):
    """A matrix whose values are all 1 need not hold them; rows that are taken from it do not either."""
    lengths = [2, 0, 3, 4, 1]
    plain, dense = make(lengths)
    pattern = sp.csr_array((dense > 0).astype(float))
    held = Sequences(pattern, lengths)
    slim = Sequences(sp.csr_array((ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape), lengths)
    assert is_ones(slim.matrix.data)
    taken = slim[key]
    assert is_ones(taken.matrix.data)
    assert not is_ones(plain.matrix.data)
    np.testing.assert_array_equal(rows_of(taken), rows_of(held[key]))
    assert taken.matrix.indptr.dtype == taken.matrix.indices.dtype == np.int32
    assert taken.lengths.tolist() == held[key].lengths.tolist()
