"""Rules on CoNLL-2002 Spanish names, where the paper has CoNLL-2003 ([Fersini14]): they must not harm.

The chain is fitted on esp.train, rules are found there too and get their weights on esp.testa. They are used only if, in
five folds of esp.testa, rules learned on the other folds fix more than they break (Wilcoxon over sentences, p < .05); F1
without that test is printed beside. F1 of names as conlleval counts it, on esp.testb.

    RULEFIELD_DATA=... python benchmarks/papers/conll2002.py [--sentences 8323] [--jobs 2]
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon
from sklearn.model_selection import KFold

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder
from families import ALL, family_candidates
from rulefield import ChainCRF, RuledCRF, TokenFeatures
from rulefield.datasets import load_conll2002
from rulefield.encode.spans import convert
from rulefield.metrics import span_f1, token_accuracy

PAPER = "[Fersini14] on CoNLL-2003, accuracy: CRF 71.77, all rules 73.49, segment-level CRF 65.30"


def p_value(crf: ChainCRF, rules: list, X: list, y: list, jobs: int) -> float:
    """Whether rules learned on some of the sentences help on the others: Wilcoxon over sentences, tokens set right."""
    gains = np.zeros(len(X))
    plain = crf.predict(X)
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        ruled = RuledCRF(crf, rules=rules, cv="prefit", n_jobs=jobs)
        ruled.fit([X[i] for i in train], [y[i] for i in train])
        for i, guess in zip(test, ruled.predict([X[i] for i in test])):
            gains[i] = np.sum(np.array(guess) == y[i]) - np.sum(np.array(plain[i]) == y[i])
    return float(wilcoxon(gains[gains != 0], alternative="greater").pvalue) if gains.any() else 1.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=8323)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    data_folder()
    X, y = (part[: options.sentences] for part in load_conll2002("train"))
    X_dev, y_dev = load_conll2002("testa")
    y, y_dev = ([convert(labels, "BIO", "BIO") for labels in part] for part in (y, y_dev))  # some begin inside a name
    X_test, y_test = load_conll2002("testb")
    crf = ChainCRF(scheme="BIO", l2=1.0, features=TokenFeatures(), n_jobs=options.jobs).fit(X, y)
    plain = crf.predict(X_test)
    print(f"{len(X)} sentences for the chain, {len(X_dev)} for the rules, {len(X_test)} to test; {PAPER}")
    chain = 100 * span_f1(y_test, plain)
    print(f"  {'chain':28s} F1 {chain:.2f}, accuracy {100 * token_accuracy(y_test, plain):.2f}", flush=True)
    found, untested = {}, {}
    for name, rules in family_candidates(X, y, "BIO", [str(c) for c in crf.classes_]).items():
        ruled = RuledCRF(crf, rules=rules, cv="prefit", n_jobs=options.jobs).fit(X_dev, y_dev)
        p = p_value(crf, rules, X_dev, y_dev, options.jobs) if ruled.rules_ else 1.0
        untested[name] = 100 * span_f1(y_test, ruled.predict(X_test))
        found[name] = untested[name] if p < 0.05 else chain
        print(
            f"  {name:28s} F1 {found[name]:.2f}; p {p:.3f} on esp.testa, untested F1 {untested[name]:.2f} with "
            f"{len(ruled.rules_)} of {len(rules)} rules",
            flush=True,
        )
    figures = {"chain_f1": chain, "all_rules_f1": found[ALL], "gain_over_chain": found[ALL] - chain}
    figures["untested_all_rules_f1"] = untested[ALL]
    print(json.dumps({key: round(float(value), 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
