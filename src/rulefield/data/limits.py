"""Which numbers a model can learn from: sums of squares of larger ones leave no digits for the rest."""

import numpy as np

LARGEST_FEATURE = 1e12
"""Largest magnitude of a feature's value."""
LARGE_FEATURE = 1e6
"""Magnitude beyond which fits of sequences warn: from 1e7 on they end after one or two iterations, from 1e9 on wrongly."""
LARGEST_OUTPUT = 1e100
"""Largest magnitude of a value that a regressor learns (outputs are scaled before anything is squared)."""
MOST_DIGITS = 18
"""Of a whole number in a text: more do not fit 64 bits, and Python refuses thousands."""
WAY_OUT = f"must be finite and at most {LARGEST_FEATURE:g} in magnitude: scale or drop larger ones"


def usable(values: np.ndarray) -> np.ndarray:
    """Which values a feature may have (NaN and infinity are none of them)."""
    return np.abs(values) <= LARGEST_FEATURE


def is_whole(text: str | bytes) -> bool:
    """Whether a text is a whole number >= 0 that :class:`int` reads and 64 bits hold (``"²".isdigit()`` is true, too)."""
    return text.isdigit() and text.isascii() and len(text) <= MOST_DIGITS
