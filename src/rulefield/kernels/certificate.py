"""What *optimal* means: the one place where engines and kernels of all families take it from.

An answer is optimal where no labeling has an objective higher by more than ``TOLERANCE`` nats plus the rounding error
of the sums themselves. The error is computed after constants are taken out: subtract each node's and each edge's
maximum, and the costs that no labeling can avoid. All terms are then <= 0, so no partial sum of a labeling is larger than
its whole sum, and a constant added to all scores changes nothing.
"""

from rulefield.kernels.jit import kernel

TOLERANCE = 1e-6
"""Nats by which a better labeling may escape a proof."""

SLACK = 1e-9
"""Nats that a search need not look for: far below the tolerance, so that several steps may each lose so much."""

EPSILON = 2.0**-52


def rounding_error(terms, magnitude):
    """Bound on the rounding error of a sum of ``terms`` numbers whose partial sums stay within ``magnitude``."""
    return EPSILON * terms * abs(magnitude)


def proves(bound, best, error):
    """Whether an upper bound proves a value best, or (both minus infinity) that there is none.

    ``error`` is the rounding error of the value's sum. A bound that is itself uncertain has its own error added by whoever
    computed it, so that where doubles cannot tell the gap says so.
    """
    if bound == best:
        return True
    return bound - best <= TOLERANCE + error


rounding_error_kernel = kernel(rounding_error)
proves_kernel = kernel(proves)
