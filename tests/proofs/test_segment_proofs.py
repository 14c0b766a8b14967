"""Proofs of random segmentations and joint chains."""

import numpy as np
import pytest

from oracles.altered import altered
from oracles.joint_rules import random_joint_case
from oracles.proofs import stated_worths
from oracles.segmentations import decode_enumerate
from oracles.segments import random_segment_problem
from rulefield import proofcheck
from rulefield.inference.proof.sequences import prove_chain, prove_segments
from rulefield.inference.result import Status
from rulefield.inference.sequences.enumerate import decode_enumerate as enumerate_chain
from rulefield.inference.sequences.joint.decode import decode_joint
from rulefield.inference.sequences.segments.decode import decode


def agrees(proof, best):
    if best.status is Status.infeasible:
        return proof.bound is None
    return best.objective <= proof.bound <= best.objective + 2e-6


@pytest.mark.parametrize("seed", range(10))
def test_every_segmentation_is_proved(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        problem = random_segment_problem(rng)
        proof = prove_segments(problem, decode(problem))
        assert proof is not None
        proof.check()
        assert agrees(proof, decode_enumerate(problem))


def test_altered_segment_files_prove_nothing_false():
    rng = np.random.default_rng(5)
    for _ in range(60):
        problem = random_segment_problem(rng, max_steps=3, max_types=2, max_rules=3)
        proof = prove_segments(problem, decode(problem))
        for _ in range(10):
            text = altered(proof.text, rng)
            try:
                proofcheck.check(text)
            except Exception:
                continue
            worths = stated_worths(text["problem"]).values()
            assert not worths if text["bound"] is None else all(worth <= text["bound"] for worth in worths)


@pytest.mark.parametrize("seed", range(4))
def test_every_joint_chain_is_proved(seed):
    rng = np.random.default_rng(seed)
    proved = 0
    while proved < 50:
        case = random_joint_case(rng)
        problem = case.problem(rng)
        chain = problem.over(0)
        if chain.potentials.n_steps == 0 or chain.potentials.n_states**chain.potentials.n_steps > 5000:
            continue
        proof = prove_chain(chain, decode_joint(problem)[0])
        assert proof is not None
        proof.check()
        assert agrees(proof, enumerate_chain(chain))
        proved += 1
