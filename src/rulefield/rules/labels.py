"""What rules read in labels: the names on a label's path, and where segments begin and end."""

import difflib
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from rulefield.encode.schemes import (
    OUTSIDE,
    SEPARATOR,
    Component,
    Path,
    Scheme,
    allowed_transitions,
    as_scheme,
    parse,
)
from rulefield.encode.schemes import segment_starts as scheme_starts
from rulefield.metrics import guess_scheme


def known_scheme(scheme: str | None, labels: Iterable[str]) -> Scheme:
    """Turn a scheme's name into a scheme; ``"auto"`` guesses it from the labels."""
    return guess_scheme(labels) if scheme == "auto" else as_scheme(scheme)


def hint(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return words that point at the nearest known name; if none is near, ``otherwise``."""
    near = difflib.get_close_matches(name[:50], list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else otherwise


class LabelTable:
    """The labels of one label set under one scheme, as rules see them.

    Without a scheme a label is still a path (``authors/person``), and a segment of one of its components is a
    maximal run of tokens that agree on the path down to it; with flat labels, a maximal run of one label.
    Under a scheme ``O`` lies in no segment, but a rule may refer to it: its segments are maximal runs of ``O``.
    """

    def __init__(self, labels: Sequence[str], scheme: str | None):
        self.labels = tuple(labels)
        self.scheme = as_scheme(scheme)
        self.paths = tuple(self._path(label) for label in self.labels)

    def _path(self, label: str) -> Path:
        if self.scheme is Scheme.none:
            return tuple(Component("", part) for part in str(label).split(SEPARATOR))
        return parse(label, self.scheme) or (Component("", OUTSIDE),)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def index(self) -> dict[str, int]:
        """Number of each label."""
        return {label: i for i, label in enumerate(self.labels)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that a pattern may use, for error messages."""
        types = {c.type for path in self.paths for c in path if c is not None}
        return tuple(sorted(types | set(self.labels)))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Types of segments, outermost level first; under a scheme ``O`` is none."""
        levels = sorted((k, c.type) for path in self.paths for k, c in enumerate(path) if c is not None)
        names = dict.fromkeys(name for _, name in levels)
        return tuple(name for name in names if self.scheme is Scheme.none or name != OUTSIDE)

    @cached_property
    def starts(self) -> np.ndarray:
        """Entry [k, i, j]: after label i (row m: at the beginning) label j begins a segment at level k."""
        if self.scheme is Scheme.none:
            return self._run_starts()
        starts = scheme_starts(self.labels, self.scheme)
        for j in self._outside:
            starts[0, :, j] = True
            starts[0, self._outside, j] = False
        return starts

    def _run_starts(self) -> np.ndarray:
        m, depth = len(self), max([1, *map(len, self.paths)])
        starts = np.zeros((depth, m + 1, m), dtype=bool)
        for k in range(depth):
            heads = [path[: k + 1] if len(path) > k else None for path in self.paths]
            number = {head: i for i, head in enumerate(heads)}
            ids = np.array([number[head] for head in heads])
            deep = np.array([head is not None for head in heads], dtype=bool)
            starts[k, :m] = (ids[:, None] != ids[None, :]) & deep
            starts[k, m] = deep
        return starts

    @cached_property
    def _outside(self) -> list[int]:
        return [j for j, path in enumerate(self.paths) if path == (Component("", OUTSIDE),)]

    @cached_property
    def continues(self) -> np.ndarray:
        """Entry [k, i, j]: the segment at level k of label i goes on in a next label j."""
        m = len(self)
        covered = np.zeros((len(self.starts), m), dtype=bool)
        for j, path in enumerate(self.paths):
            for k, component in enumerate(path):
                covered[k, j] = component is not None
        return covered[:, :, None] & covered[:, None, :] & ~self.starts[:, :m]

    @cached_property
    def allowed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps (m, m), first labels (m,) and last labels (m,) that the scheme allows."""
        return allowed_transitions(self.labels, self.scheme)


class CutLabels(LabelTable):
    """Labels of segments that have no scheme: label i where a segment begins (i < m), label m + i where it goes on.

    So two neighboring segments of one label stay two. Levels above the last name of a path are runs, as without cuts.
    """

    def __init__(self, labels: Sequence[str]):
        super().__init__([*labels, *labels], None)
        self.runs = LabelTable(labels, None)

    @cached_property
    def starts(self) -> np.ndarray:
        """As in :class:`LabelTable`, (depth, 2 m + 1, 2 m)."""
        m, runs = len(self.runs), self.runs.starts
        starts = np.zeros((len(runs), 2 * m + 1, 2 * m), dtype=bool)
        starts[:, :, :m] = np.concatenate([runs[:, :m], runs], axis=1)
        for j, path in enumerate(self.runs.paths):
            starts[len(path) - 1, :, j] = True
        return starts

    @cached_property
    def allowed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As in :class:`LabelTable`: a segment goes on only after its own label."""
        m = len(self.runs)
        begins = np.arange(2 * m) < m
        own = np.tile(np.eye(m, dtype=bool), (2, 2))
        return own | begins[None, :], begins, np.ones(2 * m, dtype=bool)
