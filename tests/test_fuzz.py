"""A few hundred hostile cases of each family; ``make fuzz`` tries tens of thousands."""

import json
import os
import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
"""Small problems: threads that wait for each other cost more than they give."""


def fuzz(*options):
    command = [sys.executable, FUZZ, "--seed", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | ONE_THREAD)
    return done, json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


def test_nothing_is_found():
    """One process for all families: most of the cost of a family is its start."""
    done, told = fuzz("--here", "--cases", "200")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert told == {"tried": 2600, "models": 200, "texts": 1400, "found": 0}


def test_children_are_watched():
    done, told = fuzz("--cases", "20", "--jobs", "1", "--only", "columns")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert told["tried"] == 20
