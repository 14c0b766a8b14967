"""Untrusted XML: read without entities or outside references, written with the labels put in."""

from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

from rulefield.data.pages import LINE
from rulefield.data.source import Source
from rulefield.encode.formats.base import bad_record
from rulefield.encode.formats.inline_xml import FORBIDDEN, Element, xml_root
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file


def read_tree(source: Source) -> Element:
    """Return the root of a file; entities and outside references are refused."""
    with source.open() as file:
        return xml_root(file.read(), source.place)


def write_tree(root: Element, path: str, head: str = "", short: bool = True) -> None:
    """Write a tree, a ``head`` before it; its own namespace needs no prefix. ``short``: <a/> for an element that is empty."""
    space = root.tag[1:].partition("}")[0] if root.tag.startswith("{") else None
    if space:
        ElementTree.register_namespace("", space)
    with whole_file(path, text=True) as file:
        file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n{head}')
        file.write(ElementTree.tostring(root, encoding="unicode", short_empty_elements=short) + "\n")


def local(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def found(element: Element, *names: str) -> Iterator[Element]:
    """Yield the elements below (and this one) with one of these names, in order."""
    for one in element.iter():
        if isinstance(one.tag, str) and local(one) in names:
            yield one


def boxes_below(page: Element, kind_of: Callable[[Element], str | None]) -> list[tuple[Element, str, int]]:
    """Return the boxes of a page in order: element, kind, and the number of the box that holds each; a line holds none.

    ``kind_of`` returns the kind of box that an element is, None if it is no box.
    """
    boxes: list[tuple[Element, str, int]] = []

    def walk(element: Element, parent: int) -> None:
        for child in element:
            kind = kind_of(child)
            if kind is not None:
                boxes.append((child, kind, parent))
            if kind != LINE:
                walk(child, parent if kind is None else len(boxes) - 1)

    walk(page, -1)
    return boxes


def attribute(element: Element, name: str, place: str) -> float:
    """Return a number that an element must have."""
    try:
        return float(element.get(name, ""))
    except ValueError:
        given = "none" if element.get(name) is None else f"{element.get(name)!r:.40}"
        raise bad_record(place, f"{name} of {described(element)} must be a number; got {given}.") from None


def described(element: Element) -> str:
    """Name an element in an error: <TextLine id='l1'>."""
    name = next((f" {key}={element.get(key)!r:.40}" for key in ("id", "ID") if element.get(key)), "")
    return f"<{local(element)}{name}>"


def checked_label(label: Any, what: str = "XML", without: str = "") -> str:
    """Return a label that an attribute can hold: not empty, no space at its ends, and none of the characters ``without``."""
    text = str(label)
    if FORBIDDEN.search(text) or " ".join(text.split(None)) != text or not text or set(without) & set(text):
        raise InputError(f"{what} cannot hold the label {text!r:.60}; rename it, or choose JSON.")
    return text
