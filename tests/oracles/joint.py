"""Small joint problems and their enumeration: every joint labeling of every sequence, scored from theta."""

from itertools import product

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel
from rulefield.models.pairs import PairTable


def problem(seed, sizes=(2, 3), lengths=(3, 2), n_features=3, moves=True, features=True, forbid=True):
    """Return a random model, data, partly known labels, weights and theta."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    data = Sequences(rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.7), np.array(lengths))
    labels, tasks = [], []
    for m in sizes:
        gold = rng.integers(m, size=n)
        allowed = (rng.random((n, m)) < 0.6).astype(np.uint8)
        allowed[np.arange(n), gold] = 1
        ids = np.where(allowed.sum(1) == 1, allowed.argmax(1), -1)
        known = Labels(ids, np.array(lengths), m, None if (ids >= 0).all() else allowed)
        labels.append(known)
        steps = (rng.random((m, m)) < 0.8) | (not forbid)
        steps[gold[:-1], gold[1:]] = True
        masks = (steps, np.ones(m, bool), np.ones(m, bool))
        tasks.append(ChainModel.build(data, known, allowed=masks, all_states=True, all_transitions=True))
    S = int(np.prod(sizes))
    key = rng.choice(S * S, 3, replace=False) if moves else np.zeros(0, np.int64)
    model = JointModel.of(
        tuple(tasks),
        joint_pairs=PairTable.of_keys(S + np.arange(S), n_features, S) if features else None,
        moves=(key // S, key % S),
    )
    return model, data, tuple(labels), rng.uniform(0.5, 2, len(lengths)), rng.normal(size=model.size)


def score(model, theta, data, i, path):
    """Score of one joint labeling (list of tuples of labels), from the definition."""
    first, last = int(data.offsets[i]), int(data.offsets[i + 1])
    total = 0.0
    for k, task in enumerate(model.tasks):
        y = np.array([labels[k] for labels in path])
        total += task.potentials(model.task_theta(theta, k), data, i).score(y)
    for j, (k, l) in enumerate(model.cross):
        total += sum(model.cross_table(theta, j)[labels[k], labels[l]] for labels in path)
    states = [int(np.ravel_multi_index(labels, model.sizes)) for labels in path]
    rows = np.asarray(data.matrix[first:last])
    table, weights = model.joint_pairs, model.joint_weights(theta)
    for row, s in zip(rows, states):
        for f in np.flatnonzero(row):
            for p in range(int(table.ptr[f]), int(table.ptr[f + 1])):
                total += row[f] * weights[p] * (table.label[p] == s)
    for a, b in zip(states[:-1], states[1:]):
        for p in range(len(model.move_from)):
            total += model.move_weights(theta)[p] * ((model.move_from[p], model.move_to[p]) == (a, b))
    return total


def labelings(model, n):
    """All joint labelings of n tokens."""
    states = list(product(*(range(m) for m in model.sizes)))
    return [list(path) for path in product(states, repeat=n)]


def fits(labels, data, i, path):
    """Whether a joint labeling agrees with what is known of sequence i."""
    first = int(data.offsets[i])
    for k, known in enumerate(labels):
        for t, joint in enumerate(path):
            if known.allowed is not None and not known.allowed[first + t, joint[k]]:
                return False
            if known.allowed is None and known.ids[first + t] != joint[k]:
                return False
    return True
