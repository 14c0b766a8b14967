"""Every stage of the walk alone, and random subsets of them, against all labelings."""

import numpy as np
import pytest

from oracles.compiled import check_word, random_problem
from rulefield.inference.sequences import auto
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals

PROBLEMS_PER_STEP = 60


def test_there_are_at_most_twelve_stages():
    assert len(auto.STAGES) + 1 <= 12  # the first levels are one


@pytest.mark.parametrize("number", range(len(auto.WALK)), ids=lambda i: f"{i}-{auto.WALK[i].name}")
def test_a_stage_alone_tells_the_truth(number):
    """After one dual pass a stage runs alone: its bound holds, its labeling is worth what is claimed."""
    step, ran = auto.WALK[number], 0
    for seed in range(PROBLEMS_PER_STEP):
        problem = random_problem(np.random.default_rng([number, seed]), 5, 3, 4)
        progress = Progress.start(prepare(problem))
        run_duals(progress, 1)
        if progress.settled:
            continue
        step.run(progress, dual_potentials(progress), progress.nodes + 50_000)
        check_word(problem, progress.result(step.name, progress.nodes), decode_enumerate(problem))
        ran += 1
    assert ran > PROBLEMS_PER_STEP // 5


@pytest.mark.parametrize("seed", range(40))
def test_random_subsets_of_stages_tell_the_truth(monkeypatch, seed):
    """The walk with some of its steps, in any order, after a single dual pass and no search over paths."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(auto.WALK))[: rng.integers(1, 6)]
    monkeypatch.setattr(auto, "WALK", tuple(auto.WALK[i] for i in chosen))
    monkeypatch.setattr(auto, "DUAL_ITERATIONS", 1)
    monkeypatch.setattr(auto, "PATH_NODES", 0)
    for _ in range(10):
        problem = random_problem(rng, 5, 3, 4)
        check_word(
            problem, decode(problem, node_limit=int(rng.choice([100, 10_000, 6_000_000]))), decode_enumerate(problem)
        )
