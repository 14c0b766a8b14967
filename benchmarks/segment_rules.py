"""Segmentations under real rules against plain ones: CPU time of ``SegmentCRF.predict`` with and without rules.

Citations: 300 of Cora to learn from and 200 to cut; the outermost fields of UMass, 600 of its training part and 200 of its
dev part. Rules are mined (all six families, at their own price) and proposed by template. Of the proposed ones those are kept
that a model of one half of the training citations breaks in the other half at least 2.75 times as often as the truth does;
they are priced by how often they fail.

    RULEFIELD_DATA=... python benchmarks/segment_rules.py [--sets cora umass] [--scheme BIOES] [--repeat 3]
    python benchmarks/segment_rules.py --hard [--seeds 8]

``--hard``: random problems of 60 tokens, 8 types and segments of up to 10 tokens under 10 count rules (7 hard) and under 20
(14 hard), each against HiGHS's plain integer program in the same run. The last line is JSON: ``answered`` and ``proved`` of
``problems``, CPU seconds of both, and ``speedup_highs``, the ratio of their sums.
"""

import argparse
import json
from collections import Counter
from time import process_time

import numpy as np
from sklearn.base import clone

from common import data_folder
from families import RULES
from hard_segments import by_highs, random_problem
from rulefield import SegmentCRF, TokenFeatures
from rulefield import rules as r
from rulefield.datasets import load_cora, load_umass
from rulefield.encode.cues import citation_cues
from rulefield.encode.spans import convert
from rulefield.estimators.base import Batch
from rulefield.inference.sequences.segments.decode import decode
from rulefield.metrics import span_f1
from rulefield.rules.finding.mine import mine_table


def learned_rules(crf, X, y, scheme):
    """Mined rules and proposed ones, with weights, from labeled data."""
    mined = [row.rule for row in mine_table(X, y, scheme=scheme, families=RULES)]
    half = len(X) // 2
    predicted = clone(crf).fit(X[:half], y[:half]).predict(X[half:])
    labels = sorted({label for row in [*y, *predicted] for label in row})  # the second half may lack a rare one
    kept = r.prune(r.propose(y, scheme=scheme), X[half:], y[half:], list(predicted), scheme=scheme, labels=labels)
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


def cora(scheme):
    X, y = load_cora()
    order = np.random.default_rng(0).permutation(len(X))
    return [([X[i] for i in rows], written(y, rows, scheme)) for rows in (order[:300], order[300:])]


def umass(scheme):
    parts = []
    for part, n in (("training", 600), ("dev", 200)):
        X, y = load_umass(part)
        rows = np.random.default_rng(0).permutation(len(X))[:n]
        outermost = [[label.split("/")[0] for label in labels] for labels in y]
        parts.append(([X[i] for i in rows], written(outermost, rows, scheme)))
    return parts


def written(y, rows, scheme):
    return [convert(y[i], "BIO", scheme) for i in rows]


def measure(train, test, scheme, repeat):
    """Time ratios of one set, by which rules act."""
    features = TokenFeatures(lexicons=citation_cues(), marks=True)
    crf = SegmentCRF(scheme=scheme, l2=1.0, min_count=2, features=features, n_jobs=1).fit(*train)
    mined, proposed = learned_rules(crf, *train, scheme)
    plain, free = cpu(lambda: crf.predict(test[0], rules=[]), repeat)
    print(f"{len(test[0])} citations, {len(crf.classes_)} types, longest segment {crf.model_.max_length}")
    print(
        f"plain: {1e3 * plain / len(test[0]):.2f} ms per citation, F1 {100 * span_f1(test[1], free, scheme=scheme):.2f}"
    )
    figures = {}
    data = crf._encode(test[0]).data
    ruleless = cpu(lambda: crf._answers([], "raise", 1).ids(Batch(test[0], data)), repeat)[0]
    for name, rules in (("mined", mined), ("proposed", proposed), ("all", mined + proposed)):
        crf.predict(test[0], rules=rules)
        ruled, under = cpu(lambda rules=rules: crf.predict(test[0], rules=rules), repeat)
        answers = crf._answers(rules, "raise", 1)
        alone, _ = cpu(lambda answers=answers: answers.ids(Batch(test[0], data)), repeat)
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
    return figures


def measure_hard(seeds):
    """Decode random problems under count rules, and by HiGHS; return the figures."""
    decode(random_problem(99, 10, 7)[0])  # compiles
    answered, proved, ours, highs = 0, 0, 0.0, 0.0
    for count, hard in ((10, 7), (20, 14)):
        for seed in range(seeds):
            problem, rules = random_problem(seed, count, hard)
            seconds, found = cpu(lambda problem=problem: decode(problem), 1)
            value, peer_seconds = by_highs(problem.potentials, rules)
            answered, proved = answered + bool(len(found.labels)), proved + (found.status == "optimal")
            ours, highs = ours + seconds, highs + peer_seconds
            print(
                f"{count} rules, seed {seed}: {found.status} by {found.engine}, {found.objective:.3f} "
                f"(gap {found.gap:.3f}) in {seconds:.3f} s; HiGHS {value:.3f} in {peer_seconds:.3f} s"
            )
    figures = {"problems": 2 * seeds, "answered": answered, "proved": proved, "cpu_s": round(ours, 2)}
    return figures | {"highs_cpu_s": round(highs, 2), "speedup_highs": round(highs / ours, 2)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--scheme", default="BIOES")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    if options.hard:
        print(json.dumps(measure_hard(options.seeds)))
        return
    data_folder()
    figures = {}
    for name in options.sets:
        print(name)
        figures[name] = measure(*SETS[name](options.scheme), options.scheme, options.repeat)
    print(json.dumps(figures))


SETS = {"cora": cora, "umass": umass}

if __name__ == "__main__":
    main()
