"""The one decorator of all kernels.

Cached on disk (a second process does not compile), GIL released (threads run in parallel), no fast
maths (minus infinity means "forbidden", and the full flag lets the compiler assume that infinities do
not exist). Division follows numpy, so that no kernel carries Python's zero-division branches.

A cached kernel is not recompiled when a kernel *in another file* that it calls is edited: remove the
``__pycache__`` folder of this package after such an edit.
"""

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")

# A small piece of a kernel. A call passes every array as seven words, which costs more than a short loop does.
piece = njit(nogil=True, error_model="numpy", inline="always")
