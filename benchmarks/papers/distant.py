"""Distant supervision: 30 % of the names are marked, nothing else is known; one expectation repairs the rest.

CoNLL-2002 Spanish. A draw takes some sentences of esp.train, keeps each name's labels with probability 0.3 and forgets
all other labels, so that nothing says "no name here". The share of tokens that belong to names is counted on the other
sentences of esp.train. Chains with the same features: unknown labels summed over (the baseline), also begun from presumed
"O"; the same with the one expectation, by posterior regularization from presumed "O"; all labels known.

    RULEFIELD_DATA=... python benchmarks/papers/distant.py [--draws 5] [--sentences 886] [--test esp.testb]

Recovery is how much of the way in span F1 from the baseline to all labels the expectation goes. Tune on esp.testa.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder, read_columns
from rulefield import ChainCRF
from rulefield.encode.tokens import TokenFeatures
from rulefield.metrics import span_f1
from rulefield.rules.expectations import share

KEPT = 0.3
WIDTH = 0.03
FEATURES = TokenFeatures(affixes=3, window=1, bigrams=False, position=True)


def load(name: str) -> tuple[list, list]:
    sentences = read_columns(data_folder() / "conll2002_es" / name)
    return [[token[0] for token in s] for s in sentences], [[token[2] for token in s] for s in sentences]


def keep_some(labels: list[str], rng) -> list[str | None]:
    """Labels of some names; None everywhere else."""
    out: list[str | None] = [None] * len(labels)
    keep = False
    for t, label in enumerate(labels):
        if label.startswith("B-"):
            keep = rng.random() < KEPT
        if label != "O" and keep:
            out[t] = label
    return out


def draw(X, y, test, gold, sentences: int, seed: int, jobs: int) -> dict:
    """F1 of the chains on one draw of sentences and of kept names."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    train, rest = order[:sentences], order[sentences:]
    tokens, full = [X[i] for i in train], [y[i] for i in train]
    kept = [keep_some(labels, rng) for labels in full]
    names = sorted({label for labels in kept for label in labels if label})
    entity = float(np.mean([label != "O" for i in rest for label in y[i]]))
    wanted = [share(names).between(entity * (1 - WIDTH), entity * (1 + WIDTH)).named("share of name tokens")]
    # a token of which nothing is known may have any label, "O" included, which no token shows
    unknown = [[label or {*names, "O"} for label in labels] for labels in kept]
    settings = {"scheme": "BIO", "features": FEATURES, "n_jobs": jobs}
    runs = {
        "baseline": (ChainCRF(**settings), unknown),
        "baseline_presumed": (ChainCRF(**settings, initial_label="O"), kept),
        "with_expectation": (ChainCRF(**settings, expectations=wanted, initial_label="O"), kept),
        "full": (ChainCRF(**settings), full),
    }
    found: dict = {"presumed_share": entity}
    for name, (crf, labels) in runs.items():
        begun = time.perf_counter()
        crf.fit(tokens, labels)
        found[name] = span_f1(gold, crf.predict(test), scheme="BIO")
        found[f"{name}_s"] = time.perf_counter() - begun
        for report in crf.expectations_:
            found["under_q"], found["under_model"] = report.under_q, report.under_model
    found["recovery"] = (found["with_expectation"] - found["baseline"]) / (found["full"] - found["baseline"])
    return found


def recovery(draws: int = 5, sentences: int = 886, test: str = "esp.testb", jobs: int = 2) -> dict:
    """Run the draws, print them, and return mean and spread of each figure."""
    X, y = load("esp.train.gz")
    unseen, gold = load(test)
    runs = []
    for seed in range(draws):
        run = draw(X, y, unseen, gold, sentences, seed, jobs)
        runs.append(run)
        print(
            f"distant, draw {seed}: F1 unknown summed over {run['baseline']:.3f} (from presumed O "
            f"{run['baseline_presumed']:.3f}), with expectation {run['with_expectation']:.3f} "
            f"({run['with_expectation_s']:.0f} s), all labels {run['full']:.3f}; "
            f"recovery {run['recovery']:.3f}; share wanted {run['presumed_share']:.4f}, q {run['under_q']:.4f}, "
            f"model {run['under_model']:.4f}",
            flush=True,
        )
    figures = {
        key: [
            round(float(np.mean([run[key] for run in runs])), 4),
            round(float(np.std([run[key] for run in runs])), 4),
        ]
        for key in ("baseline", "baseline_presumed", "with_expectation", "full", "recovery")
    }
    shown = ", ".join(f"{key} {mean:.3f} ({spread:.3f})" for key, (mean, spread) in figures.items())
    print(f"distant supervision, {draws} draws of {sentences} sentences, mean (spread): {shown}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=886)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--test", default="esp.testb", help="esp.testa while tuning")
    o = parser.parse_args()
    figures = recovery(o.draws, o.sentences, o.test, o.jobs)
    print(json.dumps({"distant_recovery": figures["recovery"][0], **figures}))


if __name__ == "__main__":
    main()
