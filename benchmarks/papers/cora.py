"""Mined and proposed rules on Cora citations: token accuracy over ten random 300/200 splits ([Fersini14]).

Features, penalties and the learner of the rules' weights were chosen by cross-validation inside the 300 of the first two
splits; weights of rules are learned by cross-fitting inside the 300 of each split; the 200 are read once per split.

    RULEFIELD_DATA=... python benchmarks/papers/cora.py [--splits 10] [--jobs 2]
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder
from families import ALL, CHAIN, SEGMENT, accuracy, figures, learned_predictions, plain, print_table
from rulefield import ChainCRF, SegmentCRF, TokenFeatures, metrics
from rulefield.datasets import load_cora
from rulefield.encode.cues import citation_cues
from rulefield.encode.spans import convert
from rulefield.estimators.ruled.estimator import cross_fit

PAPER = "[Fersini14]: CRF-Soft 93.99, learning with inference 89.72; F author 95.19, title 95.31, booktitle 92.61"
FIELDS = ("author", "title", "booktitle")
SCHEME = "BIOES"


def scores(gold, guess) -> dict[str, float]:
    """Precision, recall and F of tokens (mean over the labels) and of whole fields, and F of the paper's three labels."""
    tokens = [plain(g) for g in gold], [plain(g) for g in guess]
    found = {}
    for letter, token, span in (
        ("P", metrics.token_precision, metrics.span_precision),
        ("R", metrics.token_recall, metrics.span_recall),
        ("F", metrics.token_f1, metrics.span_f1),
    ):
        found[f"token macro {letter}"] = token(*tokens, average="macro")
        for average in ("micro", "macro"):
            found[f"field {average} {letter}"] = span(gold, guess, average=average, scheme=SCHEME)
    by_label = metrics.token_f1(*tokens, average=None)
    return {name: 100 * float(value) for name, value in (found | {f"F {f}": by_label[f] for f in FIELDS}).items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    data_folder()
    X, y = load_cora()
    y = [convert(labels, "BIO", SCHEME) for labels in y]
    common = {"features": TokenFeatures(lexicons=citation_cues(), marks=True), "min_count": 2, "n_jobs": options.jobs}
    runs: dict[str, list[float]] = {}
    details: dict[str, list[dict[str, float]]] = {}
    for seed in range(options.splits):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = (([X[i] for i in rows], [y[i] for i in rows]) for rows in (order[:300], order[300:]))
        fitted = cross_fit(ChainCRF(scheme=SCHEME, l2=0.1, **common), *train, cv=5, random_state=seed)
        guesses = learned_predictions(fitted, *train, test[0], options.jobs, seed)
        guesses[SEGMENT] = SegmentCRF(scheme=SCHEME, l2=1.0, **common).fit(*train).predict(test[0])
        for name, guess in guesses.items():
            runs.setdefault(name, []).append(100 * accuracy(*test, guess))
            details.setdefault(name, []).append(scores(test[1], guess))
        print(f"split {seed}: " + ", ".join(f"{name} {values[-1]:.2f}" for name, values in runs.items()), flush=True)
    print(PAPER)
    print_table(runs, "token accuracy")
    for measure in details[CHAIN][0]:
        means = {name: np.mean([d[measure] for d in details[name]]) for name in (CHAIN, ALL, SEGMENT)}
        print(f"  {measure:16s} " + ", ".join(f"{name} {value:.2f}" for name, value in means.items()))
    print(json.dumps(figures(runs)))


if __name__ == "__main__":
    main()
