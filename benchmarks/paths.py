"""What users call first, and what it costs: probabilities under rules beside decoding, raw text beside other parsers.

*Costs.* CPU time of one thread on generated citations with 28 labels under four rules (a hard count, a soft count, an order,
an implication): each call over ``decode`` (segments: ``predict``) under the same rules, in one run.

*Missing.* Share of texts without a probability under the rules that ``RuledCRF`` finds, the largest of Cora, US50, companies.

*True errors.* Share of short citations whose exact probability (``tolerance=0``, tested against enumeration) lies within
``probability_error`` at the default tolerance; of drawn ones within two standard errors.

    RULEFIELD_DATA=... python benchmarks/paths.py [--only costs|found|errors|texts|startup|memory] [--sequences 200]
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

from common import data_folder
from raw_texts import run_memory, run_startup, run_texts
from rulefield import ChainCRF, RuledCRF, SegmentCRF
from rulefield import rules as r
from rulefield.datasets import load_cora, load_us50, make_citations
from rulefield.encode.formats import read_documents
from rulefield.inference.sequences import sums

FOUR = [
    r.segments("title") <= 1,
    (r.segments("author") <= 1).soft(1.5),
    r.before("author", "title").soft(1.0),
    r.implies(r.present("journal"), r.absent("booktitle")).soft(1.0),
]


def cpu_ms(call: Callable[[], Any], count: int, rounds: int = 5) -> float:
    """Least CPU milliseconds per sequence of several calls, the first of which is not counted."""
    call()
    best = np.inf
    for _ in range(rounds):
        begun = time.process_time()
        call()
        best = min(best, time.process_time() - begun)
    return 1e3 * best / count


def costs(count: int, noise: float = 0.6, seed: int = 0) -> dict[str, float]:
    """Milliseconds per sequence and ratios to decoding."""
    X, y = make_citations(200 + count, seed=seed, noise=noise)
    train, test = (X[:200], y[:200]), X[200:]
    crf = ChainCRF(scheme="BIO").fit(*train)
    segments = SegmentCRF(scheme="BIO").fit(*train)
    calls: dict[str, Callable[[], Any]] = {
        "predict": lambda: crf.predict(test, rules=FOUR),
        "decode": lambda: crf.decode(test, rules=FOUR),
        "probability": lambda: crf.decode(test, rules=FOUR, probability=True),
        "marginals": lambda: crf.predict_marginals(test, rules=FOUR),
        "kbest": lambda: crf.predict_kbest(test, rules=FOUR, k=5),
        "sample": lambda: crf.sample(test, rules=FOUR, n_samples=5, random_state=0),
        "segment_decode": lambda: segments.predict(test[:50], rules=FOUR),
        "segment_marginals": lambda: segments.predict_marginals(test[:50], rules=FOUR),
        "explain": lambda: [crf.explain(x) for x in test[:50]],
        "explain_rules": lambda: [crf.explain(x, rules=FOUR) for x in test[:50]],
        "one": lambda: [crf.predict([x]) for x in test[:50]],
        "one_rules": lambda: [crf.predict([x], rules=FOUR) for x in test[:50]],
    }
    ms = {
        name: cpu_ms(call, 50 if name.startswith(("segment", "explain", "one")) else count)
        for name, call in calls.items()
    }
    print("milliseconds per sequence:", {name: round(value, 4) for name, value in ms.items()})
    ratios = {f"{name}_cost": ms[name] / ms["decode"] for name in ("probability", "marginals", "kbest", "sample")}
    ratios["segment_marginals_cost"] = ms["segment_marginals"] / ms["segment_decode"]
    return ratios | {
        "explain_ms": ms["explain"],
        "explain_rules_ms": ms["explain_rules"],
        "one_sequence_ms": ms["one"],
        "one_sequence_rules_ms": ms["one_rules"],
    }


def real_sets() -> dict[str, tuple[list[list[str]], list[list[str]]]]:
    """Tokens and labels of the real sets on which rules are found."""
    companies = read_documents(str(data_folder() / "companies" / "company_labeled.xml"))
    us50 = [load_us50(part) for part in ("train", "test")]
    return {
        "cora": load_cora(),
        "us50": (us50[0][0] + us50[1][0], us50[0][1] + us50[1][1]),
        "companies": _tokens([d for d in companies if d.spans]),
    }


def _tokens(documents: list[Any]) -> tuple[list[list[str]], list[list[str]]]:
    from rulefield.encode.alignment import align
    from rulefield.encode.tokenizers import as_tokenizer

    tokenizer = as_tokenizer("auto")
    rows = [(d.text, align(d, tokenizer, "BIO", "snap")) for d in documents]
    return [[text[a:b] for a, b in row.places] for text, row in rows], [row.labels for _, row in rows]


def found_rules(seed: int = 0) -> dict[str, float]:
    """Share of texts without a probability under found rules, and what their probabilities cost."""
    shares, errors, times = {}, {}, {}
    for name, (X, y) in real_sets().items():
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:200], order[200:400]
        model = RuledCRF(ChainCRF(scheme="BIO")).fit([X[i] for i in train], [y[i] for i in train])
        rows = [X[i] for i in test]
        model.decode(rows[:3], probability=True)
        begun = time.process_time()
        answers = model.decode(rows, probability=True)
        times[name] = 1e3 * (time.process_time() - begun) / len(rows)
        shares[name] = float(np.mean([one.probability is None for one in answers]))
        errors[name] = float(np.max([one.probability_error for one in answers]))
        drawn = np.mean([one.probability_reason == sums.REASONS[sums.DRAWN] for one in answers])
        print(
            f"{name}: {len(model.rules_)} rules, {times[name]:.2f} ms per text, largest error {errors[name]:.2g}, "
            f"drawn {drawn:.2f}"
        )
    return {"missing": max(shares.values()), "found_error": max(errors.values()), "found_ms": max(times.values())}


def true_errors(count: int = 150, seed: int = 1) -> dict[str, float]:
    """Share of texts whose exact probability lies within the error that is told."""
    X, y = make_citations(200 + count, seed=seed, noise=0.6)
    crf = ChainCRF(scheme="BIO", max_iter=15).fit(X[:60], y[:60])
    test = [x[:6] for x in X[200:]]
    exact = crf.decode(test, rules=FOUR, probability=True, tolerance=0.0)
    near = crf.decode(test, rules=FOUR, probability=True)
    within = [abs(a.probability - b.probability) <= b.probability_error + 1e-9 for a, b in zip(exact, near)]
    before, sums.chances.__defaults__ = sums.chances.__defaults__, (sums.SUM_ONLY, sums.TOLERANCE, 2)
    try:
        drawn = crf.decode(test, rules=FOUR, probability=True)
    finally:
        sums.chances.__defaults__ = before
    drawn_too = [(a, b) for a, b in zip(exact, drawn) if b.probability_reason == sums.REASONS[sums.DRAWN]]
    two = [abs(a.probability - b.probability) <= 2 * b.probability_error + 1e-9 for a, b in drawn_too]
    print(f"{len(within)} sums, {len(two)} drawn")
    return {"error_true": float(np.mean(within)), "error_true_drawn": float(np.mean(two)) if two else 1.0}


def main() -> None:
    """Run the parts that are asked for; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["costs", "found", "errors", "texts", "startup", "memory"])
    parser.add_argument("--sequences", type=int, default=200)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    parts: dict[str, Callable[[], dict[str, float]]] = {
        "costs": lambda: costs(given.sequences),
        "found": found_rules,
        "errors": true_errors,
        "texts": run_texts,
        "startup": run_startup,
        "memory": run_memory,
    }
    result: dict[str, float] = {}
    for name, part in parts.items():
        if given.only in (None, name):
            result |= part()
    print(json.dumps({name: round(value, 4) for name, value in result.items()}))


if __name__ == "__main__":
    main()
