"""Samples with several labels: labels as numbers, graphs of one node for each label, what learns them by default."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rulefield.data.graphs import Features, TypedGraph
from rulefield.encode.graph_builders import multilabel_edges
from rulefield.estimators.tables import KnownTable, known_rows
from rulefield.exceptions import InputError, LabelError

MOST_CHOOSING = 900
"""Samples by which the penalty of the field is chosen, at most: it stands beside a sum, so that more want no other one."""
PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Values of ``C`` of the default predictors."""
CONSTANT = 1e-9
"""Largest standard deviation of scores that count as constant."""
_PAIR = np.zeros((1, 2), dtype=np.int64)
"""The only edge between two types of one node each."""


def encoded_labels(columns: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Classes of each column, and numbers (n_samples, n_labels); indicators have the classes 0 and 1 throughout."""
    if columns.shape[1] > 1 and columns.dtype.kind in "iubf" and np.isin(columns, (0, 1)).all():
        return [np.array([0, 1])] * columns.shape[1], columns.astype(np.int64)
    classes, numbers = zip(*(np.unique(column, return_inverse=True) for column in columns.T))
    return list(classes), np.stack(numbers, axis=1).astype(np.int64)


def allowed_values(known: KnownTable, classes: Sequence[np.ndarray], n_samples: int) -> list[np.ndarray] | None:
    """Values that each sample's labels may have, flat; None where nothing is known."""
    if known is None:
        return None
    free = np.ones(sum(map(len, classes)), bool)
    return [
        free if row is None else _row_allowed(row, classes, i) for i, row in enumerate(known_rows(known, n_samples))
    ]


def _row_allowed(row: list[Any], classes: Sequence[np.ndarray], i: int) -> np.ndarray:
    if len(row) != len(classes):
        raise InputError(f"known[{i}] must hold {len(classes)} labels; got {len(row)}.")
    masks = []
    for value, own in zip(row, classes):
        mask = np.ones(len(own), bool) if value is None else own == value
        if not mask.any():
            raise LabelError(f"known[{i}] holds {value!r}, which is none of the classes {own.tolist()}.")
        masks.append(mask)
    return np.concatenate(masks)


def chosen_edges(structure: Any, numbers: np.ndarray, exact: bool) -> np.ndarray:
    """Return the pairs of labels that are joined; ``exact``: sums over all label vectors are exact and quick."""
    n_labels = numbers.shape[1]
    if isinstance(structure, str):
        chosen = ("full" if exact else "tree") if structure == "auto" else structure
        return multilabel_edges(numbers > 0, chosen)
    edges = np.asarray(structure, dtype=np.int64).reshape(-1, 2)
    if ((edges < 0) | (edges >= n_labels)).any() or (edges[:, 0] == edges[:, 1]).any():
        raise InputError(f"structure must join different labels 0 to {n_labels - 1}; got {edges.tolist()}.")
    return edges


def default_predictors(centered: bool) -> list[Any]:
    """Return what scores labels by default: logistic regression, its penalty chosen by cross-fitted loss."""
    return [
        [
            make_pipeline(StandardScaler(with_mean=centered), LogisticRegression(C=penalty, max_iter=500))
            for penalty in PENALTIES
        ]
    ]


def by_label(scores: np.ndarray) -> np.ndarray:
    """(n, width, n_labels, n_predictors) -> (n, n_labels, width * n_predictors)."""
    n, width, n_labels, k = scores.shape
    return np.moveaxis(scores, 2, 1).reshape(n, n_labels, width * k)


def score_scale(scores: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each label's scores, (n_labels, width); 1 if they are constant.

    Divided by it, scores of strongly and of weakly penalized predictors cost the field's own penalty the same.
    """
    center = np.average(scores, axis=0, weights=weight)
    spread = np.sqrt(np.average((scores - center) ** 2, axis=0, weights=weight))
    return np.where(spread > CONSTANT, spread, 1.0)


def graphs_of_scores(scores: np.ndarray, names: Sequence[str], edges: np.ndarray) -> list[TypedGraph]:
    """One graph for each sample; a label has its own scores, a pair those of both labels, each a constant more."""
    n, n_labels, _ = scores.shape
    nodes = np.concatenate([scores, np.ones((n, n_labels, 1))], axis=2)
    first = scores[:, :, :1]
    pairs = {
        (names[a], names[b]): np.concatenate([np.ones((n, 1)), first[:, a], first[:, b]], axis=1)
        for a, b in edges.tolist()
    }
    return [
        TypedGraph(
            {name: nodes[i, k][None] for k, name in enumerate(names)},
            {key: (_PAIR, rows[i][None]) for key, rows in pairs.items()},
        )
        for i in range(n)
    ]


def graphs_of_features(X: Features, names: Sequence[str], edges: np.ndarray) -> list[TypedGraph]:
    """One graph for each sample; all labels share its row of features and a constant."""
    constant = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        rows = sparse.csr_array(sparse.hstack([X, constant]))
        parts = [rows[[i]] for i in range(rows.shape[0])]
    else:
        parts = list(np.hstack([X, constant])[:, None, :])
    joined = {(names[a], names[b]): _PAIR for a, b in edges.tolist()}
    return [TypedGraph(dict.fromkeys(names, part), joined) for part in parts]


def held_out_part(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return samples to learn from, and samples held out (a third)."""
    order = np.random.default_rng(0).permutation(n)[:MOST_CHOOSING]
    cut = len(order) // 3
    return order[cut:], order[:cut]
