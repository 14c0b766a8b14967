"""Potentials of segmentations in the arrays that kernels read."""

import numpy as np

from rulefield.exceptions import InputError
from rulefield.kernels.segments import best as kernels
from rulefield.kernels.segments.parts import COUNTED, SegmentParts
from rulefield.problem.segments import SegmentPotentials


def as_parts(potentials: SegmentPotentials) -> SegmentParts:
    """Return the arrays of one sequence as kernels want them; raise on NaN and plus infinity."""
    p = potentials
    ends = p.spans.start + p.spans.length - 1
    if np.any(np.diff(ends) < 0) or (len(ends) and (p.spans.start.min() < 0 or ends.max() >= p.n_steps)):
        raise InputError(f"spans must be sorted by their end and lie within the {p.n_steps} tokens.")
    return SegmentParts(
        token=_scores("token", p.token),
        first=_scores("first", p.first),
        last=_scores("last", p.last),
        length=_scores("length", p.length),
        pairwise=_scores("pairwise", p.pairwise),
        span=_scores("spans.score", p.spans.score),
        span_ptr=np.searchsorted(ends, np.arange(p.n_steps + 1)).astype(np.int64),
        span_length=p.spans.length.astype(np.int64),
    )


def as_roles(parts: SegmentParts) -> kernels.RoleScores:
    """Return what tokens score in each role of a segment, for ``best_segments``."""
    role = np.empty((4, *parts.token.shape))
    role[kernels.MIDDLE] = parts.token
    np.add(parts.token, parts.first, out=role[kernels.OPENING])
    np.add(parts.token, parts.last, out=role[kernels.CLOSING])
    np.add(role[kernels.OPENING], parts.last, out=role[kernels.SINGLE])
    return kernels.RoleScores(role, parts.length, parts.pairwise, parts.span, parts.span_ptr, parts.span_length)


def empty_counts(parts: SegmentParts) -> SegmentParts:
    """Return zeros in the shapes of ``parts``, for expected counts."""
    zeros = {name: np.zeros_like(getattr(parts, name)) for name in COUNTED}
    return parts._replace(**zeros)


def _scores(name: str, array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array, np.float64)
    if array.size and not array.max() < np.inf:  # the maximum is NaN where any entry is
        raise InputError(f"{name} scores must be numbers or -inf (forbidden); got NaN or +inf.")
    return array
