"""Pages of documents: boxes with types, texts and labels, and the ruled lines between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from rulefield.data.limits import LARGEST_FEATURE, WAY_OUT, usable
from rulefield.exceptions import InputError

LINE = "line"
Label: TypeAlias = str | int | None


@dataclass(frozen=True, eq=False)
class Page:
    """One page: what a layout analysis, an OCR engine or a PDF says of it.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        Left, top, right and bottom of each box; y grows downwards.
    width, height : float, optional
        Size of the page; by default, where its boxes and separators end.
    types : sequence of str, optional
        What each box is ("line", "block", "word", ...); "line" for all by default.
    texts : sequence of str, optional
    labels : sequence of labels, optional
        None if a label is not known.
    parents : sequence of int, optional
        Number of the box that holds each box, -1 where none does.
    separators : array-like of shape (m, 4), optional
        Boxes around ruled lines; one wider than high is horizontal. A slanted one is taken for the diagonal that cuts
        fewer boxes.
    ids : sequence of str, optional
        What a file calls the boxes; writers find them by it.
    name : str
    """

    boxes: Any
    width: float = 0.0
    height: float = 0.0
    types: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    labels: Sequence[Label] | None = None
    parents: Any = None
    separators: Any = ()
    ids: Sequence[str] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        boxes = _rectangles(self.boxes, "boxes")
        separators = _rectangles(self.separators, "separators")
        n = len(boxes)
        put = object.__setattr__
        put(self, "boxes", boxes)
        put(self, "separators", separators)
        for k, side in enumerate(("width", "height")):
            ends = np.concatenate([boxes[:, 2 + k], separators[:, 2 + k], [0.0]])
            given = getattr(self, side)
            if not isinstance(given, int | float | np.number) or not 0 <= given <= LARGEST_FEATURE:
                raise InputError(
                    f"{side} of a page must be a number from 0 to {LARGEST_FEATURE:g}; got {getattr(self, side)!r:.60}."
                )
            put(self, side, float(given) or float(ends.max()) or 1.0)
        put(self, "types", (LINE,) * n if self.types is None else tuple(self.types))
        for name in ("types", "texts", "labels", "ids"):
            if (value := getattr(self, name)) is not None:
                put(self, name, tuple(value))
                _check_length(name, len(getattr(self, name)), n)
        if not all(isinstance(t, str) and t for t in self.types or ()):
            raise InputError("types of the boxes of a page must be strings that are not empty.")
        put(self, "parents", _parents(self.parents, n))

    @property
    def n_boxes(self) -> int:
        """Number of boxes."""
        return len(self.boxes)

    def with_labels(self, labels: Sequence[Label]) -> "Page":
        """Return the page with these labels."""
        return replace(self, labels=tuple(labels))

    def __repr__(self) -> str:
        kinds = {t: self.types.count(t) for t in dict.fromkeys(self.types or ())} if self.types else {}
        counts = ", ".join(f"{n} {t}" for t, n in kinds.items()) or "no boxes"
        return f"Page({self.name!r}: {counts}; {len(self.separators)} separators)"


def _rectangles(value: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} of a page must be numbers of shape (n, 4): left, top, right, bottom.") from None
    if array.size == 0:
        array = array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise InputError(f"{what} of a page must have shape (n, 4): left, top, right, bottom; got {array.shape}.")
    if not (good := usable(array)).all():
        raise InputError(f"{what} of a page {WAY_OUT}; they hold {array[~good][0]}.")
    turned = (array[:, 2] < array[:, 0]) | (array[:, 3] < array[:, 1])
    if turned.any():
        at = int(np.flatnonzero(turned)[0])
        raise InputError(
            f"{what} of a page: number {at} is {array[at].tolist()}; left <= right and top <= bottom must hold."
        )
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


def _parents(value: Any, n: int) -> np.ndarray:
    try:
        array = np.full(n, -1, dtype=np.int64) if value is None else np.asarray(value, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("parents of a page must be numbers of its boxes, or -1.") from None
    _check_length("parents", len(array), n)
    if len(array) and (array.min() < -1 or array.max() >= n or (array == np.arange(n)).any()):
        raise InputError(f"parents of a page must be numbers of other boxes (0 to {n - 1}), or -1.")
    return array


def _check_length(name: str, given: int, n: int) -> None:
    if given != n:
        raise InputError(f"{name} of a page must hold one entry for each of its {n} boxes; got {given}.")
