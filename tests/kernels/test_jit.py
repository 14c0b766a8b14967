import os
import subprocess
import sys
from pathlib import Path

import rulefield
from rulefield.kernels.jit import Kernel

PACKAGE = """
from typing import NamedTuple
import numpy as np
from rulefield.kernels.jit import kernel

class {name}(NamedTuple):
    values: np.ndarray

@kernel
def total(pair):
    return pair.values.sum()

print(total({name}(np.ones(3))))
"""


def test_a_cache_of_another_version_is_no_obstacle(tmp_path):
    """Upgrading replaces sources, not what numba stored beside them, which may name classes that are gone."""
    env = {**os.environ, "PYTHONPATH": str(Path(rulefield.__file__).parents[1])}
    for name in ("Before", "Before", "After"):
        (tmp_path / "package.py").write_text(PACKAGE.format(name=name))
        run = [sys.executable, "-c", "import package"]
        found = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert found.stdout == "3.0\n", found.stderr
    assert list((tmp_path / "__pycache__").glob("*.nbi"))


@Kernel
def shifted(value, by):
    return value + by


@Kernel
def shifted_thrice(value):
    return shifted(shifted(shifted(value, 1), 2), value)


def test_a_kernel_is_compiled_once_whatever_constants_others_call_it_with():
    assert shifted_thrice(3) == 9
    assert len(shifted.dispatcher.overloads) == 1
