"""Rules on US50 postal addresses: 51 to train on, 690 to test (paper 002).

Commas are split off the words; accuracy counts the original tokens. Ten resamples of the 51 (seeds of the folds and of the
learners differ) give the spread.

    RULEFIELD_DATA=... python benchmarks/papers/us50.py [--seeds 10] [--jobs 2]
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder
from families import ALL, accuracy, evaluate, family_candidates, interval
from rulefield import ChainCRF, SegmentCRF, TokenFeatures
from rulefield.datasets import load_us50

COMMAS = (",",)  # split off by the reader, not tokens of the original


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    data_folder()
    X, y = load_us50("train")
    X_test, y_test = load_us50("test")
    runs: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        rows = np.random.default_rng(seed).choice(len(X), len(X)) if seed else np.arange(len(X))
        train = [X[i] for i in rows], [y[i] for i in rows]
        crf = ChainCRF(scheme="BIO", l2=1.0, features=TokenFeatures(), n_jobs=options.jobs)
        found = evaluate(crf, *train, X_test, y_test, family_candidates, options.jobs, seed, COMMAS)
        segment = SegmentCRF(scheme="BIO", features=TokenFeatures(), n_jobs=options.jobs).fit(*train)
        found["segment"] = accuracy(X_test, y_test, segment.predict(X_test), COMMAS)
        for name, value in found.items():
            runs.setdefault(name, []).append(100 * value)
        print(f"seed {seed}: " + ", ".join(f"{name} {100 * value:.2f}" for name, value in found.items()), flush=True)
    print("paper 002: better with every family, most with state change and begin-end")
    for name, values in runs.items():
        print(f"  {name:28s} {np.mean(values):.2f} ({np.std(values):.2f})")
    gain = np.array(runs[ALL]) - np.array(runs["chain"])
    low, _ = interval(gain)
    figures = {
        "chain_accuracy": np.mean(runs["chain"]),
        "all_rules_accuracy": np.mean(runs[ALL]),
        "gain_over_chain": gain.mean(),
        "gain_low": low,
        "segment_crf_accuracy": np.mean(runs["segment"]),
    }
    print(json.dumps({key: round(float(value), 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
