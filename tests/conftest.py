"""Puts this folder on the import path (pytest does so for a folder with a conftest): tests import ``oracles``.

Workers of pytest-xdist fill the cores by themselves, so that matrix products of several threads would only wait for each
other; the limit has to be set before NumPy is imported. Tests meet the kernels from the first call on; what stands in for
them in small processes is set loose in ``kernels/test_light.py``.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from rulefield.kernels.jit import Kernel  # noqa: E402

Kernel.any_loaded = True
