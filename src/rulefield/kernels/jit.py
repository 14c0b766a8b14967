"""The one decorator of all kernels.

Cached on disk (a second process does not compile), GIL released (threads run in parallel), no fast
maths (minus infinity means "forbidden", and the full flag lets the compiler assume that infinities do
not exist). Division follows numpy, so that no kernel carries Python's zero-division branches.

A cached kernel is not recompiled when a kernel *in another file* that it calls is edited: remove the
``__pycache__`` folder of this package after such an edit.
"""

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(function: Callable) -> Any:
    """Compile a function at its first call, and keep it on disk."""
    compiled: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    stored = getattr(compiled._cache, "_cache_file", None)
    if stored is not None:
        stored._load_index = _or_nothing(stored._load_index)
    return compiled


def _or_nothing(load_index: Callable[[], dict]) -> Callable[[], dict]:
    """Take a cache that names classes of another version of the library for an empty one; numba raises."""

    def load() -> dict:
        try:
            return load_index()
        except (AttributeError, ImportError, TypeError):
            return {}

    return load


# A small piece of a kernel. A call passes every array as seven words, which costs more than a short loop does.
piece = njit(nogil=True, error_model="numpy", inline="always")
