"""Exact decoding of chains under rules, against HiGHS (``scipy.optimize.milp``) on the whole problem, in one run.

    RULEFIELD_DATA=... python benchmarks/decoding_vs_highs.py [--milp 10] [--sets counts_100x30 ...]

Rules are written in rulefield's language and compiled before the clock starts. Kernels are compiled on problems
first. For every instance that HiGHS is given, both optima must agree. The last line is JSON: for each set
``certified`` (share of instances whose optimum, or infeasibility, was proved), ``speedup`` (mean HiGHS time / mean
ours, on the instances that HiGHS was given) and ``max_ms``.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from rulefield import rules as r
from rulefield.inference.highs import minimize
from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.program import ChainParts, all_parts, build
from rulefield.inference.sequences.two_stage import TwoStageResult, decode_two_stage
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

SETS = (
    "counts_100x30",
    "counts_100x30_noisy",
    "counts_40x13",
    "counts_40x13_hard",
    "families_40x13",
    "families_40x13_two_stage",
    "families_100x30",
)
TAU = {"families_40x13_two_stage": 0.97, "families_100x30_two_stage": 0.98}


def count_rules(file: dict) -> list[r.Rule]:
    """Rows over labels as sums of counts, compared with their bounds."""
    names = [str(name) for name in file["label_names"]]
    rules = []
    for row, bound, weight in zip(file["rows"], file["bound"], file["weight"], strict=True):
        total = sum(int(row[i]) * r.count(names[i]) for i in np.flatnonzero(row))
        rule = total <= int(bound)
        rules.append(rule if weight == np.inf else rule.soft(float(weight)))
    return rules


def family_rules(file: dict) -> list[r.Rule]:
    """The five families of [Fersini14], on tokens."""
    rules = []
    for family, first, second, weight in zip(
        file["family"], file["label_a"], file["label_b"], file["weight"], strict=True
    ):
        a, b = f"label{first}", f"label{second}"
        if family == "adj":
            rule = r.followed_by(a, b, level="token")
        elif family == "prec":
            rule = r.eventually(a, b, level="token")
        elif family == "pp":
            rule = r.before(a, b, level="token")
        elif family == "be":
            rule = r.implies(r.first(a), r.last(b))
        else:
            rule = r.at(r.token_equals(","), prev=a, next=b, require=True)
        rules.append(rule.soft(float(weight)))
    return rules


def load(folder: Path, name: str) -> list[ChainProblem]:
    """Return the problems of one set, rules compiled."""
    with np.load(folder / f"{name.removesuffix('_two_stage')}.npz") as archive:
        file = dict(archive)
    m = file["unary"].shape[2]
    if name.startswith("counts"):
        compiler = r.RuleCompiler(count_rules(file), [str(x) for x in file["label_names"]])
        tokens = [["x"] * file["unary"].shape[1]] * len(file["unary"])
    else:
        compiler = r.RuleCompiler(family_rules(file), [f"label{i}" for i in range(m)])
        tokens = [["," if mark else "x" for mark in row] for row in file["delimiter"]]
    return [
        ChainProblem(ChainPotentials(unary, file["transition"]), compiler(words))
        for unary, words in zip(file["unary"], tokens, strict=True)
    ]


def timed(run: Callable[[ChainProblem], Result], problems: list[ChainProblem]) -> tuple[list[Result], np.ndarray]:
    """Results and milliseconds."""
    results, times = [], []
    for problem in problems:
        start = perf_counter()
        results.append(run(problem))
        times.append(perf_counter() - start)
    return results, np.array(times) * 1e3


def two_stage_by_highs(problem: ChainProblem, tau: float) -> float:
    """Both stages as [Fersini14] has them, eqs. 22-29: Viterbi, then one integer program; returns the least cost."""
    best = decode(ChainProblem(problem.potentials), "viterbi").score
    prepared, plain = prepare(problem), prepare(ChainProblem(problem.potentials))
    parts = all_parts(prepared)
    program, own = build(prepared, parts), all_parts(plain)
    worth = dict(zip(keys_of(own), np.concatenate([own.node_score, own.edge_score]), strict=True))
    total, score = np.concatenate(program.cost), np.zeros(program.columns)
    score[: parts.size] = [-worth[key] for key in keys_of(parts)]
    columns = np.flatnonzero(score)
    floor = plain.offset - best + (1 - tau) * abs(best)
    program.add_rows(np.zeros(len(columns)), columns, score[columns], np.full(1, floor))
    program.cost = [total - score]
    return minimize(program).lower_bound + plain.offset - prepared.offset - prepared.sure_cost


def keys_of(parts: ChainParts) -> list[tuple]:
    """What each part is about: (token, label), or (token, label, next label)."""
    nodes = list(zip(parts.step.tolist(), parts.label.tolist(), strict=True))
    return nodes + [(*nodes[a], nodes[b][1]) for a, b in zip(parts.source, parts.target, strict=True)]


def value(result: Result) -> float:
    return result.cost if isinstance(result, TwoStageResult) else result.objective


def run_set(folder: Path, name: str, n_milp: int) -> dict[str, float]:
    problems = load(folder, name)
    tau = TAU.get(name)

    def ours(problem: ChainProblem) -> Result:
        return decode(problem) if tau is None else decode_two_stage(problem, tau=tau)

    for problem in problems:
        ours(problem)  # compiles and loads what is not loaded yet
    results, times = timed(ours, problems)
    certified = np.mean([result.status is not Status.bounded for result in results])
    given = problems[:n_milp]
    if tau is None:
        found, peer = timed(lambda problem: decode(problem, "milp"), given)
        optima = [result.objective for result in found]
    else:
        found, peer = timed(lambda problem: two_stage_by_highs(problem, tau), given)
        optima = list(found)
    for i, optimum in enumerate(optima):
        mine = value(results[i])
        if mine != optimum and not abs(mine - optimum) <= 2e-6 * max(1.0, abs(optimum)):
            sys.exit(f"{name} instance {i}: {mine} by rulefield, {optimum} by HiGHS.")
    speedup = peer.mean() / times[: len(given)].mean()
    print(f"{name}: {len(problems)} instances, {100 * certified:.1f} % certified, HiGHS agrees on {len(given)}")
    print(f"  ours  ms: mean {times.mean():.3f}  median {np.median(times):.3f}  max {times.max():.2f}")
    print(
        f"  HiGHS ms: mean {peer.mean():.1f}  median {np.median(peer):.1f}  max {peer.max():.1f}  ratio {speedup:.0f}"
    )
    print(f"  finished by: {dict(Counter(result.engine for result in results))}")
    print(f"  infeasible: {sum(result.status is Status.infeasible for result in results)}", flush=True)
    return {
        "certified": float(certified),
        "speedup": round(float(speedup), 1),
        "max_ms": round(float(times.max()), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--milp", type=int, default=10, help="instances of each set that HiGHS is given")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=[*SETS, "families_100x30_two_stage"])
    options = parser.parse_args()
    folder = Path(os.environ.get("RULEFIELD_DATA", "")) / "chain_problems"
    if "RULEFIELD_DATA" not in os.environ or not folder.is_dir():
        print("Set RULEFIELD_DATA to the folder that holds chain_problems.")
        sys.exit(2)
    print(json.dumps({name: run_set(folder, name, options.milp) for name in options.sets}))


if __name__ == "__main__":
    main()
