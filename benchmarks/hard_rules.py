"""Hard rule sets on chains: `auto` against HiGHS on the whole problem and CP-SAT, family by family.

    python benchmarks/hard_rules.py [--families permutation ...] [--seeds 0 1 2 3 4] [--limit 60] [--no-peers] [--keep DIR]

Families and seeds are those of ``benchmarks/hard_families.py``; Cora and UMass need RULEFIELD_DATA. Every run has a
process of its own, kernels warm, and is killed at its limit of CPU seconds, which then counts as its time. Peers run on
the first seed. Labelings are judged by ``rule.violation``. The last line is JSON: for each family ``cpu_s`` (median over
seeds), ``status``, ``gap``, ``best_peer_cpu_s``; and ``sum_speedup``, ``worst_ratio`` (ours / better peer, families over
0.05 s), ``unanswered``. ``--keep`` writes the rows of every run into a folder and goes on from those that are there already;
``--only-peers`` runs the peers alone, which our code does not change.
"""

import argparse
import json
import multiprocessing
import resource
import sys
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

from hard_families import FAMILIES, Instance, compiled, judged, plain
from rulefield import rules as r
from rulefield.exceptions import RuleError
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.program import all_parts
from rulefield.problem.chain_rules import ChainProblem

PEERS = ("milp", "cpsat")
SCALE = 1e5  # of CP-SAT's whole numbers


def warm() -> None:
    """Compile kernels."""
    rules = [r.before("l0", "l1").soft(1.0), r.count("l0") <= 1, r.implies(r.present("l0"), r.present("l1"))]
    rules += [r.count("l2") - r.count("l1") <= 0, r.segments("l2") <= 1]
    for seed in range(3):
        for engine in ("auto", "product", "paths", "reduced_milp"):
            decode(compiled(plain(rules, 3, 8, seed)), engine)
    for family, engine in (("before_soft_small", "auto"), ("precedences_mixed", "auto"), ("exactly_6_of_12", "auto")):
        decode(compiled(FAMILIES[family](99)[0]), engine)


def by_cpsat(problem: ChainProblem, limit: float) -> tuple[np.ndarray | None, float, str]:
    """One unit of flow through node and edge booleans, rules as their integer rows, scores rounded to 1e-5."""
    from ortools.sat.python import cp_model

    prepared = prepare(problem)
    parts, (n, m) = all_parts(prepared), prepared.unary.shape
    model = cp_model.CpModel()
    node, edge = ([model.new_bool_var("") for _ in x] for x in (parts.step, parts.source))
    ends: list[list[list]] = [[[] for _ in node] for _ in range(2)]
    for e, pair in enumerate(zip(parts.source, parts.target)):
        for side, i in zip(ends, pair):
            side[i].append(edge[e])
    for t in range(n):
        model.add_exactly_one(node[i] for i in np.flatnonzero(parts.step == t))
    for i, x in enumerate(node):
        for side, none in zip(ends, (n - 1, 0)):
            if parts.step[i] != none:
                model.add_exactly_one([*side[i], x.negated()])
    variables = [*node, *edge]
    worth = np.round(SCALE * np.concatenate([parts.node_score, parts.edge_score])).astype(np.int64).tolist()
    where = np.full(n * m + max(n - 1, 0) * m * m, -1, np.int64)
    where[parts.step * m + parts.label] = np.arange(len(node))
    cells = (parts.step[parts.source] * m + parts.label[parts.source]) * m + parts.label[parts.target]
    where[n * m + cells] = len(node) + np.arange(len(edge))
    for number, rule in enumerate(prepared.flat.rules):
        if prepared.tables.local[number] or rule.weight == 0:
            continue
        rows = rule.make_rows()
        place = np.concatenate([where, len(variables) + np.arange(rows.n_auxiliary)])[rows.column]
        variables += [model.new_bool_var("") for _ in range(rows.n_auxiliary)]
        worth += [0] * rows.n_auxiliary
        slacks = []
        for k, bound in enumerate(rows.bound):
            chosen = np.flatnonzero((rows.row == k) & (place >= 0))
            terms = [variables[place[e]] * int(rows.value[e]) for e in chosen]
            if np.isfinite(rule.weight) and rows.may_slack[k]:
                slacks.append(model.new_int_var(0, max(rule.max_amount, 1), ""))
                terms.append(-slacks[-1])
            if terms:
                model.add(sum(terms) <= int(bound))
            elif bound < 0:
                model.add_bool_or([])
        if slacks and rule.once:
            paid = model.new_bool_var("")
            model.add(sum(slacks) <= max(rule.max_amount, 1) * paid)
            slacks = [paid]
        if slacks:
            variables += slacks
            worth += [-round(SCALE * rule.weight)] * len(slacks)
    model.maximize(cp_model.LinearExpr.weighted_sum(variables, worth))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, -np.inf, "infeasible"
    bound = solver.best_objective_bound / SCALE + prepared.offset
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, bound, "bounded"
    labels = np.zeros(n, np.int64)
    for i, x in enumerate(node):
        if solver.value(x):
            labels[parts.step[i]] = parts.label[i]
    return labels, bound, "optimal" if status == cp_model.OPTIMAL else "bounded"


