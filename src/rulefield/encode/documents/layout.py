"""Where boxes lie: the pages of a document one below the other, neighbors in sight, separators between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from rulefield.data.pages import Page
from rulefield.kernels.pages.sight import cuts_of_diagonals, separators_between, visible_pairs

BELOW, RIGHT = 0, 1
_AXES = {BELOW: (0, 1), RIGHT: (1, 0)}  # the axis along which boxes must overlap, the axis of sight
LEAST_OVERLAP = 0.2
"""Share of the smaller box over which neighbors see each other."""
FAR = 1e3  # of a distance in line heights: nothing there


@dataclass(frozen=True)
class Sight:
    """Pairs of neighbors in one direction (the second is below, or to the right of, the first).

    ``shared`` is the length over which they see each other, in shares of the smaller box; ``crossed`` counts the separators
    between their centers.
    """

    pairs: np.ndarray
    shared: np.ndarray
    crossed: np.ndarray

    def simple(self, n: int) -> np.ndarray:
        """Which pairs are the only ones of both their boxes, (k,) of bool."""
        ahead = np.bincount(self.pairs[:, 0], minlength=n)[self.pairs[:, 0]]
        back = np.bincount(self.pairs[:, 1], minlength=n)[self.pairs[:, 1]]
        return (ahead == 1) & (back == 1)


class Layout:
    """The boxes of one type on all pages of a document, in units of the height of its boxes, and the ruled lines there.

    Pages stand one below the other, so that the boxes at the foot of a page see those at the head of the next.
    """

    def __init__(self, pages: Sequence[Page], kind: str, separators: bool = True):
        members = [np.flatnonzero(np.array(page.types, dtype=object) == kind) for page in pages]
        self.page = np.repeat(np.arange(len(pages)), [len(m) for m in members])
        raw = np.concatenate([page.boxes[m] for page, m in zip(pages, members)]).reshape(-1, 4)
        heights = raw[:, 3] - raw[:, 1]
        self.unit = float(np.median(heights)) if len(raw) and np.median(heights) > 0 else 1.0
        tops = np.concatenate([[0.0], np.cumsum([page.height for page in pages])])
        self.boxes = _moved(raw, tops[self.page]) / self.unit
        lines = [_moved(page.separators, np.full(len(page.separators), top)) for page, top in zip(pages, tops)]
        self.separators = np.concatenate([np.zeros((0, 4)), *(lines if separators else ())]) / self.unit
        self.page_of_separator = np.repeat(np.arange(len(pages)), [len(one) if separators else 0 for one in lines])
        self.page_sizes = np.array([[page.width, page.height] for page in pages]) / self.unit
        self.page_tops = tops / self.unit
        self.sizes, self.tops = self.page_sizes[self.page], self.page_tops[self.page]

    @property
    def n(self) -> int:
        """Number of boxes."""
        return len(self.boxes)

    @cached_property
    def centers(self) -> np.ndarray:
        """Center of each box, (n, 2)."""
        return 0.5 * (self.boxes[:, :2] + self.boxes[:, 2:])

    @cached_property
    def horizontal(self) -> np.ndarray:
        """Which separators are wider than high, (m,)."""
        return (self.separators[:, 2] - self.separators[:, 0]) >= (self.separators[:, 3] - self.separators[:, 1])

    @cached_property
    def _rising(self) -> np.ndarray:
        cuts = cuts_of_diagonals(self.separators, self.boxes, self.horizontal)
        return cuts[:, 1] < cuts[:, 0]

    @cached_property
    def sights(self) -> tuple[Sight, Sight]:
        """Neighbors below and to the right."""
        return self._sight(BELOW), self._sight(RIGHT)

    def _sight(self, direction: int) -> Sight:
        axis, along = _AXES[direction]
        low, high = self.boxes[:, axis], self.boxes[:, axis + 2]
        order = np.argsort(self.centers[:, along], kind="stable")
        first, second, seen = visible_pairs(np.ascontiguousarray(low), np.ascontiguousarray(high), order)
        smaller = np.minimum(high[first] - low[first], high[second] - low[second])
        share = seen / smaller
        keep = share >= LEAST_OVERLAP
        if direction == RIGHT:
            keep &= self.page[first] == self.page[second]
        first, second, share = first[keep], second[keep], share[keep]
        by_pair = np.lexsort((second, first))
        pairs = np.stack([first, second], axis=1)[by_pair]
        return Sight(pairs, share[by_pair], self._crossed(pairs, direction))

    def _crossed(self, pairs: np.ndarray, direction: int) -> np.ndarray:
        axis, along = _AXES[direction]
        a, b = self.boxes[pairs[:, 0]], self.boxes[pairs[:, 1]]
        place = 0.5 * (np.maximum(a[:, axis], b[:, axis]) + np.minimum(a[:, axis + 2], b[:, axis + 2]))
        start, end = self.centers[pairs[:, 0], along], self.centers[pairs[:, 1], along]
        return self._between(place, start, end, direction)[0]

    def _between(
        self, place: np.ndarray, start: np.ndarray, end: np.ndarray, direction: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        axis, along = _AXES[direction]
        turned = np.ascontiguousarray(self.separators[:, [axis, axis + 2, along, along + 2]])
        wanted = self.horizontal if direction == BELOW else ~self.horizontal
        lines = (np.ascontiguousarray(of_lines) for of_lines in (place, start, end))
        return separators_between(*lines, turned, self._rising, wanted, 0.5)

    def to_separator(self, direction: int, ahead: bool) -> tuple[np.ndarray, np.ndarray]:
        """How far the next separator stands from each box's center in one of four directions (FAR: none), and its number."""
        axis, along = _AXES[direction]
        place, here = self.centers[:, axis], self.centers[:, along]
        if ahead:
            _, distance, which = self._between(place, here, here + FAR, direction)
            return np.minimum(distance, FAR), which
        mirror = Layout.__new__(Layout)
        mirror.__dict__.update(self.__dict__)
        turned = self.separators.copy()
        turned[:, [along, along + 2]] = -self.separators[:, [along + 2, along]]
        mirror.__dict__.update(separators=turned, _rising=~self._rising, horizontal=self.horizontal)
        _, distance, which = mirror._between(place, -here, -here + FAR, direction)
        return np.minimum(distance, FAR), which

    def nearest(self, direction: int, ahead: bool) -> np.ndarray:
        """Return, for each box, which pair of a sight leads to the nearest one on one side; -1 for none, (n,)."""
        along, sight = _AXES[direction][1], self.sights[direction]
        first, second = sight.pairs.T
        gap = self.boxes[second, along] - self.boxes[first, along + 2]
        order = np.lexsort((-sight.shared, gap))[::-1]
        best = np.full(self.n, -1)
        best[(first if ahead else second)[order]] = order  # the nearest comes last
        return best

    @cached_property
    def regions(self) -> np.ndarray:
        """Number of the region of each box, (n,): boxes joined by lines of sight that no separator cuts."""
        links = np.concatenate([sight.pairs[sight.crossed == 0] for sight in self.sights])
        graph = sparse.coo_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(self.n, self.n))
        return connected_components(graph, directed=False)[1] if self.n else np.zeros(0, np.int64)

    @cached_property
    def next_in_region(self) -> np.ndarray:
        """Pairs of boxes one after the other from the top to the bottom of a region, (k, 2)."""
        order = np.lexsort((self.centers[:, 1], self.regions))
        pairs = np.stack([order[:-1], order[1:]], axis=1)
        return pairs[self.regions[pairs[:, 0]] == self.regions[pairs[:, 1]]]


def _moved(boxes: np.ndarray, down: np.ndarray) -> np.ndarray:
    out = boxes.copy()
    out[:, 1] += down
    out[:, 3] += down
    return out
