"""PAGE XML (Transkribus, eScriptorium, OCR-D): regions are blocks, labels are ``structure {type:...;}`` of ``custom``."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any
from xml.etree import ElementTree

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import Box, labels_in_file, page_of
from rulefield.encode.formats.base import bad_record
from rulefield.encode.formats.inline_xml import FORBIDDEN, Element, xml_root
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

_KINDS = {"TextRegion": "block", "TableRegion": "block", "TableCell": "block", "TextLine": LINE}
_SEPARATORS = ("SeparatorRegion", "LineDrawingRegion")
_STRUCTURE = re.compile(r"structure\s*\{[^}]*?type\s*:\s*([^;}]*)[^}]*\}")


def read(source: Source) -> list[Page]:
    """Return the pages of a file."""
    pages = [_page(source.place, page, k) for k, page in enumerate(_found(_root(source), "Page"), 1)]
    if not pages:
        raise bad_record(source.place, "holds no page: there is no <Page> in it.")
    return pages


def write(source: Source, pages: Sequence[Page], path: str) -> None:
    """Write a file as it was, with the pages' labels in ``custom``."""
    root = _root(source)
    boxes = [[one for one, *_ in _boxes(page)] for page in _found(root, "Page")]
    labels = labels_in_file(pages, [[one.get("id", "") for one in of_page] for of_page in boxes])
    for one, label in zip(chain(*boxes), chain(*labels)):
        if label is not None:
            rest = _STRUCTURE.sub("", one.get("custom", "")).strip()
            one.set("custom", f"{rest} structure {{type:{_checked_label(label)};}}".strip())
    if root.tag.startswith("{"):
        ElementTree.register_namespace("", root.tag[1:].partition("}")[0])
    with whole_file(path, text=True) as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n")


def _root(source: Source) -> Element:
    with source.open() as file:
        root = xml_root(file.read(), source.place)
    if _local(root) != "PcGts":
        raise bad_record(source.place, f"is no PAGE XML: its root is <{_local(root)}>, not <PcGts>.")
    return root


def _page(place: str, page: Element, number: int) -> Page:
    name = page.get("imageFilename") or f"page {number}"
    size = _attribute(page, "imageWidth", place), _attribute(page, "imageHeight", place)
    boxes = [
        Box(_corners(one, place), kind, _text(one), _label(one), parent, one.get("id", ""))
        for one, kind, parent in _boxes(page)
    ]
    return page_of(place, name, size, boxes, [_corners(one, place) for one in _found(page, *_SEPARATORS)])


def _boxes(page: Element) -> list[tuple[Element, str, int]]:
    """Return the boxes of a page in order: element, kind, and the number of the box that holds each; a line holds none."""
    boxes: list[tuple[Element, str, int]] = []

    def walk(element: Element, parent: int) -> None:
        for child in element:
            kind = _KINDS.get(_local(child))
            if kind is not None:
                boxes.append((child, kind, parent))
            if kind != LINE:
                walk(child, parent if kind is None else len(boxes) - 1)

    walk(page, -1)
    return boxes


def _corners(element: Element, place: str) -> tuple[float, ...]:
    """Return left, top, right and bottom of an element's points."""
    coords = next((child for child in element if _local(child) == "Coords"), None)
    points = "" if coords is None else coords.get("points", "")
    try:
        pairs = [tuple(map(float, point.split(","))) for point in points.split()]
        xs, ys = zip(*pairs)
    except ValueError:
        raise bad_record(
            place, f'{_described(element)} must have Coords with points="x,y x,y"; got {points!r:.40}.'
        ) from None
    return min(xs), min(ys), max(xs), max(ys)


def _text(element: Element) -> str | None:
    for child in element:
        if _local(child) == "TextEquiv":
            return next((one.text or "" for one in _found(child, "Unicode")), None)
    return None


def _label(element: Element) -> str | None:
    match = _STRUCTURE.search(element.get("custom", ""))
    return match.group(1).strip() if match else element.get("type")


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _found(element: Element, *names: str) -> Iterator[Element]:
    """Yield the elements below (and this one) with one of these names, in order."""
    return (one for one in element.iter() if isinstance(one.tag, str) and _local(one) in names)


def _attribute(element: Element, name: str, place: str) -> float:
    try:
        return float(element.get(name, ""))
    except ValueError:
        given = "none" if element.get(name) is None else f"{element.get(name)!r:.40}"
        raise bad_record(place, f"{name} of {_described(element)} must be a number; got {given}.") from None


def _described(element: Element) -> str:
    """Name an element in an error: <TextLine id='l1'>."""
    name = f" id={element.get('id')!r:.40}" if element.get("id") else ""
    return f"<{_local(element)}{name}>"


def _checked_label(label: Any) -> str:
    """Return a label that ``custom`` can hold: not empty, and without space at its ends, ``;`` and braces."""
    text = str(label)
    if FORBIDDEN.search(text) or " ".join(text.split(None)) != text or not text or set(";{}") & set(text):
        raise InputError(f"custom of PAGE XML cannot hold the label {text!r:.60}; rename it, or choose JSON.")
    return text
