"""What *optimal* means: the one place where engines and kernels of all families take it from.

An answer is optimal where no labeling has an objective higher by more than ``TOLERANCE`` nats plus the rounding error
of the sums themselves. The error is computed after constants are taken out: subtract each node's and each edge's
maximum, and the costs that no labeling can avoid. All terms are then <= 0, so no partial sum of a labeling is larger than
its whole sum, and a constant added to all scores changes nothing.
"""

import numpy as np

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


@kernel
def labeling_scores(unary, pairwise, tokens, steps, labels):
    """Scores of the labelings of chains from their definition, and the sums of the sizes of their terms, (2, chains).

    Chain i has the rows ``tokens[i] : tokens[i + 1]`` of ``unary`` and of ``labels``, and the matrices
    ``steps[i, 0] : steps[i, 1]`` of ``pairwise`` [from, to]: one, or one for each step.
    """
    found = np.zeros((2, len(tokens) - 1))
    for i in range(len(tokens) - 1):
        first, one = steps[i, 0], steps[i, 1] - steps[i, 0] == 1
        for t in range(tokens[i], tokens[i + 1]):
            score = unary[t, labels[t]]
            found[0, i] += score
            found[1, i] += abs(score)
            if t + 1 < tokens[i + 1]:
                score = pairwise[first if one else first + t - tokens[i], labels[t], labels[t + 1]]
                found[0, i] += score
                found[1, i] += abs(score)
    return found
