"""PAGE XML (Transkribus, eScriptorium, OCR-D): regions are blocks, labels are ``structure {type:...;}`` of ``custom``."""

import re
from collections.abc import Sequence
from itertools import chain

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import BoxCollector, labels_in_file
from rulefield.encode.documents.xml_tree import (
    Element,
    attribute,
    boxes_below,
    checked_label,
    described,
    found,
    local,
    write_tree,
)
from rulefield.encode.formats.base import bad_record

_KINDS = {"TextRegion": "block", "TableRegion": "block", "TableCell": "block", "TextLine": LINE}
_SEPARATORS = ("SeparatorRegion", "LineDrawingRegion")
_STRUCTURE = re.compile(r"structure\s*\{[^}]*?type\s*:\s*([^;}]*)[^}]*\}")


def recognizes(root: Element) -> bool:
    """Whether a root is one of PAGE XML."""
    return local(root) == "PcGts"


def read(source: Source, root: Element) -> list[Page]:
    """Return the pages of a file."""
    return [_page(source.place, page, k) for k, page in enumerate(found(root, "Page"))]


def _page(place: str, page: Element, number: int) -> Page:
    name = page.get("imageFilename") or f"page {number + 1}"
    collector = BoxCollector(place, name, attribute(page, "imageWidth", place), attribute(page, "imageHeight", place))
    for one, kind, parent in _boxes(page):
        collector.add(_box(one, place), kind, _text(one), _label(one), parent, one.get("id", ""))
    collector.separators += [_box(one, place) for one in found(page, *_SEPARATORS)]
    return collector.page()


def _boxes(page: Element) -> list[tuple[Element, str, int]]:
    return boxes_below(page, lambda element: _KINDS.get(local(element)))


def _box(element: Element, place: str) -> tuple[float, ...]:
    """Return the box around an element's points."""
    coords = next((child for child in element if local(child) == "Coords"), None)
    points = "" if coords is None else coords.get("points", "")
    try:
        pairs = [tuple(map(float, point.split(","))) for point in points.split()]
        xs, ys = zip(*pairs)
    except ValueError:
        raise bad_record(
            place, f'{described(element)} must have Coords with points="x,y x,y"; got {points!r:.40}.'
        ) from None
    return min(xs), min(ys), max(xs), max(ys)


def _text(element: Element) -> str | None:
    for child in element:
        if local(child) == "TextEquiv":
            return next((one.text or "" for one in found(child, "Unicode")), None)
    return None


def _label(element: Element) -> str | None:
    match = _STRUCTURE.search(element.get("custom", ""))
    return match.group(1).strip() if match else element.get("type")


def write(root: Element, pages: Sequence[Page], path: str) -> None:
    """Write the file with the pages' labels in ``custom``."""
    boxes = [[one for one, *_ in _boxes(page)] for page in found(root, "Page")]
    labels = labels_in_file(pages, [[one.get("id", "") for one in of_page] for of_page in boxes])
    for one, label in zip(chain(*boxes), chain(*labels)):
        if label is not None:
            rest = _STRUCTURE.sub("", one.get("custom", "")).strip()
            text = checked_label(label, "custom of PAGE XML", without=";{}")
            one.set("custom", f"{rest} structure {{type:{text};}}".strip())
    write_tree(root, path)
