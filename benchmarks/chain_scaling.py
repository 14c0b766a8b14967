"""Cost of one evaluation of the likelihood as the data grows 1x, 2x, 4x, 8x (CoNLL-2000, repeated).

RULEFIELD_DATA=... python benchmarks/chain_scaling.py
"""

import json
import time

import numpy as np
import scipy.sparse as sp

from common import conll2000
from rulefield.data.sequences import Labels
from rulefield.encode.features import FeatureEncoder
from rulefield.encode.labels import LabelEncoder
from rulefield.formats import Sequences
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.models.chain import ChainModel


def repeated(data: Sequences, labels: Labels, times: int) -> tuple[Sequences, Labels]:
    matrix = sp.csr_array(sp.vstack([data.matrix] * times, format="csr"))
    lengths = np.tile(data.lengths, times)
    return Sequences(matrix, lengths), Labels(np.tile(labels.ids, times), lengths, labels.n_labels)


def main() -> None:
    X, y = conll2000("train")
    data = FeatureEncoder().fit_transform(X)
    labels = LabelEncoder().fit(y).encode(y, data.lengths)
    seconds = {}
    for times in (1, 2, 4, 8):
        more, known = repeated(data, labels, times)
        model = ChainModel.build(more, known, start_end=False)
        objective = ChainLikelihood(model, more, known, l2=1.0)
        theta = 0.1 * np.random.default_rng(0).normal(size=model.size)
        objective.value_and_gradient(theta)
        runs = []
        for _ in range(5):
            begun = time.perf_counter()
            objective.value_and_gradient(theta)
            runs.append(time.perf_counter() - begun)
        seconds[times] = min(runs)
        print(f"{times}x: {seconds[times]:.3f} s per evaluation, {seconds[times] / times / seconds[1]:.3f} of linear")
    print(json.dumps({f"x{times}": round(value / times / seconds[1], 4) for times, value in seconds.items()}))


if __name__ == "__main__":
    main()
