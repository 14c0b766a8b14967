"""What HiGHS's word is worth: the scale at which it is asked, and how far its bounds may be off. For all families."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

HIGHS_SCALE = 1024.0
"""Costs are multiplied by this: HiGHS stops at a gap of 1e-6 of its own units, which must be far below a nat."""

HIGHS_DUALS = 1e-7
"""Nats by which bounds may be off: HiGHS takes reduced costs below 1e-7 of its units for none."""

HIGHS_ACCURACY = 2.0**-50
"""How far its sums may be off, of the largest cost: a few roundings."""


def proved_cost(found: "OptimizeResult", costs: Iterable[np.ndarray]) -> float:
    """Least cost, in nats, that HiGHS proves for a minimisation of ``HIGHS_SCALE`` times these costs.

    Branches end where they cannot beat the best solution known. That one obeys rows within 1e-6 only, which a large cost
    multiplies, so what HiGHS says of it counts as a bound as well: where it says too little, a gap is left.
    """
    if found.status == 2:
        return np.inf
    if found.mip_dual_bound is None or not np.isfinite(found.mip_dual_bound):
        return -np.inf
    said = float(found.mip_dual_bound) if found.x is None else min(float(found.mip_dual_bound), float(found.fun))
    largest = max(float(np.abs(cost).max(initial=0.0)) for cost in costs)
    return said / HIGHS_SCALE - HIGHS_DUALS - HIGHS_ACCURACY * largest
