"""Do rules that nobody wrote help, on data that nobody tuned on? RuledCRF against the same chain without rules, by default.

Chain and rules have their defaults. Sets: Cora citations (300 to learn from, and 50; cora_features has the features that
cora.py chose), names of companies (400, and 50), US50 addresses (51), 1,000 generated addresses, CoNLL-2002 Spanish names
(all of esp.train). Rules are found and weighed inside each training part, by cross-fitting; the
test part of a split is read once. For each set: the gain in tokens (label types, as papers count), whole sequences and span
F1, in points, with a 95 % interval over the splits (over sentences where there is one split); the same for every rule that
is worth anything on the training part, with which ``gain_kept`` compares.

    RULEFIELD_DATA=... python benchmarks/papers/learned_rules.py [--sets cora,us50] [--splits 2] [--jobs 1]
"""

import argparse
import json
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder
from families import interval, plain
from rulefield import ChainCRF, RuledCRF, TokenFeatures
from rulefield.datasets import load_conll2002, load_cora, load_us50, make_addresses
from rulefield.encode.cues import citation_cues
from rulefield.encode.spans import SegmentTable, convert
from rulefield.estimators.ruled.candidates import find_candidates
from rulefield.estimators.ruled.gains import gains
from rulefield.estimators.ruled.held_out import cross_fit
from rulefield.rules.finding.observed import Parts

FOUND, MANY = "rules found", "every rule worth .05 nats"
MIN_POINTS = 0.1
"""Gains of many rules below this are noise: no share of them is counted."""
MEASURES = ("tokens", "whole", "spans")
Part = tuple[list, list]


@dataclass(frozen=True)
class Set:
    """A data set: its chain, and its splits into training and test parts."""

    chain: Callable[[], ChainCRF]
    splits: Callable[[int], Iterator[tuple[Part, Part]]]
    n_splits: int
    left_out: tuple[str, ...] = ()
    """Tokens that are not counted (commas that the reader split off)."""


def random_splits(X: list, y: list, n_train: int, n_splits: int) -> Iterator[tuple[Part, Part]]:
    """Random training parts of ``n_train`` sequences; the rest is for testing."""
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = (([X[i] for i in rows], [y[i] for i in rows]) for rows in np.split(order, [n_train]))
        yield train, test


def cora(n_train: int) -> Set:
    """Citations."""
    return Set(lambda: ChainCRF(scheme="BIO"), lambda n: random_splits(*load_cora(), n_train, n), 10)


def cora_features() -> Set:
    """Citations in BIOES, 300 to learn from, with the features that cora.py chose."""

    def chain() -> ChainCRF:
        features = TokenFeatures(lexicons=citation_cues(), marks=True)
        return ChainCRF(scheme="BIOES", l2=0.1, min_count=2, features=features)

    def splits(n: int) -> Iterator[tuple[Part, Part]]:
        X, y = load_cora()
        return random_splits(X, [convert(labels, "BIO", "BIOES") for labels in y], 300, n)

    return Set(chain, splits, 10)


def companies(n_train: int) -> Set:
    """Names of companies, as parserator's users label them: no scheme."""

    def splits(n: int) -> Iterator[tuple[Part, Part]]:
        root = ElementTree.parse(data_folder() / "companies" / "company_labeled.xml").getroot()
        names = [[(part.text or "", part.tag) for part in name] for name in root if len(name)]
        X, y = ([[pair[i] for pair in name] for name in names] for i in (0, 1))
        return random_splits(X, y, n_train, n)

    return Set(ChainCRF, splits, 5 if n_train == 400 else 10)


def us50() -> Set:
    """Addresses: 51 to learn from."""

    def splits(n: int) -> Iterator[tuple[Part, Part]]:
        train, test = load_us50("train"), load_us50("test")
        return random_splits([*train[0], *test[0]], [*train[1], *test[1]], len(train[0]), n)

    return Set(lambda: ChainCRF(scheme="BIO"), splits, 10, (",",))


