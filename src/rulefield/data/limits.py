"""Which numbers a model can learn from: sums of squares of larger ones leave no digits for the rest."""

import numpy as np

LARGEST_FEATURE = 1e12
"""Largest magnitude of a feature's value."""
LARGEST_OUTPUT = 1e100
"""Largest magnitude of a value that a regressor learns (outputs are scaled before anything is squared)."""
WAY_OUT = f"must be finite and at most {LARGEST_FEATURE:g} in magnitude: scale or drop larger ones"


def usable(values: np.ndarray) -> np.ndarray:
    """Which values a feature may have (NaN and infinity are none of them)."""
    return np.abs(values) <= LARGEST_FEATURE
