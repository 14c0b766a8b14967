"""Cost of one likelihood evaluation of SegmentCRF as the longest allowed segment grows: a straight line.

Weights are near zero, as when training begins. Generated data; ``python benchmarks/segment_length.py`` needs nothing else.
"""

import json
from time import process_time

import numpy as np
import scipy.sparse as sp

from rulefield.data.sequences import Sequences
from rulefield.learning.segments import SegmentLikelihood
from rulefield.models.segments import Segmentation, SegmentModel

LENGTHS = (20, 40, 80, 160, 320)
N_SEQUENCES, N_TOKENS, N_LABELS, N_FEATURES = 5, 2_560, 10, 2_000


def data(rng):
    """Long sequences of sparse random features with random segments of up to ten tokens."""
    total = N_SEQUENCES * N_TOKENS
    matrix = sp.random_array((total, N_FEATURES), density=10 / N_FEATURES, format="csr", rng=rng)
    sequences = Sequences(matrix, np.full(N_SEQUENCES, N_TOKENS))
    opens = (np.arange(total) % 10 == 0).astype(np.uint8)
    labels = np.repeat(rng.integers(0, N_LABELS, total // 10), 10)
    return sequences, Segmentation(opens, labels)


def seconds(sequences, gold, longest, rng):
    """CPU seconds of one value and gradient, the best of seven."""
    model = SegmentModel.build(
        sequences, gold, N_LABELS, longest=np.full(N_LABELS, longest), allowed=np.ones((N_LABELS, N_LABELS), bool)
    )
    objective = SegmentLikelihood(model, sequences, gold, l2=1.0)
    theta = 0.01 * rng.normal(size=model.size)
    best = np.inf
    for _ in range(7):
        before = process_time()
        objective.value_and_gradient(theta)
        best = min(best, process_time() - before)
    return best


def main():
    rng = np.random.default_rng(0)
    sequences, gold = data(rng)
    times = np.array([seconds(sequences, gold, longest, rng) for longest in LENGTHS])
    slope, base = np.polyfit(LENGTHS, times, 1)
    away = np.abs(times / (base + slope * np.array(LENGTHS)) - 1).max()
    print(f"{N_SEQUENCES * N_TOKENS} tokens, {N_LABELS} labels; CPU seconds of one evaluation:")
    for longest, t in zip(LENGTHS, times):
        print(f"  longest segment {longest:4d}: {t:.4f} s")
    print(f"straight line {base:.4f} + {slope:.6f} x length; farthest from it: {100 * away:.1f} %")
    ratio = times[-1] / times[-2]
    print(
        json.dumps({"seconds_per_length": round(slope, 6), "off_line": round(away, 3), "doubling": round(ratio, 3)})
    )


if __name__ == "__main__":
    main()