def addresses() -> Set:
    """Generated addresses: 1,000 to learn from."""
    return Set(lambda: ChainCRF(scheme="BIO"), lambda n: random_splits(*make_addresses(1500, seed=0), 1000, n), 2)


def conll2002(part: str = "testb", sentences: int | None = None) -> Set:
    """Spanish names: esp.train to learn from, esp.testb to test, esp.testa not used but for trials."""

    def splits(n: int) -> Iterator[tuple[Part, Part]]:
        X, y = (rows[:sentences] for rows in load_conll2002("train"))
        yield (X, [convert(labels, "BIO", "BIO") for labels in y]), load_conll2002(part)

    return Set(lambda: ChainCRF(scheme="BIO", features=TokenFeatures()), splits, 1)  # tokens are words and tags


SETS: dict[str, Callable[[], Set]] = {
    "cora": lambda: cora(300),
    "cora_50": lambda: cora(50),
    "cora_features": cora_features,
    "companies": lambda: companies(400),
    "companies_50": lambda: companies(50),
    "us50": us50,
    "addresses": addresses,
    "conll2002": conll2002,
}


def gains_of(data: Set, test: Part, before, after, scheme: str | None) -> dict[str, tuple[float, float]]:
    """Points and standard error in each measure; tokens by label types."""
    X, gold = test
    labels = sorted({label for rows in (gold, before, after) for row in rows for label in row})
    ids = [[np.array([labels.index(label) for label in row]) for row in rows] for rows in (gold, before, after)]
    found = {gain.measure: (gain.points, gain.error) for gain in gains(*ids, SegmentTable(labels, scheme))}
    types = [[plain(row) for row in rows] for rows in (gold, before, after)]
    counted = [[i for i, token in enumerate(x) if token not in data.left_out] for x in X]
    change = [sum((a[i] == g[i]) - (b[i] == g[i]) for i in some) for some, g, b, a in zip(counted, *types)]
    size = np.array([len(some) for some in counted], dtype=float)
    gain = sum(change) / size.sum()
    each = (np.array(change) - gain * size) / size.sum()
    error = np.sqrt((each**2).sum() * len(each) / (len(each) - 1))
    return found | {"tokens": (100 * float(gain), 100 * float(error))}


def run_split(data: Set, train: Part, test: Part, seed: int, jobs: int) -> dict:
    """Gains of few and of many rules over the chain, held-out gains, and CPU seconds."""
    chain = data.chain().set_params(n_jobs=jobs)
    begun = process_time()
    chain.fit(*train)
    alone = process_time() - begun
    begun = process_time()
    fitted = cross_fit(data.chain().set_params(n_jobs=jobs), *train, random_state=seed)
    ruled = RuledCRF(fitted, random_state=seed, n_jobs=jobs).fit(*train)
    whole = process_time() - begun
    scheme = chain.scheme
    candidates = find_candidates(fitted, "find", Parts.whole(len(fitted.examples))).rules
    weights = fitted.weights_of(candidates).tolist()
    many = [rule.soft(weight) for rule, weight in zip(candidates, weights) if weight > 0 and not ruled.vetoed_]
    before, plain_seconds = timed(lambda: list(ruled.predict(test[0], rules=[])))
    after, ruled_seconds = timed(lambda: list(ruled.predict(test[0])))
    answers = {FOUND: after, MANY: list(ruled.predict(test[0], rules=many))}
    gained = {name: gains_of(data, test, before, after, scheme) for name, after in answers.items()}
    right = [
        g == p for x, y, z in zip(*test, before) for t, g, p in zip(x, plain(y), plain(z)) if t not in data.left_out
    ]
    return {
        "chain": 100 * float(np.mean(right)),
        "seconds": (alone, whole),
        "predict_cost": ruled_seconds / plain_seconds,
        "rules": (ruled.n_candidates_, ruled.n_kept_, len(ruled.rules_), len(many)),
        "held_out": ruled.gains_,
        "vetoed": ruled.vetoed_,
        **gained,
    }


