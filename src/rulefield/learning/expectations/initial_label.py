"""Where learning from partial labels begins: what nothing is known of is presumed to be one label.

Positives-only annotation says of no token that it lies outside. Where labels were kept at random, a model of "marked or
not" ranks tokens as the true one does (Elkan and Noto, Learning classifiers from only positive and unlabeled data,
2008); an expectation then moves its level. From weights that know nothing the same search ends in a poor maximum.
"""

import numpy as np

from rulefield.data.labels import Labels
from rulefield.inference.sequences.exact import log_partition_batch
from rulefield.models.chain_structure import Allowed


def presumed(labels: Labels, label: int, allowed: Allowed) -> Labels:
    """Return ``labels`` with ``label`` at every token of which nothing is known.

    Sequences that would have no labeling left that ``allowed`` (transitions, starts, ends) permits stay as they are.
    """
    if labels.allowed is None:
        return labels
    unknown = labels.allowed.all(axis=1)
    masks = labels.allowed.copy()
    masks[unknown] = np.arange(labels.n_labels) == label
    possible = np.isfinite(_paths(masks, labels, allowed))
    kept = np.repeat(possible, labels.lengths)
    masks[~kept] = labels.allowed[~kept]
    ids = np.where(masks.sum(axis=1) == 1, masks.argmax(axis=1), -1)
    return Labels(ids, labels.lengths, labels.n_labels, None if (ids >= 0).all() else masks)


def _paths(masks: np.ndarray, labels: Labels, allowed: Allowed) -> np.ndarray:
    """Logarithm of the number of labelings of each sequence, (n_sequences,)."""
    unary = _zero_where(masks)
    filled = labels.lengths > 0
    unary[labels.offsets[:-1][filled]] += _zero_where(allowed[1])
    unary[labels.offsets[1:][filled] - 1] += _zero_where(allowed[2])
    return log_partition_batch(unary, _zero_where(allowed[0]), labels.offsets)


def _zero_where(mask: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(mask, bool), 0.0, -np.inf)
