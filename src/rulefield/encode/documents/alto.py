"""ALTO XML (libraries' OCR): blocks, lines and their words; labels are tags that ``TAGREFS`` names."""

from collections.abc import Sequence
from xml.etree import ElementTree

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import BoxCollector
from rulefield.encode.documents.xml_tree import Element, attribute, checked_label, found, local, write_tree

_KINDS = {"TextBlock": "block", "TextLine": LINE}


def recognizes(root: Element) -> bool:
    """Whether a root is one of ALTO."""
    return local(root) == "alto"


def read(source: Source, root: Element) -> list[Page]:
    """Return the pages of a file."""
    tags = {tag.get("ID"): tag.get("LABEL") for one in found(root, "Tags") for tag in one}
    return [_page(source.place, page, k, tags) for k, page in enumerate(found(root, "Page"))]


def _page(place: str, page: Element, number: int, tags: dict[str | None, str | None]) -> Page:
    size = [attribute(page, name, place) if page.get(name) else 0.0 for name in ("WIDTH", "HEIGHT")]
    collector = BoxCollector(place, page.get("ID") or f"page {number + 1}", *size)

    def walk(element: Element, parent: int) -> None:
        for child in element:
            kind = local(child)
            if kind == "GraphicalElement":
                collector.separators.append(_box(child, place))
            elif kind in _KINDS:
                words = [one.get("CONTENT", "") for one in found(child, "String")]
                named = [tags[ref] for ref in child.get("TAGREFS", "").split() if tags.get(ref)]
                label = named[0] if named else None
                text = " ".join(words) if kind == "TextLine" else None
                walk(child, collector.add(_box(child, place), _KINDS[kind], text, label, parent, child.get("ID", "")))
            else:
                walk(child, parent)

    walk(page, -1)
    return collector.page()


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
    names = {tag.get("LABEL"): tag.get("ID") for tag in tags}
    for element, page in zip(found(root, "Page"), pages):
        labels = dict(zip(page.ids or (), page.labels or ()))
        for one in found(element, *_KINDS):
            label = labels.get(one.get("ID", ""))
            if label is None:
                continue
            text = checked_label(label)
            if text not in names:
                names[text] = f"label{len(names)}"
                ElementTree.SubElement(tags, f"{space}OtherTag", {"ID": str(names[text]), "LABEL": text})
            one.set("TAGREFS", str(names[text]))
    write_tree(root, path)
