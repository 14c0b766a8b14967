"""Large graphs: default answers, their gaps and CPU seconds, and whether limits in seconds are kept.

Potts grids with five labels and strength 1, sparse random graphs, and sparse graphs under hard rules. One thread, each
problem after a small one that compiles the kernels. The last line is JSON.
"""

import argparse
import json
from time import monotonic, process_time

import numpy as np

from rulefield.encode.graph_builders import grid_edges
from rulefield.inference.graph.decode import decode_graph
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import Logic, LogicFactors


def potts(side, seed=0, n_labels=5, strength=1.0):
    """A picture: normal scores, and ``strength`` for equal neighbors."""
    rng = np.random.default_rng(seed)
    edges, _ = grid_edges(side, side)
    unary = rng.normal(size=side * side * n_labels)
    pairwise = np.tile(strength * np.eye(n_labels).ravel(), len(edges))
    return GraphProblem(GraphPotentials(np.full(side * side, n_labels), unary, edges, pairwise))


def sparse(n, seed=0, n_labels=4, n_rules=0):
    """1.5 n random edges with normal scores; rules: at most one, exactly one, at least one of 5 to 8 labels."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, n, (n + n // 2, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    potentials = GraphPotentials(
        np.full(n, n_labels), rng.normal(size=n * n_labels), edges, rng.normal(size=len(edges) * n_labels**2)
    )
    if not n_rules:
        return GraphProblem(potentials)
    kind = rng.choice([Logic.budget, Logic.xor, Logic.any_of], n_rules).astype(np.uint8)
    length = rng.integers(5, 9, n_rules)
    node = np.concatenate([rng.permutation(n)[:k] for k in length])
    logic = LogicFactors(
        kind,
        np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
        node,
        rng.integers(0, n_labels, len(node)),
        np.zeros(len(node), dtype=bool),
        np.ones(n_rules, dtype=np.int64),
        np.full(n_rules, np.inf),
        np.arange(n_rules),
    )
    return GraphProblem(potentials, logic)


def measured(name, problem, seconds=None):
    """Decode once; print and return what it took and how sure the answer is."""
    start, wall = process_time(), monotonic()
    result = decode_graph(problem, seconds=seconds)
    out = {
        "cpu_s": round(process_time() - start, 2),
        "wall_s": round(monotonic() - wall, 2),
        "gap_percent": round(100.0 * result.gap / abs(result.objective), 4) if len(result.labels) else None,
        "status": str(result.status),
        "objective": round(result.objective, 3),
    }
    if seconds is None:
        plain = decode_graph(problem, "trws")
        out["worse_than_trws"] = bool(result.objective < plain.objective - 1e-9)
    else:
        out["seconds"], out["kept"] = seconds, out["wall_s"] <= 1.1 * seconds + 0.2
    print(f"{name}: {out}", flush=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sides", type=int, nargs="*", default=[100, 200, 500])
    parser.add_argument("--seconds", type=float, nargs="*", default=[1.0, 5.0], help="limits to hold it to")
    options = parser.parse_args()
    for small in (potts(12), sparse(60), sparse(60, n_rules=12)):
        decode_graph(small)
        decode_graph(small, "trws")
    problems = {f"potts_{side}": potts(side, options.seed) for side in options.sides}
    problems["sparse_5000"] = sparse(5_000, options.seed)
    problems["rules_2000"] = sparse(2_000, options.seed, n_rules=400)
    out = {name: measured(name, problem) for name, problem in problems.items()}
    for name, problem in problems.items():
        for seconds in options.seconds:
            out[f"{name}_in_{seconds:g}"] = measured(f"{name} in {seconds:g} s", problem, seconds)
    grids = [(side, out[f"potts_{side}"]["cpu_s"]) for side in options.sides]
    if len(grids) > 1:
        (first, t0), (last, t1) = grids[0], grids[-1]
        out["growth_exponent"] = round(float(np.log(t1 / t0) / np.log((last / first) ** 2)), 3)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
