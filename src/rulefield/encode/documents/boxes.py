"""Collects the boxes of one page while a file is read."""

from collections.abc import Sequence
from typing import Any

from rulefield.data.pages import Label, Page
from rulefield.encode.formats.base import bad_record
from rulefield.exceptions import InputError


class BoxCollector:
    """Boxes, one after the other, with what is known of each."""

    def __init__(self, place: str, name: str, width: float = 0.0, height: float = 0.0):
        self.place, self.name, self.width, self.height = place, name, width, height
        self.boxes: list[tuple[float, ...]] = []
        self.separators: list[tuple[float, ...]] = []
        self._columns: dict[str, list[Any]] = {"types": [], "texts": [], "labels": [], "parents": [], "ids": []}

    def add(
        self, box: tuple[float, ...], kind: str, text: str | None, label: str | None, parent: int, name: str
    ) -> int:
        """Add one box and return its number."""
        self.boxes.append(box)
        for key, value in zip(self._columns, (kind, text, label, parent, name)):
            self._columns[key].append(value)
        return len(self.boxes) - 1

    def page(self) -> Page:
        """Return the page; what is wrong with it is told with the file's name."""
        texts, labels = self._columns["texts"], self._columns["labels"]
        try:
            return Page(
                self.boxes,
                self.width,
                self.height,
                types=self._columns["types"],
                texts=[text or "" for text in texts] if any(texts) else None,
                labels=labels if any(label is not None for label in labels) else None,
                parents=self._columns["parents"],
                separators=self.separators,
                ids=unique_names(self._columns["ids"]),
                name=self.name,
            )
        except InputError as error:
            raise bad_record(self.place, f"page {self.name!r}: {error}") from None


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
