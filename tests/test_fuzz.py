"""A few hundred hostile cases of each family; ``make fuzz`` tries tens of thousands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.mark.parametrize(
    ("families", "cases"),
    [
        ("models,bytes", 400),
        ("rules,expectations,templates", 300),
        ("columns,json lines", 200),
        ("chain certificates,graph certificates", 200),
    ],
)
def test_nothing_is_found(families, cases):
    command = [sys.executable, FUZZ, "--cases", str(cases), "--jobs", "1", "--only", families, "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["tried"] == cases * len(families.split(","))
