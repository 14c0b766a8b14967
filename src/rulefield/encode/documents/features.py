"""Named features of boxes, of pairs of boxes and of ruled lines: geometry on the page, among neighbors and separators."""

from dataclasses import dataclass

import numpy as np

from rulefield.encode.documents.layout import BELOW, FAR, RIGHT, Layout, Sight

_SIDES = {"above": (BELOW, 0), "below": (BELOW, 1), "left": (RIGHT, 0), "right": (RIGHT, 1)}
MOST_RANK = 12.0
SEPARATOR = "separator"
"""Type of ruled lines across the page that are nodes of their own."""
_AHEAD = {"above": False, "below": True}


@dataclass(frozen=True)
class Columns:
    """Columns of numbers (NaN: missing) and of flags, by name."""

    numbers: dict[str, np.ndarray]
    flags: dict[str, np.ndarray]

    def matrix(self, kind: str) -> np.ndarray:
        """Numbers or flags as a matrix (n, d)."""
        return np.stack([column.astype(np.float64) for column in getattr(self, kind).values()], axis=1)


def box_table(layout: Layout) -> Columns:
    """Features of every box; lengths are in heights of the document's boxes."""
    left, top, right, bottom = layout.boxes.T
    width, height = layout.sizes.T
    numbers = {
        "x left": left / width,
        "x right": right / width,
        "y": (layout.centers[:, 1] - layout.tops) / height,
        "width": right - left,
        "height": bottom - top,
    }
    flags: dict[str, np.ndarray] = {"any": np.ones(layout.n)}
    for side, (direction, ahead) in _SIDES.items():
        distance, _ = layout.to_separator(direction, bool(ahead))
        flags[f"no separator {side}"] = distance >= FAR
        numbers[f"to separator {side}"] = np.where(distance >= FAR, np.nan, distance)
        more_numbers, more_flags = _toward(layout, side, layout.sights[direction], ahead, direction)
        numbers |= more_numbers
        flags |= more_flags
    numbers["gap above - below"] = numbers["gap above"] - numbers["gap below"]
    numbers |= _in_region(layout)
    return Columns(numbers, flags)


def _toward(layout: Layout, side: str, sight: Sight, ahead: int, direction: int) -> tuple[dict[str, np.ndarray], ...]:
    """Return what a box sees of its nearest neighbor on one side."""
    own = sight.pairs[:, 1 - ahead]
    pair = _pair_numbers(layout, sight, direction)
    best = layout.nearest(direction, bool(ahead))
    has = best >= 0
    at = best[has]

    def column(values: np.ndarray) -> np.ndarray:
        out = np.full(layout.n, np.nan)
        out[has] = values[at]
        return out

    count = np.bincount(own, minlength=layout.n)
    crossed = np.zeros(layout.n, bool)
    crossed[has] = sight.crossed[at] > 0
    align = ("left edges", "right edges") if direction == BELOW else ("tops", "bottoms")
    numbers = {f"gap {side}": column(pair["gap"])} | {
        f"{name} {side}": column(pair[name]) for name in (*align, "sizes")
    }
    flags = {f"none {side}": ~has, f"several {side}": count > 1, f"separator before {side}": crossed}
    return numbers, flags


def _in_region(layout: Layout) -> dict[str, np.ndarray]:
    """Place among the boxes that no separator parts from this one, from the top and from the bottom."""
    region, y = layout.regions, layout.centers[:, 1]
    order = np.lexsort((y, region))
    size = np.bincount(region, minlength=int(region.max(initial=-1)) + 1)
    first = np.concatenate([[0], np.cumsum(size)])[:-1]
    rank = np.empty(layout.n)
    rank[order] = np.arange(layout.n) - first[region[order]]
    return {
        "boxes above in region": np.minimum(rank, MOST_RANK),
        "boxes below in region": np.minimum(size[region] - 1 - rank, MOST_RANK),
        "boxes in region": np.minimum(size[region].astype(float), 2 * MOST_RANK),
    }


