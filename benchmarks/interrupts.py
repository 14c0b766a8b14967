"""Ctrl-C at many random moments over all learners: a usable model, or a clean KeyboardInterrupt; never anything else.

Each learner is fitted once to know how long it takes; then it is fitted again and again, with SIGINT raised after a
random share of that time. Whatever it leaves must predict; what it raises must be KeyboardInterrupt.

    python benchmarks/interrupts.py [--moments 200] [--seed 0] [--minutes 60]
"""

import argparse
import json
import os
import random
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from rulefield import (
    ChainCRF,
    DocumentTagger,
    GaussianCRFClassifier,
    GaussianCRFRegressor,
    GraphCRF,
    JointCRF,
    MultiLabelCRF,
    Page,
    RuledCRF,
    SegmentCRF,
    TextParser,
    open_corpus,
    write_corpus,
)
from rulefield import rules as r
from rulefield.datasets import make_addresses
from rulefield.encode.graph_builders import chain

Fit = Callable[[], Callable[[], Any]]
"""Fits a model; the answer predicts with it."""


def learners(n: int) -> dict[str, Fit]:
    """Every learner of the library on about ``n`` sequences, instances or graphs."""
    X, y = make_addresses(n, seed=0)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(n, 8))
    Y = (table @ rng.normal(size=(8, 5)) + rng.normal(size=(n, 5)) > 0).astype(int)
    graphs = [chain(rng.normal(size=(6, 4))) for _ in range(n // 4)]
    on_graphs = [(g.nodes["token"][:, 0] + g.nodes["token"][:, 1] ** 2 > 0.5).astype(int) for g in graphs]
    holes = [[None if rng.random() < 0.5 else label for label in row] for row in y]
    chain_crf = ChainCRF(scheme="BIO").fit(X[: n // 2], y[: n // 2])

    def of(estimator: Any, X: Any, y: Any) -> Fit:
        def fit() -> Callable[[], Any]:
            fresh = estimator()
            fresh.fit(X, y)
            return lambda: fresh.predict(X[:3])

        return fit

    found = {
        name: of(lambda how=how: ChainCRF(**{"scheme": "BIO", **how}), X, labels)
        for name, how, labels in (
            ("chain likelihood", {"tol": 1e-9}, y),
            ("chain likelihood, l1", {"l1": 0.1, "tol": 1e-9}, y),
            ("chain likelihood, partial labels", {"tol": 1e-9, "scheme": None}, holes),
            ("chain, expectations", {"scheme": None, "expectations": [r.share(y[0][0]).between(0.05, 0.3)]}, holes),
        )
    }
    for algorithm in ("perceptron", "likelihood"):
        found[f"rules {algorithm}"] = of(
            lambda algorithm=algorithm: RuledCRF(chain_crf, cv="prefit", algorithm=algorithm), X[-12:], y[-12:]
        )
    found["segments"] = of(lambda: SegmentCRF(scheme="BIO", tol=1e-9), X, y)
    found["joint"] = of(
        lambda: JointCRF(scheme="BIO"), X, [{"a": row, "b": row} if i % 2 else {"a": row} for i, row in enumerate(y)]
    )
    for algorithm in ("likelihood", "ssvm"):
        found[f"graph {algorithm}"] = of(
            lambda algorithm=algorithm: GraphCRF(algorithm=algorithm, l2=0.01), graphs, on_graphs
        )
    found["graph with predictors"] = of(
        lambda: GraphCRF(predictors={"token": [LogisticRegression()]}, l2=0.01), graphs, on_graphs
    )
    found["multi-label"] = of(lambda: MultiLabelCRF(), table, Y)
    found["gaussian classifier"] = of(lambda: GaussianCRFClassifier(), table, Y)
    found["gaussian regressor"] = of(lambda: GaussianCRFRegressor(), table, Y + rng.normal(size=Y.shape))
    found |= made_of_others(n)
    return found


def made_of_others(n: int) -> dict[str, Fit]:
    """Learners that hold another one: parsers of texts, taggers of pages, found rules, corpora on disk."""
    X, y = make_addresses(n, seed=0)
    texts = [" ".join(row) for row in X]
    spans = [_spans(row, labels) for row, labels in zip(X, y)]
    rng = np.random.default_rng(0)
    pages = [Page([[5, 20 * k, 60 + 30 * rng.random(), 20 * k + 15] for k in range(6)]) for _ in range(n // 4)]
    heads = [["head" if k % 3 == 0 else "text" for k in range(6)] for _ in pages]
    folder = tempfile.TemporaryDirectory()

    def parser() -> Callable[[], Any]:
        fresh = TextParser()
        fresh.fit(texts, spans)
        return lambda: fresh.parse(texts[0])

    def ruled() -> Callable[[], Any]:
        fresh = RuledCRF(ChainCRF(scheme="BIO"))
        fresh.fit(X[: n // 2], y[: n // 2])
        return lambda: fresh.predict(X[:3])

    def tagger() -> Callable[[], Any]:
        fresh = DocumentTagger()
        fresh.fit(pages, heads)
        return lambda: fresh.predict(pages[:2])

    write_corpus(zip(X, y), Path(folder.name) / "corpus")

    def corpus() -> Callable[[], Any]:
        fresh = ChainCRF(scheme="BIO", tol=1e-9)
        fresh.fit(open_corpus(Path(folder.name) / "corpus"))
        return lambda: (fresh.predict(X[:3]), folder)

    return {"text parser": parser, "rules found": ruled, "document tagger": tagger, "chain from a corpus": corpus}


def _spans(tokens: list[str], labels: list[str]) -> list[tuple[int, int, str]]:
    """Spans of characters of tokens joined by blanks."""
    spans, at = [], 0
    for token, label in zip(tokens, labels):
        if label.startswith("I-") and spans:
            spans[-1] = (spans[-1][0], at + len(token), spans[-1][2])
        elif label != "O":
            spans.append((at, at + len(token), label[2:]))
        at += len(token) + 1
    return spans


def interrupt(fit: Fit, after: float) -> str:
    """Fit with Ctrl-C after some seconds; what came of it (``over``: the fit was done before)."""
    sent = threading.Event()

    def press() -> None:
        sent.set()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, press)
    outcome = "raised"
    try:
        timer.start()
        try:
            predict = fit()
            timer.cancel()
        finally:
            timer.cancel()
            timer.join()
        predict()
        outcome = "kept" if sent.is_set() else "over"
    except KeyboardInterrupt:
        outcome = "KeyboardInterrupt"
    except BaseException as error:  # whatever it is, it is a finding
        outcome = repr(error)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so many, whatever was tried")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it with Ctrl-C ignored
    random.seed(options.seed)
    fits = learners(options.sequences)
    seconds, counts, wrong = {}, {"kept": 0, "KeyboardInterrupt": 0}, []
    for name, fit in fits.items():
        fit()
        begun = time.perf_counter()
        fit()
        seconds[name] = time.perf_counter() - begun
    tried = longest = 0.0
    end = time.monotonic() + 60.0 * options.minutes
    while tried < options.moments and time.monotonic() < end:
        for name, fit in fits.items():
            if time.monotonic() > end:
                break
            after = random.uniform(0.0, seconds[name])
            begun = time.perf_counter()
            outcome = interrupt(fit, after)
            longest = max(longest, time.perf_counter() - begun - after)
            if outcome == "over":
                continue
            tried += 1
            if outcome in counts:
                counts[outcome] += 1
            else:
                wrong.append((name, outcome))
                print(f"{name}: {outcome}", flush=True)
    for name, value in seconds.items():
        print(f"  {name:34s} {value:6.2f} s when left alone")
    print(
        f"{int(tried)} interrupts: {counts['kept']} models kept, {counts['KeyboardInterrupt']} clean KeyboardInterrupts"
    )
    print(json.dumps({"tried": int(tried), "wrong": len(wrong), "longest_wait": round(longest, 2), **counts}))


if __name__ == "__main__":
    main()
