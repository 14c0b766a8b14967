"""Proof files: which answers have one that the checker accepts, what they cost, and whether altered ones prove a falsehood.

    RULEFIELD_DATA=... python benchmarks/proofs.py [--every 1] [--skip hard graphs] [--seconds 20]

``everyday``: the problems of ``decoding_vs_highs.py`` (one in ``--every``); ``hard``: those families of ``hard_rules.py``,
seed 0, first instance, whose answer is proved by our engines; ``graphs``: those problems of ``graph_public.py`` that are
proved without toulbar2 in ``--seconds``. Answers without an accepted proof are listed. Times are CPU seconds. The last line
is JSON: shares accepted, ``false_accepted`` (altered files that the checker accepts although what they say is false),
``median_check_s`` of the everyday problems and ``cost`` (making proofs / decoding, everyday and hard problems together).
"""

import argparse
import json
from statistics import median
from time import process_time

import numpy as np

from common import data_folder
from decoding_vs_highs import load
from fuzzing.proofs import altered, chain_proof, graph_proof, is_accepted, is_true, segment_proof
from graph_public import problems as public_graphs
from hard_families import FAMILIES, compiled
from hard_rules import warm
from rulefield.datasets import read_uai, read_wcsp
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.proof.graphs import prove_graph
from rulefield.inference.proof.sequences import prove_chain
from rulefield.inference.result import Status
from rulefield.inference.sequences.decode import decode

SETS = (
    "counts_40x13",
    "counts_40x13_hard",
    "families_40x13",
    "counts_100x30",
    "counts_100x30_noisy",
    "families_100x30",
)
ALTERED = 3_000


class Tally:
    """Counts of one set of problems."""

    def __init__(self):
        self.accepted, self.checks, self.decoding, self.making = [], [], 0.0, 0.0

    def add(self, name, problem, solve, prove):
        """Decode, prove, check; nothing is counted where no engine of ours proves the answer."""
        begun = process_time()
        result = solve(problem)
        decoded = process_time()
        if result.status is Status.bounded:
            print(f"{name}: bounded, gap {result.gap:.3g}", flush=True)
            return
        proof = prove(problem, result)
        made = process_time()
        ok = proof is not None and is_accepted(json.loads(proof.to_json()))
        checked = process_time()
        self.accepted.append(ok)
        self.decoding += decoded - begun
        self.making += made - decoded
        self.checks += [checked - made] if proof is not None else []
        if not ok or checked - begun > 1.0:
            what = "accepted" if ok else "solver"
            times = (
                f"decoding {decoded - begun:.2f} s, making {made - decoded:.2f} s, checking {checked - made:.2f} s"
            )
            print(f"{name}: {what} ({result.engine}), {times}", flush=True)

    @property
    def share(self):
        """Share of proved answers whose proof is accepted."""
        return round(float(np.mean(self.accepted)), 4) if self.accepted else None


def everyday(every):
    """Problems of ``decoding_vs_highs.py``."""
    tally = Tally()
    for name in SETS:
        problems = load(data_folder() / "chain_problems", name)
        for problem in problems[:3]:
            prove_chain(problem, decode(problem))  # compiles
        for i, problem in enumerate(problems[::every]):
            tally.add(f"{name} {i * every}", problem, decode, prove_chain)
    return tally


def hard():
    """Families of ``hard_rules.py``, seed 0."""
    tally = Tally()
    for name, make in FAMILIES.items():
        tally.add(name, compiled(make(0)[0]), decode, prove_chain)
    return tally


def graphs(seconds):
    """Public graphs."""
    tally = Tally()
    for path in public_graphs(None):
        problem = (read_uai if ".uai" in path.name else read_wcsp)(path).pairwise
        tally.add(path.name, problem, lambda p: decode_graph(p, "auto", seconds=seconds), prove_graph)
    return tally


def false_accepted(cases):
    """Altered files that the checker accepts and that are false."""
    rng = np.random.default_rng(0)
    found = still = tried = 0
    while tried < cases:
        proof = (chain_proof, segment_proof, graph_proof)[tried // 10 % 3](rng)
        for _ in range(10):
            tried += 1
            text = altered(proof.text, rng)
            if is_accepted(text):
                still += 1
                found += not is_true(text)
    print(f"{tried} altered files: {still} still accepted, {found} of them false")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="take one everyday problem in so many")
    parser.add_argument("--skip", nargs="*", default=[], choices=["hard", "graphs", "altered"])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each public graph")
    options = parser.parse_args()
    warm()
    first, second, third = everyday(options.every), Tally(), Tally()
    if "hard" not in options.skip:
        second = hard()
    if "graphs" not in options.skip:
        third = graphs(options.seconds)
    wrong = None if "altered" in options.skip else false_accepted(ALTERED)
    cost = (first.making + second.making) / (first.decoding + second.decoding)
    figures = {"everyday": first.share, "hard": second.share, "graphs": third.share, "false_accepted": wrong}
    figures |= {"median_check_s": round(median(first.checks), 4), "cost": round(cost, 3)}
    figures["cost_everyday"] = round(first.making / first.decoding, 3)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
