"""hOCR (Tesseract): pages, areas and lines by class, boxes in ``title``; labels are classes ``label_...``."""

import re
from collections.abc import Sequence
from itertools import chain

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import BoxCollector, labels_in_file
from rulefield.encode.documents.xml_tree import Element, boxes_below, checked_label, described, local, write_tree
from rulefield.encode.formats.base import bad_record

_KINDS = {
    "ocr_carea": "block",
    **dict.fromkeys(("ocr_line", "ocrx_line", "ocr_header", "ocr_caption", "ocr_textfloat"), LINE),
}
_SEPARATORS = {"ocr_separator", "ocr_linedrawing"}
_PREFIX = "label_"
_BOX = re.compile(r"\bbbox((?:\s+-?\d+(?:\.\d+)?){4})")


def recognizes(root: Element) -> bool:
    """Whether a root is a page of HTML."""
    return local(root).lower() == "html"


def read(source: Source, root: Element) -> list[Page]:
    """Return the pages of a file."""
    found = []
    for k, page in enumerate(_of_class(root, {"ocr_page"})):
        left, top, right, bottom = _box(page, source.place)
        collector = BoxCollector(source.place, page.get("id") or f"page {k + 1}", right - left, bottom - top)
        for one, kind, parent in _boxes(page):
            text = " ".join(" ".join(one.itertext()).split()) if kind == LINE else None
            collector.add(_box(one, source.place), kind, text, _label(one), parent, one.get("id", ""))
        collector.separators += [_box(one, source.place) for one in _of_class(page, _SEPARATORS)]
        found.append(collector.page())
    if not found:
        raise bad_record(source.place, 'holds no element of class "ocr_page".')
    return found


def _classes(element: Element) -> list[str]:
    return element.get("class", "").split()


def _of_class(root: Element, wanted: set[str]) -> list[Element]:
    return [one for one in root.iter() if wanted & set(_classes(one))]


def _boxes(page: Element) -> list[tuple[Element, str, int]]:
    return boxes_below(
        page, lambda element: next((_KINDS[name] for name in _classes(element) if name in _KINDS), None)
    )


def _label(element: Element) -> str | None:
    return next((name.removeprefix(_PREFIX) for name in _classes(element) if name.startswith(_PREFIX)), None)


def _box(element: Element, place: str) -> tuple[float, ...]:
    match = _BOX.search(element.get("title", ""))
    if match is None:
        what = described(element)
        raise bad_record(place, f'{what} must have a title with "bbox x y x y"; got {element.get("title")!r:.40}.')
    return tuple(float(number) for number in match.group(1).split())


def write(root: Element, pages: Sequence[Page], path: str) -> None:
    """Write the file with a class ``label_...`` on each box that has a label."""
    boxes = [[one for one, *_ in _boxes(page)] for page in _of_class(root, {"ocr_page"})]
    labels = labels_in_file(pages, [[one.get("id", "") for one in of_page] for of_page in boxes])
    for one, label in zip(chain(*boxes), chain(*labels)):
        if label is not None:
            kept = [name for name in _classes(one) if not name.startswith(_PREFIX)]
            one.set("class", " ".join([*kept, _PREFIX + checked_label(label, "a class of hOCR", without=" ")]))
    write_tree(root, path, "<!DOCTYPE html>\n", short=False)  # browsers take <title/> for the beginning of a title
