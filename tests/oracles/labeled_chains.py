"""Random labeled chains, small enough to enumerate, and scores written straight from the definition."""

import itertools

import numpy as np
import scipy.sparse as sp

from rulefield.data.sequences import Labels, Sequences
from rulefield.data.sequences import ones as implicit_ones


def random_sequences(rng, lengths, n_features=7, density=0.5, dense=False, ones=False):
    lengths = np.asarray(lengths)
    matrix = rng.normal(size=(lengths.sum(), n_features)) * (rng.random((lengths.sum(), n_features)) < density)
    if ones:
        matrix = (matrix != 0).astype(float)
    csr = sp.csr_array(matrix)
    if ones:  # as encoders give them: values that are not held
        csr = sp.csr_array((implicit_ones(csr.nnz), csr.indices, csr.indptr), shape=csr.shape)
    return Sequences(matrix if dense else csr, lengths)


def random_labels(rng, lengths, n_labels, allowed=None, partial=0.0):
    """Labelings that ``allowed`` permits; a share of tokens unknown, or known up to a set."""
    lengths = np.asarray(lengths)
    ids = np.concatenate([random_path(rng, n, n_labels, allowed) for n in lengths])
    if partial == 0:
        return Labels(ids, lengths, n_labels)
    masks = np.zeros((len(ids), n_labels), np.uint8)
    masks[np.arange(len(ids)), ids] = 1
    for t in np.flatnonzero(rng.random(len(ids)) < partial):
        masks[t] |= 1 if rng.random() < 0.5 else (rng.random(n_labels) < 0.5)
    return Labels(np.where(masks.sum(axis=1) == 1, ids, -1), lengths, n_labels, masks)


def random_path(rng, n, n_labels, allowed=None):
    while True:
        path = rng.integers(n_labels, size=n)
        if allowed is None or n == 0 or permits(allowed, path):
            return path.astype(np.int32)


def permits(allowed, path):
    steps, start, end = allowed
    return bool(start[path[0]] and end[path[-1]] and steps[path[:-1], path[1:]].all())


def random_allowed(rng, n_labels, share=0.7):
    """Masks that always permit label 0 everywhere, so that some labeling exists."""
    steps, start, end = (rng.random(s) < share for s in ((n_labels, n_labels), n_labels, n_labels))
    steps[:, 0] = steps[0] = start[0] = end[0] = True
    return steps, start, end


def labelings(n, n_labels):
    return (np.array(y, dtype=np.int64) for y in itertools.product(range(n_labels), repeat=n))


def weight_of(model, theta):
    """Weights as plain dictionaries: what the definition of the score speaks of."""
    parts = model.layout
    state, table, weights = {}, model.pairs, parts.state(theta)
    for f in range(model.n_features):
        for p in range(int(table.ptr[f]), int(table.ptr[f + 1])):
            state[f, int(table.label[p])] = weights[p]
    steps = dict(zip(zip(model.transition_from.tolist(), model.transition_to.tolist()), parts.transition(theta)))
    start = dict(zip(model.start_label.tolist(), parts.start(theta)))
    end = dict(zip(model.end_label.tolist(), parts.end(theta)))
    return state, steps, start, end


def score_by_definition(model, theta, rows, path):
    """Score of one labeling (n,) of the dense feature rows (n, n_features), term by term."""
    allowed = (model.allowed, model.allowed_start, model.allowed_end)
    if len(path) == 0:
        return 0.0
    if not permits(allowed, path):
        return -np.inf
    state, steps, start, end = weight_of(model, theta)
    total = start.get(int(path[0]), 0.0) + end.get(int(path[-1]), 0.0)
    for t, y in enumerate(path.tolist()):
        total += sum(rows[t, f] * state.get((f, y), 0.0) for f in range(model.n_features))
        if t > 0:
            total += steps.get((int(path[t - 1]), y), 0.0)
    return total


def dense_rows(sequences, i):
    rows = sequences.matrix[int(sequences.offsets[i]) : int(sequences.offsets[i + 1])]
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)
