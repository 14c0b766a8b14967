"""PAGE XML (Transkribus, eScriptorium, OCR-D): regions are blocks, labels are ``structure {type:...;}`` of ``custom``."""

import re
from collections.abc import Sequence

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import BoxCollector
from rulefield.encode.documents.xml_tree import Element, attribute, checked_label, found, local, write_tree
from rulefield.encode.formats.base import bad_record

_REGIONS = ("TextRegion", "TableRegion", "TableCell")
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
    _walk(page, collector, -1, place)
    return collector.page()


def _walk(element: Element, collector: BoxCollector, parent: int, place: str) -> None:
    for child in element:
        kind = local(child)
        if kind in _SEPARATORS:
            collector.separators.append(_box(child, place))
        elif kind in _REGIONS or kind == "TextLine":
            text = _text(child)
            name = LINE if kind == "TextLine" else "block"
            at = collector.add(_box(child, place), name, text, _label(child), parent, child.get("id", ""))
            _walk(child, collector, at, place)


def _box(element: Element, place: str) -> tuple[float, ...]:
    """Return the box around an element's points."""
    coords = next((child for child in element if local(child) == "Coords"), None)
    points = "" if coords is None else coords.get("points", "")
    try:
        pairs = [tuple(map(float, point.split(","))) for point in points.split()]
        xs, ys = zip(*pairs)
    except ValueError:
        what = f"<{local(element)} id={element.get('id')!r:.40}>"
        raise bad_record(place, f'{what} must have Coords with points="x,y x,y"; got {points!r:.40}.') from None
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
    for element, page in zip(found(root, "Page"), pages):
        labels = dict(zip(page.ids or (), page.labels or ()))
        for one in found(element, *_REGIONS, "TextLine"):
            label = labels.get(one.get("id", ""))
            if label is not None:
                rest = _STRUCTURE.sub("", one.get("custom", "")).strip()
                one.set("custom", f"{rest} structure {{type:{checked_label(label)};}}".strip())
    write_tree(root, path)
