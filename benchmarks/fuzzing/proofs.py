"""Altered proof files: what the checker still accepts must be true of the problem that the file states."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from oracles import graphs
from oracles.altered import altered
from oracles.compiled import random_problem as random_chain_problem
from oracles.proofs import stated_worths
from oracles.segments import random_segment_problem
from rulefield import proofcheck
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.proof.graphs import prove_graph
from rulefield.inference.proof.sequences import prove_chain, prove_segments
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.segments.decode import decode as decode_segments

MOST_CHANGES = 3


def chain_proof(rng):
    """Prove the answer to a random chain."""
    problem = random_chain_problem(rng, max_steps=4, max_states=3, max_rules=4)
    return prove_chain(problem, decode(problem))


def segment_proof(rng):
    """Prove the answer to a random segment problem."""
    problem = random_segment_problem(rng, max_steps=3, max_types=2, max_rules=3)
    return prove_segments(problem, decode_segments(problem))


def graph_proof(rng):
    """Prove the answer to a random graph."""
    problem = graphs.random_problem(rng, int(rng.integers(1, 5)), int(rng.integers(3)), int(rng.integers(2)))
    return prove_graph(problem, decode_graph(problem))


def is_accepted(text):
    """Whether the checker accepts a file."""
    try:
        proofcheck.check(text)
    except Exception:  # whatever is raised, nothing is proved
        return False
    return True


def is_true(text):
    """Whether what an accepted file says holds, by enumeration of what it states."""
    worths = stated_worths(text["problem"])
    if text["bound"] is None:
        return not worths
    return all(worth <= text["bound"] for worth in worths.values())


def altered_proof(rng):
    """Alter a proof file and check it."""
    make = (chain_proof, segment_proof, graph_proof)[int(rng.integers(3))]
    proof = make(rng)
    assert proof is not None, "no proof was found"
    proof.check()
    text = proof.text
    for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
        text = altered(text, rng)
    if not is_accepted(text):
        return "refused", "proof"
    assert is_true(text), "the checker accepts a false statement"
    return "still true", "proof"
