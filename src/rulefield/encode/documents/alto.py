"""ALTO XML (libraries' OCR): blocks, lines and their words; labels are tags that ``TAGREFS`` names."""

from collections.abc import Sequence
from itertools import chain, count
from xml.etree import ElementTree

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import BoxCollector, labels_in_file
from rulefield.encode.documents.xml_tree import (
    Element,
    attribute,
    boxes_below,
    checked_label,
    found,
    local,
    write_tree,
)

Tags = dict[str | None, str | None]
"""Labels of tags by their ID."""
_KINDS = {"TextBlock": "block", "TextLine": LINE}


def recognizes(root: Element) -> bool:
    """Whether a root is one of ALTO."""
    return local(root) == "alto"


def read(source: Source, root: Element) -> list[Page]:
    """Return the pages of a file."""
    tags: Tags = {tag.get("ID"): tag.get("LABEL") for one in found(root, "Tags") for tag in one}
    return [_page(source.place, page, k, tags) for k, page in enumerate(found(root, "Page"))]


def _page(place: str, page: Element, number: int, tags: Tags) -> Page:
    size = [attribute(page, name, place) if page.get(name) else 0.0 for name in ("WIDTH", "HEIGHT")]
    collector = BoxCollector(place, page.get("ID") or f"page {number + 1}", *size)
    for one, kind, parent in _boxes(page):
        text = " ".join(word.get("CONTENT", "") for word in found(one, "String")) if kind == LINE else None
        label = tags.get(_label_tag(one, tags))
        collector.add(_box(one, place), kind, text, label, parent, one.get("ID", ""))
    collector.separators += [_box(one, place) for one in found(page, "GraphicalElement")]
    return collector.page()


def _boxes(page: Element) -> list[tuple[Element, str, int]]:
    return boxes_below(page, lambda element: _KINDS.get(local(element)))


def _label_tag(element: Element, tags: Tags) -> str | None:
    """Return the first tag of an element that has a label."""
    return next((ref for ref in element.get("TAGREFS", "").split() if tags.get(ref)), None)


def _box(element: Element, place: str) -> tuple[float, ...]:
    left, top, width, height = (attribute(element, name, place) for name in ("HPOS", "VPOS", "WIDTH", "HEIGHT"))
    return left, top, left + width, top + height


def write(root: Element, pages: Sequence[Page], path: str) -> None:
    """Write the file with a tag for each label, and references to them."""
    space = root.tag.rpartition("}")[0] + "}" if root.tag.startswith("{") else ""
    tags = next(found(root, "Tags"), None)
    if tags is None:
        tags = ElementTree.Element(f"{space}Tags")
        before = [k for k, child in enumerate(root) if local(child) in ("Description", "Styles")]
        root.insert(max(before, default=-1) + 1, tags)
    known: Tags = {tag.get("ID"): tag.get("LABEL") for tag in tags}
    names = {label: ref for ref, label in known.items() if ref}
    boxes = [[one for one, *_ in _boxes(page)] for page in found(root, "Page")]
    labels = labels_in_file(pages, [[one.get("ID", "") for one in of_page] for of_page in boxes])
    taken = {one.get("ID") for one in root.iter()}
    for one, label in zip(chain(*boxes), chain(*labels)):
        if label is None:
            continue
        text = checked_label(label, "a tag of ALTO")
        if text not in names:
            names[text] = next(name for k in count(len(names)) if (name := f"label{k}") not in taken)
            taken.add(names[text])
            ElementTree.SubElement(tags, f"{space}OtherTag", {"ID": names[text], "LABEL": text})
        told = _label_tag(one, known), names[text]
        others = [ref for ref in one.get("TAGREFS", "").split() if ref not in told]
        one.set("TAGREFS", " ".join([names[text], *others]))
    write_tree(root, path)
