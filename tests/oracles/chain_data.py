"""Small random labeled sequences with a chain model of each kind, for learners."""

import numpy as np
import scipy.sparse as sp

from rulefield.data.sequences import Labels, Sequences
from rulefield.models.chain import ChainModel

BIO = (  # labels O, B, I: I only after B or I
    np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], bool),
    np.array([1, 1, 0], bool),
    np.ones(3, bool),
)


def chain_data(case, n=12, n_features=8, seed=0):
    """Return (model, sequences, labels); ``case`` names what is special about them.

    "seen", "all" (weights), "dense" (matrix), "scheme" (BIO), "one label", "separable".
    """
    rng = np.random.default_rng(seed)
    m = 1 if case == "one label" else 3
    lengths = rng.integers(0, 6, n)
    lengths[:3] = 1, 0, 4
    total = lengths.sum()
    matrix = rng.normal(size=(total, n_features)) * (rng.random((total, n_features)) < 0.4)
    heads = np.cumsum(lengths) - lengths
    ids = np.zeros(total, int)
    for t in range(total):
        choices = np.arange(m)
        if case == "scheme":
            choices = choices[BIO[1] if t in heads else BIO[0][ids[t - 1]]]
        ids[t] = rng.choice(choices)
    if case == "separable":
        matrix = np.eye(m)[ids] + 0.01 * rng.normal(size=(total, m))
    data = Sequences(matrix if case == "dense" else sp.csr_array(matrix), lengths)
    labels = Labels(ids, lengths, m)
    model = ChainModel.build(
        data,
        labels,
        allowed=BIO if case == "scheme" else None,
        all_states=case == "all",
        all_transitions=case == "all",
    )
    return model, data, labels
