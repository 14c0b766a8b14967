"""Segmentations under real rules against plain ones: CPU time of ``SegmentCRF.predict`` with and without rules.

Cora citations, 300 to learn from and 200 to cut; rules are mined (all six families, at their own price) and proposed by
template. Of the proposed ones those are kept that a model of one half of the 300 breaks in the other half at least 2.75
times as often as the truth does; they are priced by how often they fail.

    RULEFIELD_DATA=... python benchmarks/segment_rules.py [--scheme BIOES] [--repeat 3]
"""

import argparse
import json
from collections import Counter
from time import process_time

import numpy as np
from sklearn.base import clone

from common import data_folder
from families import RULES
from rulefield import SegmentCRF, TokenFeatures
from rulefield import rules as r
from rulefield.datasets import load_cora
from rulefield.encode.cues import citation_cues
from rulefield.encode.spans import convert
from rulefield.metrics import span_f1
from rulefield.rules.finding.mine import mine_table


def learned_rules(crf, X, y, scheme):
    """Mined rules and proposed ones, with weights, from labelled data."""
    mined = [row.rule for row in mine_table(X, y, scheme=scheme, families=RULES)]
    half = len(X) // 2
    predicted = clone(crf).fit(X[:half], y[:half]).predict(X[half:])
    kept = r.prune(r.propose(y, scheme=scheme), X[half:], y[half:], list(predicted), scheme=scheme)
    proposed = []
    for found in r.check(kept, X, y, scheme=scheme):
        fails = (found.broken + 0.5) / (found.sequences + 1.0)
        proposed.append(found.rule.soft(float(-np.log(fails))))
    return mined, proposed


def cpu(call, repeat):
    """Least CPU seconds of a call, and its answer."""
    best, answer = np.inf, None
    for _ in range(repeat):
        begun = process_time()
        answer = call()
        best = min(best, process_time() - begun)
    return best, answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheme", default="BIOES")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    data_folder()
    scheme = options.scheme
    X, y = load_cora()
    y = [convert(labels, "BIO", scheme) for labels in y]
    order = np.random.default_rng(0).permutation(len(X))
    train, test = (([X[i] for i in rows], [y[i] for i in rows]) for rows in (order[:300], order[300:]))
    features = TokenFeatures(lexicons=citation_cues(), marks=True)
    crf = SegmentCRF(scheme=scheme, l2=1.0, min_count=2, features=features, n_jobs=1).fit(*train)
    mined, proposed = learned_rules(crf, *train, scheme)
    plain, free = cpu(lambda: crf.predict(test[0], rules=[]), options.repeat)
    print(f"{len(test[0])} citations, {len(crf.classes_)} types, longest segment {crf.model_.max_length}")
    print(
        f"plain: {1e3 * plain / len(test[0]):.2f} ms per citation, F1 {100 * span_f1(test[1], free, scheme=scheme):.2f}"
    )
    figures = {}
    data, tokens, _ = crf._given(test[0], None)
    ruleless = cpu(lambda: crf._decoder().best(data), options.repeat)[0]
    for name, rules in (("mined", mined), ("proposed", proposed), ("all", mined + proposed)):
        crf.predict(test[0], rules=rules)
        ruled, under = cpu(lambda rules=rules: crf.predict(test[0], rules=rules), options.repeat)
        decoder = crf._ruled(rules)
        alone, _ = cpu(lambda decoder=decoder: decoder.results(data, tokens, None), options.repeat)
        found = crf.decode(test[0], rules=rules)
        engines = Counter(f"{row.engine} {row.status}" for row in found)
        changed = sum(list(a) != list(b) for a, b in zip(free, under))
        print(
            f"{name}: {len(rules)} rules, {1e3 * ruled / len(test[0]):.2f} ms per citation = {ruled / plain:.2f} x plain "
            f"({alone / ruleless:.2f} x without reading the input), {changed} citations change, "
            f"F1 {100 * span_f1(test[1], under, scheme=scheme):.2f}; {dict(engines)}"
        )
        figures[name] = round(ruled / plain, 2)
        figures[f"{name} decoding alone"] = round(alone / ruleless, 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
