"""Untrusted XML: read without entities or outside references; which characters it can hold."""

import re
from xml.etree import ElementTree

from rulefield.encode.formats.base import bad_record

Element = ElementTree.Element
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_root(text: str | bytes, place: str) -> Element:
    """Return the root of a file's content; entities and outside references are refused."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        return fromstring(text, forbid_dtd=False)
    except ParseError as error:
        raise bad_record(place, f"is not XML: {error}{_near(text, error.position)}.") from None
    except LookupError as error:
        raise bad_record(place, f"is not XML: {error}.") from None
    except DefusedXmlException as error:
        raise bad_record(place, f"holds an entity or an outside reference, which are refused ({error}).") from None


def _near(text: str | bytes, position: tuple[int, int]) -> str:
    """Quote what stands around a place (line from 1, column) of a text, if anything does."""
    line, column = position
    lines = (text.decode("utf-8", "replace") if isinstance(text, bytes) else text).split("\n")
    around = lines[line - 1][max(0, column - 30) : column + 30].strip() if 0 < line <= len(lines) else ""
    return f", near {around!r}" if around else ""
