"""Segments of label sequences: finding them, rewriting them in another scheme, refusing impossible ones."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.schemes import (
    OUTSIDE,
    SEPARATOR,
    Component,
    Path,
    Scheme,
    _joins,
    _level,
    as_scheme,
    format_path,
    parse,
    segment_starts,
)


class Span(NamedTuple):
    """A segment: tokens ``start`` to ``stop`` (not included) are a ``type``."""

    start: int
    stop: int
    type: str


class SegmentTable:
    """Tables that find the segments of label numbers without a Python loop over tokens.

    Parameters
    ----------
    labels : sequence of str, length m
        The label set; label numbers are places in it.
    scheme : str or None

    Attributes
    ----------
    starts : ndarray of bool, shape (depth, m + 1, m)
        As :func:`rulefield.encode.schemes.segment_starts`.
    types : list of str
        Names of all segment types. Below the first level a name is a path of types, ``authors/person``.
    type_of : ndarray of int32, shape (depth, m)
        Number of the type of a label at a level; -1 where it lies in no segment.
    """

    def __init__(self, labels: Sequence[str], scheme: str | None):
        self.labels = list(labels)
        self.scheme = as_scheme(scheme)
        self.starts = segment_starts(self.labels, self.scheme)
        paths = [parse(label, self.scheme) for label in self.labels]
        names = [[_type_path(path, k) for path in paths] for k in range(self.depth)]
        self.types = sorted({name for level in names for name in level if name is not None})
        number: dict[str | None, int] = {name: i for i, name in enumerate(self.types)} | {None: -1}
        self.type_of = np.array([[number[name] for name in level] for level in names], dtype=np.int32)

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.starts)

    def find(self, ids: np.ndarray, lengths: np.ndarray, level: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Segments of all sequences at one level.

        Parameters
        ----------
        ids : ndarray of int, shape (n_tokens,)
        lengths : ndarray of int64, shape (n_sequences,)
        level : int

        Returns
        -------
        first, last : ndarray of int64, shape (n_segments,)
            Token numbers, counted over all sequences; ``last`` is included.
        type : ndarray of int32, shape (n_segments,)
            Places in ``types``.
        """
        before = self.before(ids, lengths)
        inside = self.type_of[level, ids] >= 0
        begins = self.starts[level, before, ids]
        goes_on = np.zeros(len(ids) + 1, dtype=bool)
        goes_on[:-1] = inside & ~begins
        first = np.flatnonzero(begins)
        last = np.flatnonzero(inside & ~goes_on[1:])
        return first, last, self.type_of[level, ids[first]]

    def before(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Label before each token; ``m`` (no token before) where a sequence begins."""
        before = np.empty(len(ids), dtype=np.int64)
        before[1:] = ids[:-1]
        heads = (np.cumsum(lengths) - lengths)[lengths > 0]
        before[heads] = len(self.labels)
        return before


def _type_path(path: Path, k: int) -> str | None:
    if _level(path, k) is None:
        return None
    return SEPARATOR.join("" if c is None else c.type for c in path[: k + 1])


def spans(labels: Sequence[str], scheme: str | None, level: int | None = 0) -> list[Span]:
    """Segments of one label sequence.

    Parameters
    ----------
    labels : sequence of str
    scheme : str or None
        Without a scheme segments are maximal runs of one label (``O`` included).
    level : int or None
        Level of the hierarchy, 0 the outermost, negative counted from the deepest; None for all levels.

    Returns
    -------
    list of (start, stop, type)
        By start, then from the outermost level in. Impossible sequences have segments as conlleval finds them.
    """
    names = sorted(set(labels))
    number = {name: i for i, name in enumerate(names)}
    table = SegmentTable(names, scheme)
    ids = np.array([number[label] for label in labels], dtype=np.int64)
    lengths = np.array([len(ids)])
    levels = range(table.depth) if level is None else range(table.depth)[level : level + 1 or None]
    found = []
    for k in levels:
        first, last, kind = table.find(ids, lengths, k)
        found += [(int(a), k, Span(int(a), int(b) + 1, table.types[c])) for a, b, c in zip(first, last, kind)]
    return [span for *_, span in sorted(found, key=lambda item: item[:2])]


# --- rewriting in another scheme ----------------------------------------------------------------


def convert(labels: Sequence[str], source: str | None, target: str | None) -> list[str]:
    """Write one label sequence in another scheme; segments stay what they are.

    From no scheme, runs of one label become segments (and ``O`` stays outside); to no scheme, a label becomes its
    types, joined by ``/``, and neighbors of one type can no longer be told apart.
    """
    paths = [_plain_path(label) if as_scheme(source) is Scheme.none else parse(label, source) for label in labels]
    n, goal = len(paths), as_scheme(target)
    joined = [[_joined(paths, t, k) for k in range(len(paths[t]))] for t in range(n)]
    made = []
    for t, path in enumerate(paths):
        components = []
        for k, component in enumerate(path):
            ends = t + 1 == n or k >= len(joined[t + 1]) or not joined[t + 1][k]
            parent_goes_on = t > 0 and (k == 0 or joined[t][k - 1])
            same_before = parent_goes_on and _same_type(_level(paths[t - 1], k), component)
            parent_stays = t + 1 < n and (k == 0 or (k <= len(joined[t + 1]) and joined[t + 1][k - 1]))
            same_after = parent_stays and _same_type(_level(paths[t + 1], k), component)
            components.append(_rewrite(component, not joined[t][k], ends, (same_before, same_after), goal))
        made.append(format_path(tuple(components), goal))
    return made


def _plain_path(label: str) -> Path:
    parts = label.split(SEPARATOR)
    return tuple(None if part in ("", OUTSIDE) else Component("", part) for part in parts)


def _joined(paths: Sequence[Path], t: int, k: int) -> bool:
    return t > 0 and all(_joins(_level(paths[t - 1], j), _level(paths[t], j)) for j in range(k + 1))


def _same_type(before: Component | None, now: Component | None) -> bool:
    return before is not None and now is not None and before.type == now.type


def _rewrite(
    component: Component | None, begins: bool, ends: bool, same: tuple[bool, bool], goal: Scheme
) -> Component | None:
    return None if component is None else Component(prefix_of(goal, begins, ends, same), component.type)


def prefix_of(scheme: Scheme, begins: bool, ends: bool, same: tuple[bool, bool]) -> str:
    """Prefix of a token that begins or ends its segment; ``same``: the neighbor before (after) has the same type."""
    if scheme is Scheme.none:
        return ""
    if scheme is Scheme.bio:
        return "B" if begins else "I"
    if scheme is Scheme.iob1:
        return "B" if begins and same[0] else "I"
    if scheme in (Scheme.ioe1, Scheme.ioe2):
        return "E" if ends and (same[1] or scheme is Scheme.ioe2) else "I"
    return {(True, True): "S", (True, False): "B", (False, True): "E", (False, False): "I"}[begins, ends]


# --- impossible sequences -----------------------------------------------------------------------
