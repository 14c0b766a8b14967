"""Segmentations as a layered lattice, straight from their definition: one node per token, one path per segmentation."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rulefield.kernels.lattice.lattice import Lattice
from rulefield.problem.segments import CLOSING, MIDDLE, OPENING, SINGLE, SegmentProblem


class SegmentPlace(NamedTuple):
    """A token of a segment: its type, where the segment began (-1 once it is closed), its role, and same-type neighbors."""

    kind: int
    begin: int
    role: int
    before: int
    after: int


def segment_lattice(problem: SegmentProblem) -> Lattice:
    """Return the lattice of all segmentations that are not forbidden; ``reach`` holds the scores of the first layer only."""
    return _Builder(problem).lattice()


class _Builder:
    """Makes nodes and arcs token by token."""

    def __init__(self, problem: SegmentProblem):
        self.problem, self.potentials, self.spelling = problem, problem.potentials, problem.spelling
        self.n, self.m = self.potentials.token.shape
        self.told_apart = self.spelling.depends_on_neighbors
        self.spans: dict[tuple[int, int], np.ndarray] = {}
        spans = self.potentials.spans
        for start, length, score in zip(spans.start.tolist(), spans.length.tolist(), spans.score):
            self.spans[start, length] = self.spans.get((start, length), 0.0) + score

    def lattice(self) -> Lattice:
        """Build all layers."""
        layers: list[dict[SegmentPlace, int]] = []
        arcs: list[list[tuple[int, int, float]]] = []
        for t in range(self.n):
            nodes: dict[SegmentPlace, int] = {}
            own: list[tuple[int, int, float]] = []
            for i, place, score in self._steps(t, layers[-1] if t else {}):
                if score > -np.inf and self._allowed(t, place):
                    own.append((i, nodes.setdefault(place, len(nodes)), score))
            layers.append(nodes)
            arcs.append(own)
        return self._packed(layers, arcs)

    def _steps(self, t: int, last: dict[SegmentPlace, int]) -> Iterator[tuple[int, SegmentPlace, float]]:
        """Yield (node before, place, score) of all that may stand at token t."""
        if t == 0:
            for kind in range(self.m):
                yield from self._opened(t, 0, kind, 0, 0.0)
        for place, i in last.items():
            if place.begin >= 0:
                yield from self._continued(t, i, place)
                continue
            for kind in range(self.m):
                same = int(kind == place.kind) if self.told_apart else 0
                if same == place.after:
                    score = float(self.potentials.pairwise[place.kind, kind])
                    yield from self._opened(t, i, kind, same, score)

    def _opened(
        self, t: int, i: int, kind: int, before: int, score: float
    ) -> Iterator[tuple[int, SegmentPlace, float]]:
        score += float(self.potentials.token[t, kind] + self.potentials.first[t, kind])
        if t < self.n - 1 and self.potentials.max_length > 1:
            yield i, SegmentPlace(kind, t, OPENING, before, 0), score
        for after in self._afters(t):
            yield i, SegmentPlace(kind, -1, SINGLE, before, after), score + self._closing(t, t, kind)

    def _continued(self, t: int, i: int, place: SegmentPlace) -> Iterator[tuple[int, SegmentPlace, float]]:
        kind, begin = place.kind, place.begin
        score = float(self.potentials.token[t, kind])
        if t < self.n - 1 and t - begin + 1 < self.potentials.max_length:
            yield i, SegmentPlace(kind, begin, MIDDLE, 0, 0), score
        if t - begin + 1 <= self.potentials.max_length:
            for after in self._afters(t):
                yield i, SegmentPlace(kind, -1, CLOSING, 0, after), score + self._closing(begin, t, kind)

    def _afters(self, t: int) -> tuple[int, ...]:
        return (0, 1) if self.told_apart and t < self.n - 1 else (0,)

    def _closing(self, begin: int, t: int, kind: int) -> float:
        length = t - begin + 1
        score = float(self.potentials.last[t, kind] + self.potentials.length[length - 1, kind])
        return score + float(self.spans[begin, length][kind]) if (begin, length) in self.spans else score

    def _label(self, place: SegmentPlace) -> int:
        return int(self.spelling.label[place.role, place.kind, place.before, place.after])

    def _allowed(self, t: int, place: SegmentPlace) -> bool:
        return self.problem.allowed is None or bool(self.problem.allowed[t, self._label(place)])

    def _packed(self, layers: list[dict[SegmentPlace, int]], arcs: list[list[tuple[int, int, float]]]) -> Lattice:
        layer = np.cumsum([0, *map(len, layers)])
        label = np.array([self._label(place) for nodes in layers for place in nodes], np.int64)
        reach = np.full(len(label), -np.inf)
        for _, j, score in arcs[0]:
            reach[j] = score
        flat = [
            (int(layer[t - 1]) + i, int(layer[t]) + j, s) for t in range(1, self.n) for i, j, s in sorted(arcs[t])
        ]
        count = np.bincount(np.array([i for i, _, _ in flat], np.int64), minlength=len(label))
        pointer = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        to, scores = np.array([j for _, j, _ in flat], np.int64), np.array([s for _, _, s in flat], np.float64)
        return Lattice(layer.astype(np.int64), label, reach, np.zeros(len(label)), pointer, to, scores)
