"""Rules on CoNLL-2002 Spanish names, where the paper has CoNLL-2003 (paper 002): they must not harm.

The chain is fitted on esp.train, rules are found there too; on esp.testa they get their weights, and those that mend no
more tokens than they spoil are dropped; esp.testb is read once. F1 of names as conlleval counts it.

    RULEFIELD_DATA=... python benchmarks/papers/conll2002.py [--sentences 8323] [--jobs 2]
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder
from families import ALL, LEARNER, family_candidates
from rulefield import ChainCRF, RuledCRF, TokenFeatures
from rulefield.datasets import load_conll2002
from rulefield.encode.spans import convert
from rulefield.metrics import span_f1, token_accuracy

PAPER = "paper 002 on CoNLL-2003, accuracy: CRF 71.77, all rules 73.49, segment-level CRF 65.30"


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
    found = {}
    for name, rules in family_candidates(X, y, "BIO", [str(c) for c in crf.classes_]).items():
        ruled = RuledCRF(crf, rules, cv="prefit", n_jobs=options.jobs, **LEARNER).fit(X_dev, y_dev)
        guess = ruled.predict(X_test)
        found[name] = 100 * span_f1(y_test, guess)
        changed = sum(list(a) != list(b) for a, b in zip(plain, guess))
        print(
            f"  {name:28s} F1 {found[name]:.2f}, accuracy {100 * token_accuracy(y_test, guess):.2f}, {len(ruled.rules_)} of "
            f"{len(rules)} rules kept, {changed} sentences changed",
            flush=True,
        )
    figures = {"chain_f1": chain, "all_rules_f1": found[ALL], "gain_over_chain": found[ALL] - chain}
    print(json.dumps({key: round(float(value), 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
