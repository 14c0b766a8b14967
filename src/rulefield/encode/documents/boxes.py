"""Pages of boxes that a file holds: made while it is read, and labels for it while it is written again."""

from collections.abc import Sequence
from typing import NamedTuple

from rulefield.data.pages import Label, Page
from rulefield.encode.formats.base import bad_record
from rulefield.exceptions import InputError


class Box(NamedTuple):
    """What a file says of one box."""

    corners: tuple[float, ...]
    kind: str
    text: str | None
    label: str | None
    parent: int
    name: str


def page_of(
    place: str, name: str, size: Sequence[float], boxes: Sequence[Box], separators: Sequence[Sequence[float]]
) -> Page:
    """Return a page of a file; errors name the file."""
    labels = [box.label for box in boxes]
    try:
        return Page(
            [box.corners for box in boxes],
            width=size[0],
            height=size[1],
            types=[box.kind for box in boxes],
            texts=[box.text or "" for box in boxes] if any(box.text for box in boxes) else None,
            labels=None if all(label is None for label in labels) else labels,
            parents=[box.parent for box in boxes],
            separators=separators,
            ids=unique_names([box.name for box in boxes]),
            name=name,
        )
    except InputError as error:
        raise bad_record(place, f"page {name!r}: {error}") from None


def unique_names(given: Sequence[str]) -> list[str]:
    """Names of a page's boxes, as a file gives them; one that is missing, or stands there before, is the box's number."""
    names: dict[str, None] = {}
    taken = set(given)
    for k, name in enumerate(given):
        own = name if name and name not in names else f"#{k}"
        while own != name and own in taken:
            own = "#" + own
        names[own] = None
    return list(names)


def labels_in_file(pages: Sequence[Page], named: Sequence[Sequence[str]]) -> list[list[Label]]:
    """Labels of the boxes of each page of a file, which calls them ``named``; without names, pages have them in its order."""
    if len(pages) != len(named):
        raise InputError(f"give one page for each of the file; it has {len(named)}, got {len(pages)}.")
    found = []
    for page, given in zip(pages, named):
        if page.ids is None and page.n_boxes != len(given):
            raise InputError(
                f"page {page.name!r} has {page.n_boxes} boxes without ids, in the file it has {len(given)}."
            )
        names = unique_names(given)
        labels = dict(zip(names if page.ids is None else page.ids, page.labels or ()))
        found.append([labels.get(name) for name in names])
    return found
