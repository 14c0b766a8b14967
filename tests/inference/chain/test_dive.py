"""Dives: labelings that earn their value, against enumeration."""

import numpy as np
import pytest

from oracles.compiled import random_problem
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages.dive import run_dive


def test_dives_end_at_labelings_that_earn_their_value():
    """A dive proves nothing; on small problems, where nothing is cut, it mostly finds the best."""
    met = solved = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 6, 3)
        exact, progress = decode_enumerate(problem), Progress.start(prepare(problem))
        run_duals(progress, 3)
        if progress.settled or exact.objective == -np.inf:
            continue
        bound = progress.bound
        run_dive(progress, dual_potentials(progress), 100_000, 100)
        assert progress.bound == bound
        if progress.best > -np.inf:
            assert progress.best == pytest.approx(progress.prepared.value(progress.labels), abs=1e-9)
            assert progress.objective <= exact.objective + 1e-9
        met += 1
        solved += progress.objective >= exact.objective - 1e-9
    assert met > 10
    assert solved > 0.9 * met
