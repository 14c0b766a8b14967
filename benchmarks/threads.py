"""Two threads against one: ``ChainCRF.predict(rules=...)`` from encoded sequences and from tokens.

    python benchmarks/threads.py [--sequences 5000] [--repeats 3]

A small chain is fitted on drawn citations; the rules are counts and orders of its fields. Wall time, best of the repeats, on
an otherwise idle machine of two cores; the labels must be the same. The last line is JSON: ``encoded_speedup``
(``rf.formats.Sequences``) and ``tokens_speedup``, each one thread's time over two threads', and the seconds.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations


def fields_once(labels: list[str]) -> list:
    """Every field in one piece; titles after authors, at a price."""
    types = sorted({label[2:] for label in labels if label[:2] in ("B-", "I-")})
    rules = [r.segments(name) <= 1 for name in types]
    rules += [r.before(a, b).soft(1.0) for a, b in zip(types, types[1:])]
    return rules


def best_of(repeats: int, run: Callable[[], list]) -> tuple[float, list]:
    """Least wall seconds of some runs, and the answer of the last."""
    times = []
    for _ in range(repeats):
        begun = perf_counter()
        answer = run()
        times.append(perf_counter() - begun)
    return min(times), list(answer)


def main() -> None:
    """Time both inputs with one and with two threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = make_citations(300, seed=0)
    drawn, _ = make_citations(options.sequences, seed=1)
    from_tokens = rf.ChainCRF(scheme="BIO", features=rf.TokenFeatures(), l2=0.5, max_iter=30).fit(X, y)
    encode = from_tokens._encoder.transform
    from_codes = rf.ChainCRF(scheme="BIO", l2=0.5, max_iter=30).fit(encode(X), y)
    rules = fields_once([str(label) for label in from_tokens.classes_])
    figures: dict[str, float] = {}
    for name, crf, given in (("encoded", from_codes, encode(drawn)), ("tokens", from_tokens, drawn)):
        answers = {}
        for jobs in (1, 2):
            crf.set_params(n_jobs=jobs)
            crf.predict(given[:50], rules=rules)  # kernels are compiled, threads have run
            seconds, answers[jobs] = best_of(
                options.repeats, lambda crf=crf, given=given: crf.predict(given, rules=rules)
            )
            figures[f"{name}_{jobs}_s"] = round(seconds, 3)
        assert all(np.array_equal(a, b) for a, b in zip(answers[1], answers[2], strict=True))
        figures[f"{name}_speedup"] = round(figures[f"{name}_1_s"] / figures[f"{name}_2_s"], 3)
        print(name, figures, flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
