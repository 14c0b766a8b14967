"""Public graph problems (UAI competitions, toulbar2's examples) against toulbar2, one thread, CPU seconds.

    RULEFIELD_DATA=... python benchmarks/graph_public.py [--limit 60] [--only CELAR6-SUB0,404]

Each problem runs in a process of its own, after a small one that compiles: ``auto``, and toulbar2 (``vac=1``) on the file
itself, so that it sees tables of three variables as they are. The last line is JSON: per problem ``cpu_s``, ``peer_cpu_s``,
``status``; ``unproved`` (ended by toulbar2, not proved by us), ``worst_ratio`` (ours / toulbar2's, whose time counts as at
least 0.05) and ``sum_ratio``.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import data_folder
from rulefield.datasets import read_uai, read_wcsp
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.evaluate import evaluate
from rulefield.problem.graph import GraphPotentials, GraphProblem

LEAST = 0.05


def problems(only: str | None) -> list[Path]:
    found = sorted(data_folder().joinpath("mrf").glob("*.gz"))
    return [path for path in found if only is None or path.name.split(".")[0] in only.split(",")]


def small_problem(n: int = 9, forbidden: float = 0.2) -> GraphProblem:
    """Some nodes, all joined, some pairs forbidden: what compiles and loads kernels."""
    rng = np.random.default_rng(0)
    edges = np.array([(i, j) for i in range(n) for j in range(i)])
    pairwise = np.where(rng.random(len(edges) * 16) < forbidden, -np.inf, rng.normal(size=len(edges) * 16))
    return GraphProblem(GraphPotentials(np.full(n, 4), rng.normal(size=4 * n), edges, pairwise))


def solve_file(path: Path, limit: float) -> dict:
    """Let toulbar2 read and solve the file; reading is no part of the comparison."""
    import pytoulbar2

    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, path.name.removesuffix(".gz"))
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        network = pytoulbar2.CFN(vac=1, verbose=-1)
        network.Read(str(plain))
    begun = time.process_time()
    answer = network.Solve(timeLimit=int(limit))
    used = time.process_time() - begun
    open_gap = bool(pytoulbar2.tb2.option.limited) or answer is None
    objective = None
    if answer is not None:
        problem = read(path)
        labels = np.array(answer[0][: problem.potentials.n_nodes])
        tables = problem.tables.table_score(problem.potentials.n_labels, labels) if problem.tables.n_tables else 0.0
        objective = evaluate(problem, labels).score + tables
    status = "bounded" if open_gap else "optimal"
    return {"cpu_s": round(used, 3), "status": status, "objective": objective, "bound": None}


def read(path: Path) -> GraphProblem:
    return (read_uai if ".uai" in path.name else read_wcsp)(path)


def solve(path: Path, engine: str, limit: float) -> dict:
    """Solve one problem in this process; the small one before it compiles and loads the kernels."""
    if engine == "toulbar2":
        return solve_file(path, limit)
    problem = read(path).pairwise  # making it is no part of the comparison
    for warm, n, forbidden in (("elimination", 9, 0.2), ("branch", 12, 0.0), (engine, 9, 0.2)):
        decode_graph(small_problem(n, forbidden), warm)  # kernels are loaded, each way
    begun = time.process_time()
    result = decode_graph(problem, engine, seconds=limit)
    return {
        "cpu_s": round(time.process_time() - begun, 3),
        "status": result.status.name,
        "objective": result.objective,
        "bound": result.upper_bound,
    }


def run(path: Path, engine: str, limit: float) -> dict:
    command = [sys.executable, __file__, "--one", str(path), "--engine", engine, "--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * limit + 120, check=False)
    if done.returncode:
        return {"cpu_s": limit, "status": "failed", "objective": None, "bound": None, "error": done.stderr[-500:]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--only")
    parser.add_argument("--one")
    parser.add_argument("--engine", default="auto")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(solve(Path(options.one), options.engine, options.limit)))
        return
    rows, total, peers = {}, 0.0, 0.0
    for path in problems(options.only):
        ours, peer = (run(path, engine, options.limit) for engine in ("auto", "toulbar2"))
        proved = ours["status"] == "optimal"
        peer_proved = peer["status"] == "optimal"
        mine = ours["cpu_s"] if proved else options.limit
        theirs = max(LEAST, peer["cpu_s"] if peer_proved else options.limit)
        rows[path.name.split(".")[0]] = row = {
            "cpu_s": ours["cpu_s"],
            "peer_cpu_s": peer["cpu_s"],
            "status": ours["status"],
            "peer_status": peer["status"],
            "objective": ours["objective"],
            "peer_objective": peer["objective"],
            "ratio": round(mine / theirs, 3),
        }
        total, peers = total + mine, peers + theirs
        print(f"{path.name:28s} {row}", flush=True)
    figures = {
        "problems": rows,
        "unproved": sum(r["peer_status"] == "optimal" != r["status"] for r in rows.values()),
        "worst_ratio": max(r["ratio"] for r in rows.values()),
        "sum_ratio": round(total / peers, 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
