"""An order of training instances that depends on what they hold, not on where they stand.

Folds, held-out parts and random predictors all work by place. Instances sorted by a digest of their content make the fit
the same for any order in which they are given.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse

from rulefield.encode.similarity import as_matrix


def content_order(X: Any, labels: Any, weight: np.ndarray | None, graphs: Sequence[Any] | None) -> np.ndarray:
    """Return the instances sorted by a digest of their features; equal ones by labels, weight and graphs.

    Labels come second so that other units of the labels, or weights, do not change the order.
    """
    n = len(labels)
    rows = zip(X, labels, np.ones(n) if weight is None else weight, strict=True)
    keys = [(*map(_digest, row), *(_graph_digest(stack[j]) for stack in graphs or ())) for j, row in enumerate(rows)]
    return np.array(sorted(range(n), key=keys.__getitem__), dtype=np.int64)


def _graph_digest(graph: Any) -> bytes:
    matrix = as_matrix(graph)
    if not scipy.sparse.issparse(matrix):
        return _digest(matrix)
    csr = scipy.sparse.csr_array(matrix)
    csr.sort_indices()
    return b"".join(_digest(part) for part in (csr.indptr, csr.indices, csr.data))


def _digest(values: Any) -> bytes:
    array = np.ascontiguousarray(values, dtype=np.float64) + 0.0  # -0.0 is 0.0
    return blake2b(repr(array.shape).encode() + array.tobytes(), digest_size=16).digest()


def taken(values: Any, rows: np.ndarray) -> Any:
    """Return some of the instances of an array or a list, in the given order."""
    return values[rows] if isinstance(values, np.ndarray) else [values[j] for j in rows]
