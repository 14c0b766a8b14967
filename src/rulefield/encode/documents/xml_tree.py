"""XML of strangers: read without entities or outside references, written with the labels put in."""

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from rulefield.data.source import Source
from rulefield.encode.formats.base import bad_record
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

Element = ElementTree.Element
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_tree(source: Source) -> Element:
    """Return the root of a file; entities and outside references are refused."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        with source.open() as file:
            root: Element = fromstring(file.read(), forbid_dtd=False)
    except ParseError as error:
        raise bad_record(source.place, f"is not XML: {error}.") from None
    except DefusedXmlException as error:
        raise bad_record(
            source.place, f"holds an entity or an outside reference, which are refused ({error})."
        ) from None
    return root


def write_tree(root: Element, path: str) -> None:
    """Write a tree; its own namespace needs no prefix."""
    space = root.tag[1:].partition("}")[0] if root.tag.startswith("{") else None
    if space:
        ElementTree.register_namespace("", space)
    with whole_file(path, text=True) as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write(ElementTree.tostring(root, encoding="unicode") + "\n")


def local(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def found(element: Element, *names: str) -> Iterator[Element]:
    """Yield the elements below (and this one) with one of these names, in order."""
    for one in element.iter():
        if isinstance(one.tag, str) and local(one) in names:
            yield one


def attribute(element: Element, name: str, place: str) -> float:
    """Return a number that an element must have."""
    try:
        return float(element.get(name, ""))
    except ValueError:
        raise bad_record(place, f"<{local(element)} {name}={element.get(name)!r:.40}> must be a number.") from None


def checked_label(label: Any) -> str:
    """Return a label that an attribute of XML can hold."""
    text = str(label)
    if _FORBIDDEN.search(text):
        raise InputError(f"XML cannot hold the label {text!r:.60}; rename it, or choose JSON.")
    return text
