"""Random typed graphs for tests: nodes "a" (4 features, 3 labels) and "b" (2 features, 2 labels)."""

import numpy as np
from scipy import sparse

from rulefield.data.graphs import TypedGraph


def random_graphs(rng, n, sparse_edges=False, max_a=4, max_b=3):
    return [_one(rng, sparse_edges, max_a, max_b) for _ in range(n)]


def _one(rng, sparse_edges, max_a, max_b):
    n_a, n_b = int(rng.integers(1, max_a + 1)), int(rng.integers(1, max_b + 1))
    first, second = np.triu_indices(n_a, 1)
    keep = rng.random(len(first)) < 0.7
    aa = np.stack([first[keep], second[keep]], axis=1)
    aa[: len(aa) // 2] = aa[: len(aa) // 2, ::-1]
    ab = np.stack([rng.integers(n_a, size=2), rng.integers(n_b, size=2)], axis=1)
    ab = np.unique(ab, axis=0)
    bb = np.stack([np.arange(n_b - 1), np.arange(1, n_b)], axis=1)
    features = rng.normal(size=(len(aa), 3)) * (rng.random((len(aa), 3)) < 0.6)
    return TypedGraph(
        {"a": rng.normal(size=(n_a, 4)), "b": rng.normal(size=(n_b, 2))},
        {
            ("a", "a"): (aa, sparse.csr_array(features) if sparse_edges else features),
            ("a", "b"): ab,
            ("b", "b"): (bb, rng.normal(size=(len(bb), 2))),
        },
        {"mates": ("b", "a", ab[:, ::-1])},
    )


def random_labels(rng, graph, counts):
    return {t: rng.integers(counts[t], size=matrix.shape[0]) for t, matrix in graph.nodes.items()}


def flat_labels(labels):
    return np.concatenate([labels[t] for t in sorted(labels)])
