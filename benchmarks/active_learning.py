"""What to label next against random choice: Cora citations and US50 addresses, ten draws each.

Both begin with the same 10 random sequences and take 10 more at a time; what is not in the pool is the test set. The interval
is that of the mean difference over draws (Student's t, 95 %).

    RULEFIELD_DATA=... python benchmarks/active_learning.py [--draws 10] [--sets cora us50] [--diversity 0.5] [--first 0]
"""

import argparse
import json

import numpy as np
from scipy.stats import t as student

from common import data_folder
from rulefield import ChainCRF, metrics, suggest
from rulefield.datasets import load_cora, load_us50

BATCH, MARKS, POOL = 10, (50, 100), {"cora": 300, "us50": 541}


def read(name: str) -> tuple[list, list]:
    if name == "cora":
        return load_cora()
    parts = [load_us50("train"), load_us50("test")]
    return [x for part in parts for x in part[0]], [y for part in parts for y in part[1]]


def curve(X: list, y: list, order: np.ndarray, pool: int, active: bool, diversity: float) -> dict[int, tuple]:
    """Token accuracy and share of whole sequences on the test part at each mark."""
    chosen, left, test = list(order[:BATCH]), list(order[BATCH:pool]), list(order[pool:])
    found = {}
    while True:
        crf = ChainCRF(scheme="BIO", n_jobs=1).fit([X[i] for i in chosen], [y[i] for i in chosen])
        if len(chosen) in MARKS:
            gold, guess = [y[i] for i in test], list(crf.predict([X[i] for i in test]))
            found[len(chosen)] = metrics.token_accuracy(gold, guess), metrics.sequence_accuracy(gold, guess)
        if len(chosen) >= max(MARKS):
            return found
        places = range(BATCH)
        if active:
            places = [s.index for s in suggest(crf, [X[i] for i in left], BATCH, diversity=diversity)]
        chosen += [left[k] for k in places]
        left = [i for k, i in enumerate(left) if k not in set(places)]


def interval(differences: np.ndarray) -> tuple[float, float, float]:
    mean, n = float(differences.mean()), len(differences)
    half = float(student.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return mean, mean - half, mean + half


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--sets", nargs="+", default=["cora", "us50"])
    parser.add_argument("--diversity", type=float, default=0.5)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    options = parser.parse_args()
    data_folder()
    record = {}
    for name in options.sets:
        X, y = read(name)
        runs: dict[bool, list] = {True: [], False: []}
        for seed in range(options.first, options.first + options.draws):
            order = np.random.default_rng(seed).permutation(len(X))
            for active, rows in runs.items():
                rows.append(curve(X, y, order, POOL[name], active, options.diversity))
            print(
                f"{name} draw {seed}: "
                + ", ".join(
                    f"{mark}: {100 * runs[True][-1][mark][0]:.2f} against {100 * runs[False][-1][mark][0]:.2f}"
                    for mark in MARKS
                ),
                flush=True,
            )
        for mark in MARKS:
            for k, what in enumerate(("token accuracy", "whole sequences")):
                chosen, drawn = (100 * np.array([row[mark][k] for row in runs[active]]) for active in (True, False))
                mean, low, high = interval(chosen - drawn)
                print(
                    f"{name}, {mark} labels, {what}: chosen {chosen.mean():.2f}, random {drawn.mean():.2f}, "
                    f"difference {mean:+.2f} [{low:+.2f}, {high:+.2f}]",
                    flush=True,
                )
                record[f"{name}_{mark}_{what.replace(' ', '_')}_gain"] = [round(v, 3) for v in (mean, low, high)]
    print(json.dumps(record))


if __name__ == "__main__":
    main()
