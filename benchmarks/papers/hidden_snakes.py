"""Hidden snakes (paper 000): cells and pictures as two types of nodes, learned together, without and with rules.

Authors' log (test accuracy): one type .921; two types .949 (cells .952, pictures .840), with at-most-one rules .950
(.953, .834); fit 1,341 s and 1,878 s. Strengths were chosen on a split of the training pictures (``--choose``).

Run with ``RULEFIELD_DATA=<folder> OMP_NUM_THREADS=1 python benchmarks/papers/hidden_snakes.py``.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from time import process_time

import numpy as np

from rulefield import rules as r
from rulefield.datasets.snakes import make_snakes, read_snakes, snake_graph, snake_labels
from rulefield.estimators.graph import GraphCRF

AUTHORS = {
    "single": {"accuracy": 0.921, "fit": 1341},
    "two_types": {"accuracy": 0.949, "pixel": 0.952, "picture": 0.840, "fit": 1878},
    "two_types_rules": {"accuracy": 0.950, "pixel": 0.953, "picture": 0.834, "fit": 1878},
}
CHOSEN = {"algorithm": "ssvm", "l2": 0.5, "max_iter": 110, "tol": 1e-2, "oracle_nodes": 0}
CANDIDATES = [{**CHOSEN, "l2": l2} for l2 in (0.1, 0.5, 3.0)] + [
    {"algorithm": "likelihood", "l2": 0.3, "max_iter": 60}
]
AT_MOST_ONE = [r.at_most(1, r.nodes("cell").is_(k)).named(f"at most one {k}") for k in range(1, 11)]
SNAKE = r.node("picture", 0).is_(1)
WHOLE_SNAKE = [r.iff(SNAKE, r.any_of(r.nodes("cell").is_(k))).named(f"a snake has a cell {k}") for k in range(1, 11)]
RULES = AT_MOST_ONE  # on held-out training pictures as good as AT_MOST_ONE + WHOLE_SNAKE, or better


def as_graphs(pictures, picture_node):
    graphs = [snake_graph(p, "full", picture_node) for p in pictures]
    return graphs, [snake_labels(p, picture_node) for p in pictures]


def shares(guesses, labels):
    """Accuracy over all nodes, over cells and over pictures."""
    right = {t: np.concatenate([g[t] == y[t] for g, y in zip(guesses, labels)]) for t in labels[0]}
    picture = float(right["picture"].mean()) if "picture" in right else None
    return {
        "accuracy": round(float(np.concatenate(list(right.values())).mean()), 4),
        "pixel_accuracy": round(float(right["cell"].mean()), 4),
        "picture_accuracy": None if picture is None else round(picture, 4),
    }


def measure(train, test, options, single=True):
    result = {}
    for name, picture_node in (("single", False), ("two_types", True)):
        if name == "single" and not single:
            continue
        graphs, labels = as_graphs(train, picture_node)
        test_graphs, test_labels = as_graphs(test, picture_node)
        begin = process_time()
        crf = GraphCRF(**options).fit(graphs, labels)
        seconds = round(process_time() - begin, 2)
        result[name] = {**shares(crf.predict(test_graphs), test_labels), "fit_cpu_s": seconds}
    begin = process_time()
    found = crf.decode(test_graphs, rules=RULES)
    spent = process_time() - begin
    result["two_types_rules"] = {**shares([f.labels for f in found], test_labels), "fit_cpu_s": seconds}
    proved = np.mean([f.status == "optimal" for f in found])
    print(f"prediction with rules: {spent:.2f} CPU s, {100 * proved:.0f} % proved optimal")
    both = [f.labels for f in crf.decode(test_graphs, rules=AT_MOST_ONE + WHOLE_SNAKE)]
    print(f"with the rules for whole snakes, too: {shares(both, test_labels)}")
    return result


def warm_up():
    graphs, labels = as_graphs(make_snakes(4, hidden=True), True)
    for algorithm in ("likelihood", "ssvm"):
        GraphCRF(algorithm=algorithm, max_iter=4).fit(graphs, labels).predict(graphs, rules=RULES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="compare learners on a split of the training pictures")
    options = parser.parse_args()
    path = Path(os.environ.get("RULEFIELD_DATA", "")) / "hidden_snakes" / "hidden_snakes.npz"
    if "RULEFIELD_DATA" not in os.environ or not path.is_file():
        print("Set RULEFIELD_DATA to the folder that holds hidden_snakes/hidden_snakes.npz.")
        sys.exit(2)
    train, test = read_snakes(path)
    warm_up()
    if options.choose:
        held = [k for k in range(len(train)) if k % 4 == 3]
        rest = [p for k, p in enumerate(train) if k % 4 != 3]
        for candidate in CANDIDATES:
            print(candidate, measure(rest, [train[k] for k in held], candidate, single=False), flush=True)
        return
    result = measure(train, test, CHOSEN)
    for name, ours in result.items():
        print(f"{name}: {ours}; authors {AUTHORS[name]}")
        print(f"  authors' fit seconds / ours: {AUTHORS[name]['fit'] / ours['fit_cpu_s']:.0f} (their machine)")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
