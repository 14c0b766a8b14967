"""Puts this folder on the import path (pytest does so for a folder with a conftest): tests import ``oracles``.

Workers of pytest-xdist fill the cores by themselves, so that matrix products of several threads would only wait for each
other; the limit has to be set before NumPy is imported.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
