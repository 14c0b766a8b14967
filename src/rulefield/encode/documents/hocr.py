"""hOCR (Tesseract): pages, areas and lines by class, boxes in ``title``; labels are classes ``label_...``."""

import re
from collections.abc import Sequence

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import BoxCollector
from rulefield.encode.documents.xml_tree import Element, checked_label, local, write_tree
from rulefield.encode.formats.base import bad_record
from rulefield.exceptions import InputError

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
        _walk(page, collector, -1, source.place)
        found.append(collector.page())
    if not found:
        raise bad_record(source.place, 'holds no element of class "ocr_page".')
    return found


def _classes(element: Element) -> list[str]:
    return element.get("class", "").split()


def _of_class(root: Element, wanted: set[str]) -> list[Element]:
    return [one for one in root.iter() if wanted & set(_classes(one))]


def _walk(element: Element, collector: BoxCollector, parent: int, place: str) -> None:
    for child in element:
        names = _classes(child)
        kind = next((_KINDS[name] for name in names if name in _KINDS), None)
        if _SEPARATORS & set(names):
            collector.separators.append(_box(child, place))
        if kind is None:
            _walk(child, collector, parent, place)
            continue
        label = next((name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)), None)
        text = " ".join(" ".join(child.itertext()).split()) if kind == LINE else None
        at = collector.add(_box(child, place), kind, text, label, parent, child.get("id", ""))
        if kind != LINE:
            _walk(child, collector, at, place)


def _box(element: Element, place: str) -> tuple[float, ...]:
    match = _BOX.search(element.get("title", ""))
    if match is None:
        what = f"<{local(element)} id={element.get('id')!r:.40}>"
        raise bad_record(place, f'{what} must have a title with "bbox x y x y"; got {element.get("title")!r:.40}.')
    return tuple(float(number) for number in match.group(1).split())


def write(root: Element, pages: Sequence[Page], path: str) -> None:
    """Write the file with a class ``label_...`` on each box that has a label."""
    for element, page in zip(_of_class(root, {"ocr_page"}), pages):
        labels = dict(zip(page.ids or (), page.labels or ()))
        for one in _of_class(element, set(_KINDS)):
            label = labels.get(one.get("id", ""))
            if label is not None:
                text = checked_label(label)
                if len(text.split()) != 1:
                    raise InputError(
                        f"a class of hOCR cannot hold the label {text!r:.60}; rename it, or choose JSON."
                    )
                kept = [name for name in _classes(one) if not name.startswith(_PREFIX)]
                one.set("class", " ".join([*kept, _PREFIX + text]))
    write_tree(root, path)
