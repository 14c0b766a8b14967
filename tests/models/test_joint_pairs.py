"""Which features have weights with joint labels: the definition, token by token."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from rulefield.data.sequences import Labels, Sequences
from rulefield.models import joint
from rulefield.models.joint import joint_pairs_seen

SIZES = (3, 2)


def random_labels(rng, n: int, m: int, lengths) -> Labels:
    """Known, unknown and half-known tokens."""
    allowed = rng.random((n, m)) < 0.5
    allowed[np.arange(n), rng.integers(m, size=n)] = True
    allowed[rng.random(n) < 0.4] = True
    ids = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)
    return Labels(ids, lengths, m, allowed)


def defined(X: np.ndarray, labels, allowed, features, min_count: int) -> set[tuple[int, int]]:
    counts: Counter = Counter()
    for t, row in enumerate(X):
        known = [np.flatnonzero(own.allowed[t]) for own in labels]
        if all(len(k) == m for k, m in zip(known, SIZES)):
            continue
        for pair in product(*known):
            state = int(np.ravel_multi_index(pair, SIZES))
            counts.update((int(f), state) for f in np.flatnonzero(row) if allowed[state])
    return {pair for pair, n in counts.items() if n >= min_count and (features is None or pair[0] in features)}


@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("features", [None, np.array([0, 3])])
def test_pairs_are_those_that_the_annotation_leaves_possible(min_count, features, monkeypatch):
    monkeypatch.setattr(joint, "BLOCK", 4)
    rng = np.random.default_rng(0)
    for _ in range(20):
        lengths = rng.integers(0, 5, size=4)
        n = int(lengths.sum())
        X = (rng.random((n, 5)) < 0.4).astype(float)
        labels = tuple(random_labels(rng, n, m, lengths) for m in SIZES)
        allowed = rng.random(6) < 0.8
        data = Sequences(sp.csr_array(X), lengths)
        table = joint_pairs_seen(data, labels, allowed=allowed, features=features, min_count=min_count)
        rows = np.repeat(np.arange(5), np.diff(table.ptr.astype(int)))
        assert set(zip(rows.tolist(), table.label.tolist())) == defined(X, labels, allowed, features, min_count)