def solve(instance: Instance, engine: str, limit: float) -> tuple[np.ndarray | None, float, str]:
    """Labels, upper bound and status."""
    problem = compiled(instance)
    if engine == "cpsat":
        return by_cpsat(problem, limit)
    result = decode(problem, engine, seconds=limit if engine == "milp" else None)
    return (result.labels if len(result.labels) else None), result.upper_bound, str(result.status)


def run(name: str, seed: int, engine: str, limit: float, output) -> None:
    """Solve the instances of a family; one row each."""
    instances = FAMILIES[name](seed)
    warm()
    for instance in instances:
        used = int(process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + int(limit) + 2, resource.RLIM_INFINITY))
        begun = process_time()
        try:
            labels, bound, status = solve(instance, engine, limit)
        except (RuleError, ImportError) as error:
            output.put({"cpu_s": limit, "status": f"refused: {str(error)[:80]}", "gap": None, "labeled": False})
            continue
        spent = process_time() - begun
        objective, broken = (-np.inf, 0) if labels is None else judged(instance, labels)
        if broken:
            status = f"wrong: breaks {broken} hard rules"
        proved = status in ("optimal", "infeasible")
        gap = 0.0 if proved else (bound - objective) / max(abs(bound), 1.0)
        row = {"cpu_s": spent if proved else max(spent, limit), "spent_s": spent, "status": status, "gap": gap}
        output.put(row | {"labeled": labels is not None or status == "infeasible"})


def in_process(name: str, seed: int, engine: str, limit: float) -> list[dict]:
    """Rows of one family, each run in a process of its own; a killed run counts as its limit."""
    context = multiprocessing.get_context("spawn")
    output = context.SimpleQueue()
    process = context.Process(target=run, args=(name, seed, engine, limit, output))
    process.start()
    rows = []
    while process.is_alive() or not output.empty():
        process.join(0.05)
        while not output.empty():
            rows.append(output.get())
    if (process.exitcode or 0) > 0:
        sys.exit(f"{name}, {engine}: the run failed; see above.")
    if process.exitcode or not rows:
        rows.append({"cpu_s": limit, "status": "killed", "gap": None, "labeled": False})
    return rows


def kept(folder: Path | None, name: str, seed: int, engine: str, limit: float) -> list[dict]:
    """Rows of one family, read from the folder where they are there already."""
    path = None if folder is None else folder / f"{name}-{engine}-{seed}.json"
    if path is not None and path.is_file():
        return json.loads(path.read_text())
    rows = in_process(name, seed, engine, limit)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows))
    return rows


def summed(rows: list[dict]) -> dict:
    """One figure for a family: the median time, the worst status and gap."""
    statuses = {row["status"] for row in rows}
    worst = next((s for s in statuses if s not in ("optimal", "infeasible")), min(statuses))
    gaps = [row["gap"] for row in rows if row["gap"] is not None]
    return {"cpu_s": round(median(row["cpu_s"] for row in rows), 3), "status": worst, "gap": max(gaps, default=None)}


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES), metavar="family")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds per run")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only-peers", action="store_true")
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    if options.only_peers:
        for name in options.families:
            for peer in PEERS:
                rows = kept(options.keep, name, options.seeds[0], peer, options.limit)
                print(name, peer, summed(rows), flush=True)
        return
    table: dict = {}
    unanswered = 0
    for name in options.families:
        rows = [row for seed in options.seeds for row in kept(options.keep, name, seed, "auto", options.limit)]
        unanswered += sum(not row["labeled"] for row in rows)
        table[name] = summed(rows)
        if not options.no_peers:
            peers = [summed(kept(options.keep, name, options.seeds[0], peer, options.limit)) for peer in PEERS]
            table[name]["best_peer_cpu_s"] = min(peer["cpu_s"] for peer in peers)
        print(name, table[name], flush=True)
    compared = [row for row in table.values() if "best_peer_cpu_s" in row]
    if compared:
        table["sum_speedup"] = sum(x["best_peer_cpu_s"] for x in compared) / max(
            sum(x["cpu_s"] for x in compared), 1e-9
        )
        large = [x for x in compared if max(x["cpu_s"], x["best_peer_cpu_s"]) > 0.05]
        table["worst_ratio"] = max((x["cpu_s"] / max(x["best_peer_cpu_s"], 1e-3) for x in large), default=0.0)
    print(json.dumps(table | {"unanswered": unanswered}))


if __name__ == "__main__":
    main()
