"""Puts this folder on the import path (pytest does so for a folder with a conftest): tests import ``oracles``.

Workers of pytest-xdist fill the cores by themselves, so that matrix products of several threads would only wait for each
other; the limit has to be set before NumPy is imported. Tests meet the kernels from the first call on; what stands in for
them in small processes is set loose in ``kernels/test_light.py``.

Where nothing is compiled yet, workers would compile the same kernels side by side: tests of graphs and fields run on one
of them, tests of sequences on another, and the other files wherever there is time.
"""

import os
import re

import pytest

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from rulefield.kernels.jit import Kernel  # noqa: E402

Kernel.any_loaded = True

FAMILIES = {
    "graphs": r"/(graph|gaussian|multilabel|documents)/|gaussian_learn|test_contract.*(Graph|MultiLabel|Gaussian|Document)",
    "sequences": r"/(inference|learning)/(chain|joint|segments)/|test_contract",
}


def family_of(nodeid):
    """Name what runs on one worker: a family, or a file."""
    return next((name for name, tests in FAMILIES.items() if re.search(tests, nodeid)), nodeid.split("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Send families and files to workers, those with the most tests first (``--dist loadfile`` knows files only)."""
    from xdist.scheduler import LoadScopeScheduling

    class Families(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return family_of(nodeid)

    return Families(config, log)