def timed(call: Callable[[], list]) -> tuple[list, float]:
    """Answer of a call, and the least CPU seconds of three."""
    seconds = []
    for _ in range(3):
        begun = process_time()
        answer = call()
        seconds.append(process_time() - begun)
    return answer, min(seconds)


def bars(runs: dict[str, list[dict]]) -> dict[str, float]:
    """Few rules: how many, what they keep of the gain of many, and what they cost, the largest over all sets."""
    kept = []
    for found in runs.values():
        for measure in ("tokens", "whole"):
            some, many = (float(np.mean([run[which][measure][0] for run in found])) for which in (FOUND, MANY))
            if abs(many) > MIN_POINTS:
                kept.append(some / many)
    return {
        "rules_kept": max(float(np.median([run["rules"][2] for run in found])) for found in runs.values()),
        "gain_kept": float(np.mean(kept)) if kept else 1.0,
        "rules_predict_cost": max(
            float(np.median([run["predict_cost"] for run in found])) for found in runs.values()
        ),
        "fit_ratio": max(
            float(np.median([run["seconds"][1] / run["seconds"][0] for run in found])) for found in runs.values()
        ),
    }


def summary(name: str, runs: list[dict], which: str) -> dict[str, float]:
    """Print a row of the table and return its figures."""
    record: dict[str, float] = {}
    cells = []
    for measure in MEASURES:
        points, errors = (np.array([run[which][measure][i] for run in runs]) for i in (0, 1))
        low, high = (
            interval(points) if len(points) > 1 else (points[0] - 1.96 * errors[0], points[0] + 1.96 * errors[0])
        )
        record |= {
            f"gain_{measure}": float(points.mean()),
            "low" + ("" if measure == "tokens" else f"_{measure}"): low,
        }
        cells.append(f"{measure} {points.mean():+.2f} [{low:+.2f}, {high:+.2f}]")
        if measure == "tokens":
            record["worst_split_se"] = float(min(points / np.maximum(errors, 1e-9)))
    record["fit_ratio"] = float(np.mean([run["seconds"][1] / run["seconds"][0] for run in runs]))
    print(
        f"  {name:10s} {which:29s} chain {np.mean([run['chain'] for run in runs]):.2f}; {'; '.join(cells)}; worst split "
        f"{record['worst_split_se']:+.1f} SE; fit {record['fit_ratio']:.1f} x the chain's",
        flush=True,
    )
    return {key: round(value, 4) for key, value in record.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--splits", type=int, help="of each set, where it has more")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    data_folder()
    record: dict[str, Any] = {}
    all_runs: dict[str, list[dict]] = {}
    for name in options.sets.split(","):
        begun = process_time()
        data = SETS[name]()
        runs = []
        for seed, (train, test) in enumerate(data.splits(min(options.splits or data.n_splits, data.n_splits))):
            runs.append(run_split(data, train, test, seed, options.jobs))
            run = runs[-1]
            cells = ", ".join(f"{m} {run[FOUND][m][0]:+.2f} ± {run[FOUND][m][1]:.2f}" for m in MEASURES)
            print(
                f"{name} {seed}: chain {run['chain']:.2f}; {cells}; held out {', '.join(map(str, run['held_out']))}"
                f"{'; vetoed' if run['vetoed'] else ''}; predicting {run['predict_cost']:.1f} x the chain's; "
                f"rules {run['rules']}; {run['seconds'][0]:.1f}, {run['seconds'][1]:.1f} s",
                flush=True,
            )
        all_runs[name] = runs
        record[name] = summary(name, runs, FOUND)
        record[f"{name}_many"] = summary(name, runs, MANY)
        print(f"  {name}: {process_time() - begun:.0f} CPU-s in all", flush=True)
    print(json.dumps(record | ({} if not all_runs else bars(all_runs))))


if __name__ == "__main__":
    main()
