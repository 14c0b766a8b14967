"""Collects the boxes of one page while a file is read."""

from typing import Any

from rulefield.data.pages import Page
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
                ids=self._columns["ids"],
                name=self.name,
            )
        except InputError as error:
            raise bad_record(self.place, f"page {self.name!r}: {error}") from None
