"""The command line without its streams, and Ctrl-C at its odd moments."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells and signals")


def test_a_closed_standard_output_is_one_sentence():
    for command in ("--version >&-", "demo --n 5 >&-"):
        done = subprocess.run(
            f"exec {sys.executable} -m rulefield {command}", shell=True, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "standard output is closed" in done.stderr
    done = subprocess.run(f"exec {sys.executable} -m rulefield --version >&- 2>&-", shell=True, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("place", ["in a finalizer", "in the work", "at the end"])
def test_ctrl_c_is_never_lost(place):
    code = f"""
import atexit, signal, sys, time
from rulefield.cli import main
class Last:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def work():
    if {place!r} == "in a finalizer":
        Last()
    elif {place!r} == "in the work":
        signal.raise_signal(signal.SIGINT)
    else:
        return
    for _ in range(200):
        time.sleep(0.1)
main.app = work
if {place!r} == "at the end":
    atexit.register(signal.raise_signal, signal.SIGINT)
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    expected = 0 if place == "at the end" else 128 + signal.SIGINT
    assert (done.returncode, done.stderr) == (expected, "")
