"""Exact graph inference against HiGHS on the whole problem, in the same run, and against AD3's recorded seconds.

Problem sets: ``potts_grid`` (20x20 grids, 5 labels, Potts strengths 0.5, 1, 2, seeds 0, 1, 2), ``potts``, ``sparse``
and ``logic`` (stored files). One thread, CPU seconds, means over a set. AD3's recorded seconds are scaled by
python-crfsuite's seconds per iteration, then 0.58 (``--scale`` is now / then). Run with
``RULEFIELD_DATA=<folder> OMP_NUM_THREADS=1 python benchmarks/graph_engines.py``.
"""

import argparse
import json
from importlib.util import find_spec
from time import process_time

import numpy as np

from common import data_folder
from rulefield.inference.graph.decode import decode_graph
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import Logic, LogicFactors
from toulbar2_peer import decode_by_toulbar2

OPTIMA = {
    0: (573.0007, 815.2115, 1525.1512),
    1: (603.9785, 843.7302, 1561.2506),
    2: (586.5821, 840.8460, 1534.3197),
}
AD3_SECONDS = (
    0.069 + 0.061 + 0.038 + 2.66 + 0.166 + 0.061 + 0.275 + 0.079 + 0.152
)  # branch and bound where it needed it
KINDS = {"ATMOSTONE": Logic.budget, "XOR": Logic.xor, "OR": Logic.any_of}


def potts_grid(seed, strength, side=20, n_labels=5):
    """Make a grid of the recorded AD3 runs."""
    unary = np.random.RandomState(seed).randn(side * side, n_labels)
    number = np.arange(side * side).reshape(side, side)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    edges = np.concatenate([across, down])
    pairwise = np.tile((strength * np.eye(n_labels)).ravel(), len(edges))
    return GraphProblem(GraphPotentials(np.full(side * side, n_labels), unary.ravel(), edges, pairwise))


def read_problem(path):
    """One stored problem."""
    with np.load(path, allow_pickle=False) as file:
        potentials = GraphPotentials(*(file[k] for k in ("n_labels", "unary", "edges", "pairwise")))
        if "rule_kind" not in file:
            return GraphProblem(potentials)
        kind = np.array([KINDS[name] for name in file["rule_kind"]], dtype=np.uint8)
        n = len(kind)
        atoms = (file[k] for k in ("rule_ptr", "atom_node", "atom_label", "atom_negated"))
        logic = LogicFactors(kind, *atoms, np.ones(n, np.int64), np.full(n, np.inf), np.arange(n))
    return GraphProblem(potentials, logic)


def timed(problem, engine):
    start = process_time()
    result = decode_by_toulbar2(problem) if engine == "toulbar2" else decode_graph(problem, engine)
    return result, process_time() - start


def run(name, problems, peers):
    """Print one line per problem; return certified share, mean speed-ups and mean CPU seconds."""
    ours, others, certified = [], {peer: [] for peer in peers}, 0
    for k, problem in enumerate(problems):
        result, seconds = timed(problem, "auto")
        ours.append(seconds)
        certified += result.status == "optimal"
        line = f"{name}_{k}: {result.objective:.4f} {result.status} {seconds:.4f} s ({result.engine})"
        for peer in peers:
            other, seconds = timed(problem, peer)
            others[peer].append(seconds)
            line += f"; {peer} {other.objective:.4f} {seconds:.3f} s"
            if other.status == "optimal" and abs(other.objective - result.objective) > 1e-5 * abs(other.objective):
                raise SystemExit(f"{line}: the engines disagree")
        print(line, flush=True)
    out = {"certified": certified / len(problems)}
    if peers:
        out["speedup_vs_highs"] = round(float(np.mean(others["milp"]) / np.mean(ours)), 1)
    out["cpu_s"] = round(float(np.mean(ours)), 5)
    print(f"{name}: {out}", flush=True)
    for peer in peers:
        print(
            f"{name}: {peer} takes {np.mean(others[peer]):.4f} s, {np.mean(others[peer]) / np.mean(ours):.1f} x ours"
        )
    return out


def check_optima(problems):
    """Every listed optimum is reached."""
    listed = [value for seed in OPTIMA for value in OPTIMA[seed]]
    found = [decode_graph(problem).objective for problem in problems]
    wrong = [f"{a} instead of {b}" for a, b in zip(found, listed) if abs(a - b) > 1e-4]
    if wrong:
        raise SystemExit(f"optima differ from the recorded ones: {'; '.join(wrong)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="crfsuite's seconds per iteration now / 0.58")
    parser.add_argument("--quick", action="store_true", help="no peers: our times and certificates only")
    options = parser.parse_args()
    folder = data_folder() / "graph_problems"
    peers = [] if options.quick else ["milp", *(["toulbar2"] if find_spec("pytoulbar2") else [])]
    grids = [potts_grid(seed, strength) for seed in OPTIMA for strength in (0.5, 1.0, 2.0)]
    sets = {"potts_grid": grids}
    for name in ("potts", "sparse", "logic"):
        sets[name] = [read_problem(path) for path in sorted(folder.glob(f"{name}_*.npz"))]
    for problems in sets.values():
        decode_graph(problems[0], "auto")  # compile, or load from the cache
    check_optima(grids)
    figures = {name: run(name, problems, peers) for name, problems in sets.items()}
    ours = figures["potts_grid"]["cpu_s"] * len(grids)
    theirs = AD3_SECONDS * options.scale
    print(
        f"potts_grid: AD3 (recorded, scaled) {theirs:.2f} s for all grids, {theirs / ours:.1f} x ours ({ours:.4f} s)"
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
