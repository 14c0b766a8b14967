"""Snakes ([Meunier17], PyStruct's example): accuracy and CPU seconds, without and with the rule "each label at most once".

PyStruct 0.3.2 with AD3 (recorded, CPU seconds of one thread): directions .8536 in 86.9 s, with the rule .8685 (63
labels broken) in 24.7 s; full edge features .9987 in 582.6 s, with the rule 1.0000 in 3.05 s. Recorded seconds come
from a machine on which python-crfsuite needed 0.58 s per iteration on CoNLL-2000; give what it needs here with
``--crfsuite`` to scale them. Learner and strength were chosen on a split of the training pictures (``--choose``).

Run with ``RULEFIELD_DATA=<folder> OMP_NUM_THREADS=1 python benchmarks/papers/snakes.py``.
"""

import argparse
import json
import sys
from pathlib import Path
from time import process_time

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rulefield as rf
from common import data_folder
from rulefield import rules as r
from rulefield.datasets.snakes import make_snakes, read_snakes, snake_graph

PEER = {
    "directions": {"accuracy": 0.8536, "fit": 86.9, "constrained": 0.8685, "predict": 24.7},
    "full": {"accuracy": 0.9987, "fit": 582.6, "constrained": 1.0, "predict": 3.05},
}
CHOSEN = {
    "directions": {"algorithm": "likelihood", "l2": 0.3, "max_iter": 60},
    "full": {"algorithm": "ssvm", "l2": 10.0, "max_iter": 24, "tol": 1e-2},
}
CANDIDATES = {
    "directions": [{"algorithm": "likelihood", "l2": l2, "max_iter": 60} for l2 in (0.1, 0.3, 1.0)]
    + [{"algorithm": "ssvm", "l2": 10.0, "max_iter": 24, "tol": 1e-2}],
    "full": [{"algorithm": "ssvm", "l2": l2, "max_iter": 24, "tol": 1e-2} for l2 in (1.0, 3.0, 10.0)]
    + [{"algorithm": "likelihood", "l2": 0.1, "max_iter": 60}],
}
RULES = [r.at_most(1, r.nodes("cell").is_(k)).named(f"at most one {k}") for k in range(1, 11)]


def as_graphs(pictures, edges):
    return [snake_graph(p, edges) for p in pictures], [p.labels.ravel() for p in pictures]


def accuracy(guesses, labels):
    return float((np.concatenate(guesses) == np.concatenate(labels)).mean())


def broken(guesses):
    """Number of labels 1 to 10 that a picture holds more than once, over all pictures."""
    return int(sum((np.bincount(y, minlength=11)[1:] > 1).sum() for y in guesses))


def measure(edges, train, test, options):
    graphs, labels = as_graphs(train, edges)
    test_graphs, test_labels = as_graphs(test, edges)
    begin = process_time()
    crf = rf.GraphCRF(**options).fit(graphs, labels)
    fitted = process_time()
    plain = crf.predict(test_graphs)
    predicted = process_time()
    found = crf.decode(test_graphs, rules=RULES)
    constrained = process_time()
    ruled = [labeling.labels for labeling in found]
    return {
        "accuracy": round(accuracy(plain, test_labels), 4),
        "fit_cpu_s": round(fitted - begin, 2),
        "constrained_accuracy": round(accuracy(ruled, test_labels), 4),
        "violations": broken(ruled),
        "certified": round(float(np.mean([labeling.status == "optimal" for labeling in found])), 4),
        "constrained_predict_cpu_s": round(constrained - predicted, 3),
        "predict_cpu_s": round(predicted - fitted, 3),
    }


def report(edges, ours, scale):
    peer = PEER[edges]
    print(f"{edges}: accuracy {ours['accuracy']} (PyStruct {peer['accuracy']}), with the rule", end=" ")
    print(f"{ours['constrained_accuracy']} ({peer['constrained']}), {ours['violations']} labels broken,", end=" ")
    print(f"{100 * ours['certified']:.0f} % proved optimal")
    fit, predict = peer["fit"] * scale, peer["predict"] * scale
    print(f"  fit {ours['fit_cpu_s']} CPU s, PyStruct {fit:.1f} scaled: ratio {fit / ours['fit_cpu_s']:.1f}")
    seconds = ours["constrained_predict_cpu_s"]
    print(f"  constrained prediction {seconds} CPU s, PyStruct {predict:.2f} scaled: ratio {predict / seconds:.1f}")


def choose(edges, train):
    """Compare candidates on the last quarter of the training pictures; the test pictures stay unseen."""
    for options in CANDIDATES[edges]:
        found = measure(edges, train[:150], train[150:], options)
        print(edges, options, {k: found[k] for k in ("accuracy", "constrained_accuracy", "fit_cpu_s")}, flush=True)


def warm_up():
    """Compile every kernel on a few generated pictures."""
    graphs, labels = as_graphs(make_snakes(4), "full")
    for algorithm in ("likelihood", "ssvm"):
        crf = rf.GraphCRF(algorithm=algorithm, max_iter=4).fit(graphs, labels)
        crf.predict(graphs)
        crf.decode(graphs, rules=RULES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crfsuite", type=float, default=0.58, help="seconds per iteration of python-crfsuite here")
    parser.add_argument("--choose", action="store_true", help="compare learners on a split of the training pictures")
    options = parser.parse_args()
    train, test = read_snakes(data_folder() / "pystruct_snakes" / "snakes.npz")
    warm_up()
    result = {}
    for edges in ("directions", "full"):
        if options.choose:
            choose(edges, train)
            continue
        result[edges] = measure(edges, train, test, CHOSEN[edges])
        report(edges, result[edges], options.crfsuite / 0.58)
    if result:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
