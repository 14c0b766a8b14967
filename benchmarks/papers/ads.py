"""Apartment advertisements, Table 8 of [Fersini14]: 102 to train on, 100 to choose on, 100 to test.

    RULEFIELD_DATA=... python benchmarks/papers/ads.py [--draws 20] [--rows chain,ruled] [--keep DIR]

Token accuracy. The paper reports 78.50 with all families of rules, Chang et al. (2012) 75.28; whether they used exactly these
102 and 100 ads is likely by size, not stated. Rows with "+ words" also use groups of words from the 8,464 ads without labels
(``rulefield.datasets.word_clusters``). The best row is chosen on the 100 ads for development. ``--draws``: train and test
parts are drawn again from all 302 labeled ads, paired gain over the first row with its 95 % interval. ``--keep DIR`` keeps
the figures of each row and draw, and goes on from those that are kept. The last line is JSON.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder, kept
from families import accuracy, interval, mined_families
from rulefield import ChainCRF, RuledCRF, SegmentCRF, TokenFeatures
from rulefield.datasets import load_ads, word_clusters

PAPER = {"[Fersini14], all families": 78.50, "Chang et al. 2012": 75.28}
Labeled = tuple[list, list]


def rows() -> dict[str, Callable[[], Any]]:
    """Return a maker of every estimator, with default settings but for the features."""

    @cache
    def clusters() -> TokenFeatures:
        return TokenFeatures(lexicons=word_clusters(load_ads("unlabeled")[0]))

    return {
        "chain": ChainCRF,
        "ruled": lambda: RuledCRF(ChainCRF()),
        "two stages": lambda: RuledCRF(ChainCRF(), method="two-stage"),
        "segments": SegmentCRF,
        "ruled segments": lambda: RuledCRF(SegmentCRF()),
        "chain + words": lambda: ChainCRF(features=clusters()),
        "ruled + words": lambda: RuledCRF(ChainCRF(features=clusters())),
        "segments + words": lambda: SegmentCRF(features=clusters()),
        "ruled segments + words": lambda: RuledCRF(SegmentCRF(features=clusters())),
    }


def family_rows(train: Labeled, parts: dict[str, Labeled]) -> dict[str, dict[str, float]]:
    """Accuracies of the chain under each family of mined rules at the paper's prices (eq. 30)."""
    crf = ChainCRF().fit(*train)
    families = mined_families(*train, None, [str(label) for label in crf.classes_])
    return {
        f"mined: {family}": {
            part: 100 * accuracy(X, y, crf.predict(X, rules=rules)) for part, (X, y) in parts.items()
        }
        for family, rules in families.items()
    }


def measure(make: Callable[[], Any], train: Labeled, parts: dict[str, Labeled]) -> dict[str, float]:
    begun = time.process_time()
    model = make().fit(*train)
    fit_seconds = time.process_time() - begun
    return {part: 100 * accuracy(X, y, model.predict(X)) for part, (X, y) in parts.items()} | {"fit_s": fit_seconds}


def draw(labeled: Labeled, seed: int, n_train: int, n_test: int) -> tuple[Labeled, Labeled]:
    order = np.random.default_rng(seed).permutation(len(labeled[0]))
    picks = order[:n_train], order[n_train : n_train + n_test]
    first, second = (([labeled[0][i] for i in pick], [labeled[1][i] for i in pick]) for pick in picks)
    return first, second


def gains(
    makers: dict[str, Callable[[], Any]], labeled: Labeled, sizes: tuple[int, int], draws: int, keep: Path | None
) -> dict[str, Any]:
    """Gains over the first row by draws of train and test parts."""
    scores: dict[str, list[float]] = {name: [] for name in makers}
    for seed in range(draws):
        train, test = draw(labeled, seed, *sizes)
        for name, make in makers.items():
            row = kept(keep, f"draw {seed} {name}", measure, make, train, {"test": test})
            scores[name].append(row["test"])
        print(f"draw {seed}: " + ", ".join(f"{name} {values[-1]:.2f}" for name, values in scores.items()), flush=True)
    base = np.array(next(iter(scores.values())))
    return {
        name: {"mean": float(np.mean(v)), "gain": float(np.mean(v - base)), "interval": interval(np.array(v) - base)}
        for name, v in scores.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--rows")
    parser.add_argument("--no-families", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("default")
    data_folder()
    train, dev, test = (load_ads(part) for part in ("train", "dev", "test"))
    makers = rows()
    if options.rows:
        makers = {name: makers[name] for name in options.rows.split(",")}
    table: dict[str, dict[str, float]] = {}
    for name, make in makers.items():
        table[name] = kept(options.keep, name, measure, make, train, {"dev": dev, "test": test})
        print(f"{name:28s} " + "  ".join(f"{part} {value:6.2f}" for part, value in table[name].items()), flush=True)
    if not options.no_families:
        found_families = kept(options.keep, "families", family_rows, train, {"dev": dev, "test": test})
        for name, found in found_families.items():
            table[name] = found
            print(f"{name:28s} dev {found['dev']:6.2f}  test {found['test']:6.2f}", flush=True)
    best = max(table, key=lambda name: table[name]["dev"])
    print(f"best on dev: {best}; paper: {PAPER}")
    record: dict[str, Any] = {"rows": table, "best_row": best, "best": round(table[best]["test"], 2), "paper": PAPER}
    if options.draws:
        labeled = tuple(a + b + c for a, b, c in zip(train, dev, test))
        record["draws"] = gains(makers, labeled, (len(train[0]), len(test[0])), options.draws, options.keep)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