def _pair_numbers(layout: Layout, sight: Sight, direction: int) -> dict[str, np.ndarray]:
    a, b = layout.boxes[sight.pairs[:, 0]], layout.boxes[sight.pairs[:, 1]]
    axis, along = (0, 1) if direction == BELOW else (1, 0)
    names = ("left edges", "right edges") if direction == BELOW else ("tops", "bottoms")
    extent_a, extent_b = a[:, axis + 2] - a[:, axis], b[:, axis + 2] - b[:, axis]
    both = np.minimum(a[:, axis + 2], b[:, axis + 2]) - np.maximum(a[:, axis], b[:, axis])
    return {
        "gap": b[:, along] - a[:, along + 2],
        "centers": 0.5 * (b[:, along] + b[:, along + 2] - a[:, along] - a[:, along + 2]),
        names[0]: b[:, axis] - a[:, axis],
        names[1]: b[:, axis + 2] - a[:, axis + 2],
        "overlap": both / np.maximum(np.maximum(extent_a, extent_b), 1e-9),
        "shared sight": sight.shared,
        "sizes": np.log(np.maximum(extent_b, 1e-3) / np.maximum(extent_a, 1e-3)),
        "other sizes": np.log(
            np.maximum(b[:, along + 2] - b[:, along], 1e-3) / np.maximum(a[:, along + 2] - a[:, along], 1e-3)
        ),
    }


def pair_table(layout: Layout, direction: int) -> Columns:
    """Features of every pair of neighbors in one direction."""
    sight = layout.sights[direction]
    numbers = _pair_numbers(layout, sight, direction)
    page = layout.page[sight.pairs]
    flags = {
        "any": np.ones(len(sight.pairs)),
        "separator between": sight.crossed > 0,
        "separators between": sight.crossed > 1,
        "only neighbors": sight.simple(layout.n),
        "same region": layout.regions[sight.pairs[:, 0]] == layout.regions[sight.pairs[:, 1]],
    }
    if direction == BELOW:
        flags["next page"] = page[:, 0] != page[:, 1]
    return Columns(numbers, flags)


def separator_table(layout: Layout) -> Columns:
    """Features of every separator across: place and length on its page, slant, how many boxes stand on either side."""
    across = np.flatnonzero(layout.horizontal)
    left, top, right, bottom = layout.separators[across].T
    page = layout.page_of_separator[across]
    width, height = layout.page_sizes[page].T
    pairs, beside = touching(layout)
    numbers = {
        "length": (right - left) / width,
        "left end": left / width,
        "y": (0.5 * (top + bottom) - layout.page_tops[page]) / height,
        "slant": bottom - top,
    }
    for side in _AHEAD:
        count = np.bincount(pairs[beside.flags[f"separator {side}"], 1], minlength=len(across))
        numbers[f"boxes with it {side}"] = np.minimum(count, 2 * MOST_RANK)
    return Columns(numbers, {"any": np.ones(len(across))})


def touching(layout: Layout) -> tuple[np.ndarray, Columns]:
    """Boxes and the separators across that they see above and below them before any other box.

    Returns pairs (box, row of :func:`separator_table`), and how far it is on which side of the box.
    """
    number = np.cumsum(layout.horizontal) - 1
    parts, sides, distances = [], [], []
    crossed = np.append(layout.sights[BELOW].crossed > 0, True)  # the last: no box there
    for side, ahead in _AHEAD.items():
        distance, which = layout.to_separator(BELOW, ahead)
        boxes = np.flatnonzero((which >= 0) & (distance < FAR) & crossed[layout.nearest(BELOW, ahead)])
        parts.append(np.stack([boxes, number[which[boxes]]], axis=1))
        sides += [side] * len(boxes)
        distances.append(distance[boxes])
    there, distance = np.array(sides, dtype=object), np.concatenate(distances)
    on = {name: np.equal(there, name).astype(bool) for name in _AHEAD}
    numbers = {f"to separator {name}": np.where(own, distance, np.nan) for name, own in on.items()}
    flags = {f"separator {name}": own for name, own in on.items()}
    return np.concatenate(parts), Columns(numbers, flags)
