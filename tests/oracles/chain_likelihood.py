"""The negative log-likelihood by enumeration of all labelings."""

import numpy as np
from scipy.special import logsumexp

from oracles.labeled_chains import dense_rows, labelings, score_by_definition


def objective_by_enumeration(model, theta, sequences, labels, weight=None, l2=0.0):
    weight = np.ones(len(sequences)) if weight is None else weight
    total = 0.5 * l2 * float(theta @ theta)
    for i in range(len(sequences)):
        first, last = labels.offsets[i : i + 2]
        masks = np.eye(labels.n_labels)[labels.ids] if labels.allowed is None else labels.allowed
        masks, rows = masks[first:last], dense_rows(sequences, i)
        everything, consistent = [], []
        for path in labelings(last - first, labels.n_labels):
            score = score_by_definition(model, theta, rows, path)
            everything.append(score)
            if masks[np.arange(len(path)), path].all():
                consistent.append(score)
        total += weight[i] * (logsumexp(everything) - logsumexp(consistent))
    return total
