"""Best labels, segments and their probabilities of many chains without rules, in arrays: what parsers of texts ask for."""

from typing import NamedTuple

import numpy as np

from rulefield.encode.spans import SegmentTable, Span
from rulefield.inference.sequences.exact import log_partition, score_batch, viterbi_batch
from rulefield.kernels.certificate import TOLERANCE, rounding_error
from rulefield.kernels.chain import segments as kernels
from rulefield.kernels.jit import Kernel
from rulefield.problem.chain import ChainPotentials

FEW_TOKENS = 60
"""Fewer are read without compiled code by a process that has loaded none: loading it takes longer."""


class SegmentRows(NamedTuple):
    """Segments of labelings that lie one after the other: those of labeling i are ``pointer[i] : pointer[i + 1]``.

    ``first`` and ``last`` (included) count tokens of all labelings; ``kind`` is a place in the table's ``types``.
    """

    pointer: np.ndarray
    first: np.ndarray
    last: np.ndarray
    kind: np.ndarray
    level: np.ndarray

    def of(self, i: int, begin: int, table: SegmentTable) -> list[tuple[Span, int]]:
        """Return the segments of labeling i, whose first token is number ``begin``, each with its level."""
        own = slice(int(self.pointer[i]), int(self.pointer[i + 1]))
        columns = self.first[own] - begin, self.last[own] + 1 - begin, self.kind[own], self.level[own]
        return [(Span(a, b, table.types[k]), level) for a, b, k, level in zip(*(c.tolist() for c in columns))]


def find_segments(table: SegmentTable, ids: np.ndarray, lengths: np.ndarray) -> SegmentRows:
    """Return the segments of labelings, outermost first at each start; runs of ``O`` are none."""
    levels = [table.find(ids, lengths, level) for level in range(table.depth)]
    first, last, kind = (np.concatenate(parts) for parts in zip(*levels))
    level = np.repeat(np.arange(table.depth), [len(found[0]) for found in levels])
    kept = np.flatnonzero(kind != outside_of(table))
    kept = kept[np.lexsort((level[kept], first[kept]))]
    first, last, kind, level = first[kept], last[kept], kind[kept], level[kept]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return SegmentRows(np.searchsorted(first, ends), first, last, kind.astype(np.int64), level)


def outside_of(table: SegmentTable) -> int:
    """Return the type of runs of ``O``, which are no segments to users; -2 if there is none."""
    return table.types.index("O") if "O" in table.types else -2


class ReadChains(NamedTuple):
    """Segments of the best labels of chains, the score of these labels, the log of the sum over all labelings.

    ``total`` and ``chance`` (the probability of each segment) are None if they were not asked for. ``proved``: the rounding
    error of the scores is far below the tolerance of proofs; False also if no labeling is possible.
    """

    segments: SegmentRows
    score: np.ndarray
    proved: np.ndarray
    total: np.ndarray | None
    chance: np.ndarray | None


def read_chains(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, table: SegmentTable, sums: bool
) -> ReadChains:
    """Label chains without rules and find the segments; with ``sums`` also their probabilities.

    Chains lie one after the other, as :func:`rulefield.inference.sequences.exact.viterbi_batch` reads them. One pass forward
    and one backward give all segments of a chain.
    """
    pairwise = pairwise if pairwise.ndim == 3 else pairwise[None]
    if not Kernel.any_loaded and len(unary) < FEW_TOKENS:
        return _read_by_parts(unary, pairwise, offsets, table, sums)
    n, room = len(offsets) - 1, len(unary) * table.depth
    score, largest, total = np.empty(n), np.empty(n), np.empty(n)
    pointer, chance = np.empty(n + 1, np.int64), np.empty(room if sums else 0)
    first, last, kind, level = np.empty((4, room), np.int64)
    tables = table.starts, table.type_of, outside_of(table), sums
    count = kernels.read_chains(
        unary, pairwise, offsets, *tables, score, largest, total, pointer, first, last, kind, level, chance
    )
    segments = SegmentRows(pointer, first[:count], last[:count], kind[:count], level[:count])
    proved = _are_proved(score, np.diff(offsets), largest)
    if not sums:
        return ReadChains(segments, score, proved, None, None)
    _fill_by_logs(unary, pairwise, offsets, segments, table, total, chance)
    return ReadChains(segments, score, proved, total, chance[:count])


def _read_by_parts(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, table: SegmentTable, sums: bool
) -> ReadChains:
    """Do the same by the few functions that need no compiled code."""
    labels, best = viterbi_batch(unary, pairwise, offsets)
    score = np.where(best > -np.inf, score_batch(unary, pairwise, offsets, labels), best)
    segments = find_segments(table, labels, np.diff(offsets))
    largest = sum(float(np.abs(part[np.isfinite(part)]).max(initial=0.0)) for part in (unary, pairwise))
    proved = _are_proved(score, np.diff(offsets), largest)
    if not sums:
        return ReadChains(segments, score, proved, None, None)
    total, chance = np.full(len(offsets) - 1, np.nan), np.empty(len(segments.first))
    _fill_by_logs(unary, pairwise, offsets, segments, table, total, chance)
    return ReadChains(segments, score, proved, total, chance)


def _are_proved(score: np.ndarray, length: np.ndarray, largest: np.ndarray | float) -> np.ndarray:
    return (score > -np.inf) & (rounding_error(2.0 * length, length * largest) <= TOLERANCE / 4)


def _fill_by_logs(
    unary: np.ndarray,
    pairwise: np.ndarray,
    offsets: np.ndarray,
    segments: SegmentRows,
    table: SegmentTable,
    total: np.ndarray,
    chance: np.ndarray,
) -> None:
    """Fill sums that are still NaN, and probabilities of segments of these chains, by one sum of logarithms each."""
    for i in np.flatnonzero(np.isnan(total)).tolist():
        begin, stop = int(offsets[i]), int(offsets[i + 1])
        steps = pairwise[0] if len(pairwise) == 1 else pairwise[begin : max(begin, stop - 1)]
        whole = ChainPotentials(unary[begin:stop], steps)
        total[i] = log_partition(whole)
        for s, (span, level) in enumerate(segments.of(i, begin, table), int(segments.pointer[i])):
            part = log_partition(restricted(whole, span, table, level))
            chance[s] = min(1.0, float(np.exp(part - total[i])))


def restricted(potentials: ChainPotentials, span: Span, table: SegmentTable, level: int = 0) -> ChainPotentials:
    """Potentials of the labelings in which tokens ``span.start`` to ``span.stop`` are one segment of its type, at a level."""
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
