"""Proofs of random graphs under logic and rows; altered ones say nothing false."""

import numpy as np
import pytest

from oracles.altered import altered
from oracles.graphs import best_objective, random_problem
from oracles.proofs import stated_worths
from rulefield import proofcheck
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.proof.graphs import prove_graph
from rulefield.inference.result import Status
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.tables import TableFactors


def random_graph(rng, most=6):
    sizes = int(rng.integers(1, most)), int(rng.integers(0, 4)), int(rng.integers(0, 3))
    return random_problem(rng, *sizes, n_auxiliary=int(rng.integers(0, 2)), forbidden=float(rng.choice([0.0, 0.2])))


def agrees(proof, problem):
    best = best_objective(problem)
    return proof.bound is None if best == -np.inf else best <= proof.bound <= best + 2e-6


@pytest.mark.parametrize("seed", range(8))
def test_every_answer_on_a_graph_is_proved(seed):
    rng = np.random.default_rng(seed)
    proved = 0
    while proved < 75:
        problem = random_graph(rng)
        proof = prove_graph(problem, decode_graph(problem))
        if proof is None:  # an auxiliary variable that no row defines
            assert problem.rows.n_auxiliary
            continue
        proof.check()
        assert agrees(proof, problem)
        proved += 1


def test_tables_of_several_nodes_are_proved():
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = np.array([2, 3, 2])
        p = GraphPotentials(sizes, rng.normal(size=7), np.array([[0, 1]]), rng.normal(size=6))
        rows = np.array([(a, b, c) for a in range(2) for b in range(3) for c in range(2) if rng.random() < 0.6])
        tables = TableFactors.of(sizes, [([0, 1, 2], rows, rng.normal(size=len(rows)), -np.inf)])
        problem = GraphProblem(p, tables=tables)
        result = decode_graph(problem)
        proof = prove_graph(problem, result)
        said = proof.check()
        if result.status is Status.optimal:
            worth = float(said.splitlines()[0].rsplit("worth ", 1)[1])
            assert abs(worth - result.objective) < 1e-9


def test_altered_graph_files_prove_nothing_false():
    rng = np.random.default_rng(3)
    for _ in range(60):
        problem = random_graph(rng, 4)
        proof = prove_graph(problem, decode_graph(problem))
        for _ in range(10 if proof else 0):
            text = altered(proof.text, rng)
            try:
                proofcheck.check(text)
            except Exception:
                continue
            worths = stated_worths(text["problem"]).values()
            assert not worths if text["bound"] is None else all(worth <= text["bound"] for worth in worths)
