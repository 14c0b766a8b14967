"""Names of features written as bytes: pieces of other strings, one after the other, without a Python string each."""

import numpy as np

from rulefield.kernels.jit import kernel

ONE = np.uint64(1)


@kernel
def copy_pieces(text, cursor, names, blob, begin, end):
    """Write ``blob[begin[i] : end[i]]`` at the cursor of name ``names[i]``, and move that cursor behind it."""
    for i in range(np.uint64(names.size)):
        at = np.uint64(cursor[names[i]])
        for p in range(np.uint64(begin[i]), np.uint64(end[i])):
            text[at] = blob[p]
            at += ONE
        cursor[names[i]] = at


@kernel
def letter_bounds(blob, begin, end, front, back):
    """Fill where the first 1, 2, ... letters of each UTF-8 string end (``front``) and where the last ones begin (``back``).

    Both are (n, most letters). Where a string has fewer letters its last bound is repeated.
    """
    most = front.shape[1]
    for i in range(begin.size):
        p = begin[i]
        for k in range(most):
            if p < end[i]:
                p += 1
                while p < end[i] and blob[p] & np.uint8(0xC0) == np.uint8(0x80):
                    p += 1
            front[i, k] = p
        p = end[i]
        for k in range(most):
            if p > begin[i]:
                p -= 1
                while p > begin[i] and blob[p] & np.uint8(0xC0) == np.uint8(0x80):
                    p -= 1
            back[i, k] = p
