"""Potentials of segmentations in the arrays that kernels read."""

import numpy as np

from rulefield.exceptions import InputError
from rulefield.kernels.segments.best import CLOSING, MIDDLE, OPENING, SINGLE, RoleScores
from rulefield.problem.segments import SegmentParts, SegmentPotentials


def as_parts(potentials: SegmentPotentials) -> SegmentParts:
    """Return the arrays of one sequence as kernels want them; raise on NaN and plus infinity."""
    p = potentials
    ends = p.spans.start + p.spans.length - 1
    if np.any(np.diff(ends) < 0) or (len(ends) and (p.spans.start.min() < 0 or ends.max() >= p.n_steps)):
        raise InputError(f"spans must be sorted by their end and lie within the {p.n_steps} tokens.")
    names = ("token", "first", "last", "length", "pairwise")
    return SegmentParts(
        **{name: _scores(name, getattr(p, name)) for name in names},
        span=_scores("spans.score", p.spans.score),
        span_ptr=np.searchsorted(ends, np.arange(p.n_steps + 1)).astype(np.int64),
        span_length=p.spans.length.astype(np.int64),
    )


def as_roles(parts: SegmentParts) -> RoleScores:
    """Return what tokens score in each role of a segment."""
    role = np.empty((4, *parts.token.shape))
    role[MIDDLE] = parts.token
    np.add(parts.token, parts.first, out=role[OPENING])
    np.add(parts.token, parts.last, out=role[CLOSING])
    np.add(role[OPENING], parts.last, out=role[SINGLE])
    return RoleScores(role, *parts[3:])


def _scores(name: str, array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array, np.float64)
    if array.size and not array.max() < np.inf:  # the maximum is NaN where any entry is
        raise InputError(f"{name} scores must be numbers or -inf (forbidden); got NaN or +inf.")
    return array
