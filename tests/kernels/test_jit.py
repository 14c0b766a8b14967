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
    assert len(shifted.inner.overloads) == 1


LONG = """
import sys, time, types
import rulefield.kernels.jit as jit
jit.TOLD_SECONDS = {limit}
from rulefield.kernels.jit import compile_seconds, kernel
@kernel
def double(x):
    return 2 * x
double(1)
print(compile_seconds() > 0.0)
"""


def run_alone(script, folder, **variables):
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    env |= {"PYTHONPATH": str(Path(rulefield.__file__).parents[1]), **variables}
    path = folder / "alone.py"
    if not path.exists() or path.read_text() != script:
        path.write_text(script)  # numba 0.60 compiles again if only the time of the file differs
    return subprocess.run(
        [sys.executable, "alone.py"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_long_compilation_is_announced_once_and_what_is_loaded_is_none(tmp_path):
    told = "rulefield: compiling, once per installation ...\n"
    first = run_alone(LONG.format(limit=0.0), tmp_path)
    assert (first.stdout, first.stderr) == ("True\n", told)
    again = run_alone(LONG.format(limit=0.0), tmp_path)
    assert (again.stdout, again.stderr) == ("False\n", "")


def test_short_compilation_is_not_announced(tmp_path):
    assert run_alone(LONG.format(limit=1e9), tmp_path).stderr == ""


NOWHERE = (
    """
import numba.core.caching as caching
own = [one for one in caching.CacheImpl._locator_classes if "UserProvided" in one.__name__]
caching.CacheImpl._locator_classes = own
"""
    + LONG
)


def test_code_is_kept_in_a_folder_of_ones_own_if_no_other_can_be_written(tmp_path):
    folder = tmp_path / f"rulefield-{os.getuid()}"
    for stdout in ("True\n", "False\n"):
        done = run_alone(NOWHERE.format(limit=1e9), tmp_path, TMPDIR=str(tmp_path))
        assert done.stdout == stdout, done.stderr
        assert done.stderr.count("RuntimeWarning") == 1
        assert str(folder) in done.stderr
    assert folder.stat().st_mode & 0o077 == 0


def test_code_is_not_loaded_from_a_folder_that_others_can_write(tmp_path):
    (tmp_path / f"rulefield-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"rulefield-{os.getuid()}").chmod(0o777)
    done = run_alone(NOWHERE.format(limit=1e9), tmp_path, TMPDIR=str(tmp_path))
    assert done.stdout == "True\n"
    assert "cannot be kept" in done.stderr


def test_without_a_compiler(tmp_path):
    done = run_alone(LONG.format(limit=0.0), tmp_path, NUMBA_DISABLE_JIT="1")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_code_that_is_kept_is_loaded_without_the_compiler():
    """In a new process, after another one has compiled what it needs: arrays that kernels make are allocated and freed."""
    code = (
        "import sys, warnings\n"
        "import rulefield as rf\n"
        "from rulefield.kernels.jit import compile_seconds\n"
        "warnings.simplefilter('ignore')\n"
        "crf = rf.ChainCRF(max_iter=2).fit([['a', 'b'], ['b', 'a']] * 9, [['x', 'y'], ['y', 'x']] * 9)\n"
        "for _ in range(200):\n"
        "    assert crf.predict_kbest([['a', 'b']], k=2)[0][0][0] == ['x', 'y']\n"
        "print(compile_seconds() == 0.0, 'numba.np.linalg' in sys.modules)\n"
    )
    said = [
        subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert said[1].split() == ["True", "False"]
