"""Ruled lines across the page as nodes of their own: what each looks like, and which boxes stand above and below it."""

import numpy as np

from rulefield.encode.documents.features import MOST_RANK, Columns
from rulefield.encode.documents.layout import BELOW, FAR, Layout

SEPARATOR = "separator"
_SIDES = {"above": False, "below": True}


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
    for side in _SIDES:
        count = np.bincount(pairs[beside.flags[f"separator {side}"], 1], minlength=len(across))
        numbers[f"boxes with it {side}"] = np.minimum(count, 2 * MOST_RANK)
    return Columns(numbers, {"any": np.ones(len(across))})


def touching(layout: Layout) -> tuple[np.ndarray, Columns]:
    """Boxes and the separators across that they see above and below them before any other box.

    Returns
    -------
    pairs : ndarray of int64, shape (k, 2)
        A box, and a row of :func:`separator_table`.
    columns : Columns
        How far it is, and on which side of the box.
    """
    number = np.cumsum(layout.horizontal) - 1
    parts, sides, distances = [], [], []
    crossed = np.append(layout.sights[BELOW].crossed > 0, True)  # the last: no box there
    for side, ahead in _SIDES.items():
        distance, which = layout.to_separator(BELOW, ahead)
        boxes = np.flatnonzero((which >= 0) & (distance < FAR) & crossed[layout.nearest(BELOW, ahead)])
        parts.append(np.stack([boxes, number[which[boxes]]], axis=1))
        sides += [side] * len(boxes)
        distances.append(distance[boxes])
    there, distance = np.array(sides, dtype=object), np.concatenate(distances)
    on = {name: np.equal(there, name).astype(bool) for name in _SIDES}
    numbers = {f"to separator {name}": np.where(own, distance, np.nan) for name, own in on.items()}
    flags = {f"separator {name}": own for name, own in on.items()}
    return np.concatenate(parts), Columns(numbers, flags)
