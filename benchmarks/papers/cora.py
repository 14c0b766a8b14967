"""Mined and proposed rules on Cora citations: token accuracy over ten random 300/200 splits (paper 002).

Everything is chosen by cross-validation inside the 300; the 200 are read once a split.

    RULEFIELD_DATA=... python benchmarks/papers/cora.py [--splits 10] [--jobs 2]
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from citation_features import CitationFeatures
from common import data_folder
from families import ALL, accuracy, evaluate, family_candidates, interval
from rulefield import ChainCRF, SegmentCRF
from rulefield.datasets import load_cora

PAPER = "paper 002: CRF-Soft 93.99, learning with inference 89.72; F author 95.19, title 95.31, booktitle 92.61"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--segments", type=int, default=3, help="splits on which SegmentCRF is run")
    options = parser.parse_args()
    data_folder()
    X, y = load_cora()
    runs: dict[str, list[float]] = {}
    for seed in range(options.splits):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:300], order[300:]
        parts = [X[i] for i in train], [y[i] for i in train], [X[i] for i in test], [y[i] for i in test]
        crf = ChainCRF(scheme="BIO", l2=1.0, features=CitationFeatures(), n_jobs=options.jobs)
        found = evaluate(crf, *parts, family_candidates, options.jobs, seed)
        if seed < options.segments:
            segment = SegmentCRF(scheme="BIO", features=CitationFeatures(), n_jobs=options.jobs).fit(
                parts[0], parts[1]
            )
            found["segment"] = accuracy(parts[2], parts[3], segment.predict(parts[2]))
        for name, value in found.items():
            runs.setdefault(name, []).append(100 * value)
        print(f"split {seed}: " + ", ".join(f"{name} {100 * value:.2f}" for name, value in found.items()), flush=True)
    print(PAPER)
    for name, values in runs.items():
        print(f"  {name:28s} {np.mean(values):.2f} ({np.std(values):.2f})")
    gain = np.array(runs[ALL]) - np.array(runs["chain"])
    low, high = interval(gain)
    print(f"gain of all rules {gain.mean():+.2f}, 95 % interval [{low:+.2f}, {high:+.2f}]")
    figures = {
        "chain_accuracy": np.mean(runs["chain"]),
        "all_rules_accuracy": np.mean(runs[ALL]),
        "gain_over_chain": gain.mean(),
        "gain_low": low,
        "segment_crf_accuracy": np.mean(runs.get("segment", [np.nan])),
    }
    print(json.dumps({key: round(float(value), 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
