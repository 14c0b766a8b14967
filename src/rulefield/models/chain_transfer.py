"""Moving weights from one chain model to another: continued training with new features and labels."""

from dataclasses import replace

import numpy as np

from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable

Keys = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def transfer(
    theta: np.ndarray, old: ChainModel, new: ChainModel, feature: np.ndarray, label: np.ndarray
) -> np.ndarray:
    """Weights of ``old`` at their places in ``new``; weights that ``old`` did not have are 0.

    ``feature`` and ``label`` are the numbers of each old feature and label in ``new``; -1 if it is gone.
    """
    moved = new.zeros()
    bounds_old, bounds_new = old.layout.bounds, new.layout.bounds
    for k, (was, now) in enumerate(zip(_keys(old, feature, label, new.n_labels), _keys(new))):
        place = np.searchsorted(now, was)
        place[place == len(now)] = 0
        found = (was >= 0) & (now[place] == was) if len(now) else np.zeros(len(was), bool)
        moved[bounds_new[k] + place[found]] = theta[bounds_old[k] : bounds_old[k + 1]][found]
    return moved


def union(a: ChainModel, b: ChainModel) -> ChainModel:
    """Return the model that has every weight of ``a`` or ``b``, models over the same features and labels."""
    state, transition, start, end = (np.union1d(x, y) for x, y in zip(_keys(a), _keys(b)))
    m = a.n_labels
    return replace(
        a,
        pairs=PairTable.of_keys(state, a.n_features, m),
        transition_from=(transition // m).astype(np.uint32),
        transition_to=(transition % m).astype(np.uint32),
        start_label=start.astype(np.uint32),
        end_label=end.astype(np.uint32),
    )


def restricted(model: ChainModel, columns: np.ndarray) -> tuple[ChainModel, np.ndarray]:
    """Give the model of the features ``columns`` alone, numbered anew, and where each of its weights stands in theta.

    O(weights of those features), whatever the size of the model.
    """
    bounds = model.layout.bounds
    pairs, state = model.pairs.restricted(columns)
    index = np.concatenate([state, np.arange(bounds[1], bounds[4])])
    return replace(model, n_features=len(columns), pairs=pairs), index


def _keys(
    model: ChainModel, feature: np.ndarray | None = None, label: np.ndarray | None = None, n_labels: int | None = None
) -> Keys:
    """Each weight's name as a number, per block of theta, ascending for the model's own numbering; -1 where gone."""
    m = model.n_labels if n_labels is None else n_labels
    feature = np.arange(model.n_features) if feature is None else np.asarray(feature)
    label = np.arange(model.n_labels) if label is None else np.asarray(label)
    source, target = label[model.transition_from], label[model.transition_to]
    return (
        _joined(np.repeat(feature, model.pairs.counts), label[model.pairs.label], m),
        _joined(source, target, m),
        label[model.start_label].astype(np.int64),
        label[model.end_label].astype(np.int64),
    )


def _joined(high: np.ndarray, low: np.ndarray, base: int) -> np.ndarray:
    high, low = high.astype(np.int64), low.astype(np.int64)
    return np.where((high < 0) | (low < 0), -1, high * base + low)
