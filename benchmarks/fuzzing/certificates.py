"""Random problems under rules against enumeration: an answer that is called optimal is the best, and breaks no hard rule."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from oracles import graphs
from oracles.compiled import random_problem as random_chain_problem
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.result import Status
from rulefield.inference.sequences.decode import decode

TOLERANCE = 1e-5


def chain_certificate(rng):
    """Decode a random chain under random rules."""
    problem = random_chain_problem(rng, max_steps=5, max_states=3)
    best = decode(problem, "enumerate")
    return _compare(decode(problem), best.objective), "chain"


def graph_certificate(rng):
    """Decode a random graph under random logic and rows."""
    problem = graphs.random_problem(
        rng, 5, int(rng.integers(5)), int(rng.integers(3)), forbidden=float(rng.choice([0.0, 0.15]))
    )
    return _compare(decode_graph(problem, "auto"), graphs.best_objective(problem)), "graph"


def _compare(result, best):
    if best == -np.inf:
        assert result.status is Status.infeasible, f"no labeling is possible, but the status is {result.status}"
        return "infeasible"
    assert result.upper_bound >= best - TOLERANCE, f"bound {result.upper_bound} below the best objective {best}"
    assert result.objective <= best + TOLERANCE, f"objective {result.objective} above the best, {best}"
    if result.status is Status.optimal:
        assert result.objective >= best - TOLERANCE, f"{result.objective} called optimal; the best is {best}"
    return str(result.status)
