r"""How probable a whole segment is: from its first token to its last, with its type, and neither longer nor shorter.

With :math:`Z` the sum over all labelings and :math:`Z_s` the sum over those in which segment s stands exactly so,
:math:`p(s) = Z_s / Z`. Products of label marginals are not that: neighboring labels are not independent.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rulefield.encode.spans import SegmentTable, Span
from rulefield.exceptions import InputError
from rulefield.inference.sequences.exact import checked, log_partition
from rulefield.kernels.chain.segments import segments_batch
from rulefield.kernels.jit import Kernel
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem


class SegmentRows(NamedTuple):
    """Segments of labelings that lie one after the other: those of labeling i are ``pointer[i] : pointer[i + 1]``.

    ``first`` and ``last`` (included) count tokens of all labelings; ``kind`` is a place in the table's ``types``.
    """

    pointer: np.ndarray
    first: np.ndarray
    last: np.ndarray
    kind: np.ndarray
    level: np.ndarray

    def none(self) -> "SegmentRows":
        """Return the same labelings without segments."""
        return SegmentRows(np.zeros_like(self.pointer), *(part[:0] for part in self[1:]))

    def of(self, i: int, begin: int, table: SegmentTable) -> list[tuple[Span, int]]:
        """Return the segments of labeling i, whose first token is number ``begin``, each with its level."""
        own = slice(int(self.pointer[i]), int(self.pointer[i + 1]))
        columns = self.first[own] - begin, self.last[own] + 1 - begin, self.kind[own], self.level[own]
        return [(Span(a, b, table.types[k]), level) for a, b, k, level in zip(*(c.tolist() for c in columns))]


def segment_probabilities(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, segments: SegmentRows, table: SegmentTable
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log partition function of each chain and the probability of each segment, without rules.

    Chains lie one after the other, as :func:`rulefield.inference.sequences.exact.viterbi_batch` reads them. One pass forward
    and one backward give all segments of a chain.
    """
    unary, pairwise = checked(unary, pairwise)
    total, chance = np.full(len(offsets) - 1, np.nan), np.empty(len(segments.first))
    if Kernel.any_loaded:
        segments_batch(unary, pairwise, offsets, *segments, table.starts, table.type_of, total, chance)
    for i in np.flatnonzero(np.isnan(total)).tolist():  # no compiled code yet, or scores that lie far apart
        begin, stop = int(offsets[i]), int(offsets[i + 1])
        steps = pairwise[0] if len(pairwise) == 1 else pairwise[begin : max(begin, stop - 1)]
        potentials = ChainPotentials(unary[begin:stop], steps)
        total[i] = log_partition(potentials)
        own = slice(int(segments.pointer[i]), int(segments.pointer[i + 1]))
        chance[own] = span_probabilities(ChainProblem(potentials), segments.of(i, begin, table), table)
    return total, chance


def restricted(potentials: ChainPotentials, span: Span, table: SegmentTable, level: int = 0) -> ChainPotentials:
    """Potentials of the labelings in which tokens ``span.start`` to ``span.stop`` are one segment of its type.

    Parameters
    ----------
    potentials : ChainPotentials
    span : Span
        ``type`` as in ``table.types``.
    table : SegmentTable
        Of the model's labels, in its order.
    level : int
        Level of hierarchical labels.
    """
    n, m = potentials.unary.shape
    kind = table.types.index(span.type)
    inside = table.type_of[level] == kind
    begins = table.starts[level]
    goes_on = (table.type_of[level] >= 0)[None, :] & ~begins[:m]
    unary = potentials.unary.copy()
    unary[span.start : span.stop, ~inside] = -np.inf
    if span.start == 0:
        unary[0, ~begins[m]] = -np.inf
    steps = np.broadcast_to(potentials.pairwise_stack, (max(n - 1, 0), m, m)).copy()
    if span.start > 0:
        steps[span.start - 1, ~begins[:m]] = -np.inf
    steps[span.start : span.stop - 1, ~goes_on] = -np.inf
    if span.stop < n:
        steps[span.stop - 1, goes_on] = -np.inf
    return ChainPotentials(unary, steps)


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
