r"""How probable a whole segment is: from its first token to its last, with its type, and neither longer nor shorter.

With :math:`Z` the sum over all labelings and :math:`Z_s` the sum over those in which segment s stands exactly so,
:math:`p(s) = Z_s / Z`. Products of label marginals are not that: neighboring labels are not independent.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rulefield.encode.spans import SegmentTable, Span
from rulefield.exceptions import InputError
from rulefield.inference.sequences.exact import log_partition
from rulefield.inference.sequences.reading import restricted
from rulefield.problem.chain_rules import ChainProblem

EXACT_NODES = 100_000
"""Largest lattice of exact sums under rules; beyond it the k best labelings tell, with a bound, or nothing does."""


def span_probabilities(
    problem: ChainProblem, spans: Sequence[tuple[Span, int]], table: SegmentTable
) -> list[float | None]:
    """Probability of each segment (given with its level) under the model and the rules of ``problem``.

    One sum over labelings per segment: O(n m²) each without rules, the size of the rules' lattice with them. Where that
    lattice is too large, probabilities come from the k best labelings, and are None where those do not tell.
    """
    if not spans:
        return []
    try:
        total = _log_sum(problem)
        found = [_log_sum(replace(problem, potentials=restricted(problem.potentials, s, table, k))) for s, k in spans]
    except InputError:  # too many rules for exact sums
        from rulefield.inference.sequences.sums import path_mass  # with rules only: loads engines

        mass = path_mass(problem)
        return [mass.probability(_holding(mass.paths, span, table, level)) for span, level in spans]
    return [float(min(1.0, np.exp(value - total))) for value in found]


def _log_sum(problem: ChainProblem) -> float:
    if not problem.rules:
        return log_partition(problem.potentials)
    from rulefield.inference.sequences.sums import constrained_log_partition  # with rules only: loads engines

    return constrained_log_partition(problem, EXACT_NODES)


def _holding(paths: np.ndarray, span: Span, table: SegmentTable, level: int) -> np.ndarray:
    """Which labelings (k, n) hold a segment, (k,)."""
    k, n = paths.shape
    first, last, kind = table.find(paths.ravel(), np.full(k, n), level)
    same = (first % n == span.start) & (last % n == span.stop - 1) & (kind == table.types.index(span.type))
    holds = np.zeros(k, dtype=bool)
    holds[first[same] // n] = True
    return holds
