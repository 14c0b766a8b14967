"""ChainCRF against python-crfsuite: training, tagging, memory and many labels, in one run.

Both get the same Python feature lists, the same regularization (c2 = 0.5, that is l2 = 1) and only feature/label
pairs and transitions seen in training. Each measurement runs in a fresh process; compiled kernels come from
numba's cache on disk, as they do in every run but the first (``cold_start.py`` measures the first).

    RULEFIELD_DATA=... python benchmarks/chain_vs_crfsuite.py
"""

import json
import os
import sys
import tempfile
import time

from common import conll2000, data_folder, peak_megabytes, worker
from umass_features import umass

UMASS_ITERATIONS = 50


def data(name: str):
    return conll2000("train") if name == "conll" else umass("training")


def run_crfsuite(name: str) -> dict:
    """Train with python-crfsuite; the seconds at which each objective was reached."""
    import pycrfsuite

    X, y = data(name)
    curve: list[tuple[float, float]] = []

    class Trainer(pycrfsuite.BaseTrainer):
        def message(self, text):
            if text.startswith("Loss: "):
                curve.append((time.perf_counter() - start, float(text.split()[1])))

    start = time.perf_counter()
    trainer = Trainer(verbose=False)
    for xs, ys in zip(X, y):
        trainer.append(xs, ys)
    ready = time.perf_counter() - start
    parameters = {"c1": 0.0, "c2": 0.5}
    if name == "umass":
        parameters |= {"max_iterations": UMASS_ITERATIONS, "epsilon": 0.0, "delta": 0.0}
    trainer.select("lbfgs")
    trainer.set_params(parameters)
    path = os.path.join(tempfile.mkdtemp(), "model")
    trainer.train(path)
    seconds = time.perf_counter() - start
    out = {"curve": curve, "seconds": seconds, "encode_seconds": ready, "peak_mb": peak_megabytes()}
    if name == "conll":
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        out |= tag(lambda sentences: [tagger.tag(s) for s in sentences])
    return out


def run_rulefield(name: str, threads: int) -> dict:
    """Train with ChainCRF; the seconds at which each objective was reached."""
    X, y = data(name)
    from rulefield import ChainCRF

    extra = {"max_iter": UMASS_ITERATIONS, "tol": 0.0} if name == "umass" else {}
    crf = ChainCRF(l2=1.0, start_end=False, n_jobs=threads, **extra)
    start = time.perf_counter()
    crf.fit(X, y)
    seconds = time.perf_counter() - start
    curve = [(record.seconds, record.objective) for record in crf.log_]
    out = {"curve": curve, "seconds": seconds, "peak_mb": peak_megabytes(), "iterations": crf.n_iter_}
    if name == "conll" and threads == 1:
        out |= tag(lambda sentences: crf.predict(sentences))
    return out


def tag(predict) -> dict:
    """Sentences a second on the test set, best of three after a warm-up, and the span F1."""
    from rulefield.metrics import span_f1

    X, y = conll2000("test")
    predict(X[:50])
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        predicted = predict(X)
        best = min(best, time.perf_counter() - start)
    return {"sentences_a_second": len(X) / best, "span_f1": 100 * span_f1(y, list(predicted), scheme="BIO")}


def reached(curve, level: float) -> float:
    """Seconds until the objective first stood at or below ``level``."""
    return next((seconds for seconds, value in curve if value <= level), float("inf"))


def compare_conll() -> dict:
    theirs = worker(__file__, "crfsuite", "conll")
    ours = {threads: worker(__file__, "rulefield", "conll", str(threads)) for threads in (1, 2)}
    finals = [min(v for _, v in run["curve"]) for run in (theirs, ours[1], ours[2])]
    level = 1.001 * min(finals)
    seconds = [reached(run["curve"], level) for run in (theirs, ours[1], ours[2])]
    print(f"CoNLL-2000, target objective {level:.2f}; finals: crfsuite {finals[0]:.2f}, rulefield {finals[1]:.2f}")
    for name, value, run in zip(
        ("crfsuite", "rulefield, 1 thread", "rulefield, 2 threads"), seconds, (theirs, ours[1], ours[2])
    ):
        print(f"  {name:22s} {value:8.1f} s to target   {run['seconds']:8.1f} s in all   {run['peak_mb']:6.0f} MB")
    for name, run in (("crfsuite", theirs), ("rulefield", ours[1])):
        print(f"  {name:22s} tags {run['sentences_a_second']:8.0f} sentences/s   span F1 {run['span_f1']:.2f}")
    return {
        "fit_speedup_1": seconds[0] / seconds[1],
        "fit_speedup_2": seconds[0] / seconds[2],
        "tag_speedup": ours[1]["sentences_a_second"] / theirs["sentences_a_second"],
        "objective_excess": finals[1] / finals[0] - 1,
        "span_f1": ours[1]["span_f1"],
        "memory_ratio": max(ours[1]["peak_mb"], ours[2]["peak_mb"]) / theirs["peak_mb"],
    }


def compare_umass() -> dict:
    theirs = worker(__file__, "crfsuite", "umass")
    ours = worker(__file__, "rulefield", "umass", "2")
    print(
        f"UMass, {UMASS_ITERATIONS} iterations: crfsuite {theirs['seconds']:.1f} s (objective {theirs['curve'][-1][1]:.1f}),"
    )
    print(f"  rulefield, 2 threads {ours['seconds']:.1f} s (objective {ours['curve'][-1][1]:.1f})")
    return {"many_labels_speedup": theirs["seconds"] / ours["seconds"]}


def main() -> None:
    data_folder()
    if len(sys.argv) > 2:
        run = run_crfsuite(sys.argv[2]) if sys.argv[1] == "crfsuite" else run_rulefield(sys.argv[2], int(sys.argv[3]))
        print(json.dumps(run))
        return
    worker(__file__, "rulefield", "umass", "2")  # fills numba's cache
    figures = compare_conll() | compare_umass()
    print(json.dumps({key: round(value, 5) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
