"""Proofs of random chains: all accepted, none says less than the enumerated optimum, altered ones say nothing false."""

import numpy as np
import pytest

from oracles.altered import altered
from oracles.compiled import random_problem
from oracles.proofs import stated_worths
from rulefield import proofcheck
from rulefield.inference.proof.sequences import prove_chain
from rulefield.inference.result import Status
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.enumerate import decode_enumerate

SMALL = {"max_steps": 4, "max_states": 3, "max_rules": 4}


def accepted(text):
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


@pytest.mark.parametrize("seed", range(12))
def test_every_answer_of_a_chain_is_proved(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        problem = random_problem(rng)
        proof = prove_chain(problem, decode(problem))
        assert proof is not None
        proof.check()
        best = decode_enumerate(problem)
        if best.status is Status.infeasible:
            assert proof.bound is None
        else:
            assert best.objective <= proof.bound <= best.objective + 2e-6


@pytest.mark.parametrize("seed", range(10))
def test_altered_files_prove_nothing_false(seed):
    rng = np.random.default_rng(1000 + seed)
    false, still = 0, 0
    for _ in range(30):
        problem = random_problem(rng, **SMALL)
        proof = prove_chain(problem, decode(problem))
        assert is_true(proof.text)
        for _ in range(10):
            text = altered(proof.text, rng)
            if accepted(text):
                still += 1
                false += not is_true(text)
    assert false == 0
    assert still > 0
