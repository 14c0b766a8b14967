"""Inline XML, as parserator, AnyStyle and GROBID train on: an element per text, an element per labeled span inside it."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree

from rulefield.data.documents import Document, TextSpan
from rulefield.data.source import Source
from rulefield.encode.formats.base import Format, bad_record, document
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

Element = ElementTree.Element
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
TRAILING = ",;"
_ROOT = "texts"
_SPAN = "span"  # <span label="..."> stands for a label that is no XML name


def read(source: Source) -> Iterator[Document]:
    """Yield one document per child of the root; elements inside it are spans, and may nest. Entities are refused.

    If each element holds one word, as in parserator's files, neighbors of one label are one span (the option ``apart``
    keeps them apart).
    """
    root = xml_root(source.text().encode("utf-8"), source.place)
    found = [
        _marked_text(record, f"{source.place}, element {i} (<{record.tag}>)") for i, record in enumerate(root, 1)
    ]
    join = root.tag != _ROOT and not source.options.get("apart") and all(_are_words(*pair) for pair in found)
    for number, (record, (text, spans)) in enumerate(zip(root, found), 1):
        place = f"{source.place}, element {number} (<{record.tag}>)"
        spans = joined_neighbors(text, spans) if join else spans
        annotated = spans or record.get("labeled") != "no"
        extra = {} if record.tag == "text" else {"tag": record.tag}
        yield document(place, text, spans if annotated else None, name=record.get("id"), extra=extra)


def _marked_text(record: Any, place: str) -> tuple[str, list[TextSpan]]:
    """Return the text of an element and the spans of the elements inside it."""
    pieces: list[str] = []
    spans: list[TextSpan] = []
    try:
        _walk(record, 0, pieces, spans)
    except RecursionError:
        raise bad_record(place, "elements are nested too deeply.") from None
    return "".join(pieces), spans


def _are_words(text: str, spans: list[TextSpan]) -> bool:
    """Whether each span holds one word, or none."""
    return all(len(text[span.start : span.end].split()) < 2 for span in spans)


def joined_neighbors(text: str, spans: list[TextSpan]) -> list[TextSpan]:
    """Return spans without punctuation at their ends, and neighbors of one label, which blanks alone part, as one.

    Files of parserator have an element for each word, with the comma that follows it: ``<City>Los</City>
    <City>Angeles,</City>`` is the city "Los Angeles".
    """
    made: list[TextSpan] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        last = next((i for i in range(len(made) - 1, -1, -1) if made[i].end <= span.start), None)
        if last is not None and made[last].label == span.label and not text[made[last].end : span.start].strip():
            made[last] = made[last]._replace(end=span.end)
        else:
            made.append(span)
    return [_without_comma(text, span) for span in made]


def _without_comma(text: str, span: TextSpan) -> TextSpan:
    end = span.end
    while end > span.start + 1 and (text[end - 1] in TRAILING or text[end - 1].isspace()):
        end -= 1
    return span._replace(end=end)


def _walk(element: Any, at: int, pieces: list[str], spans: list[TextSpan]) -> int:
    """Add the pieces of an element's text, which begins ``at`` this character, and its spans; return where it ends."""
    pieces.append(element.text or "")
    end = at + len(pieces[-1])
    for child in element:
        start = end
        end = _walk(child, start, pieces, spans)
        label = child.get("label") if child.tag == _SPAN and child.get("label") else child.tag
        if end > start:
            spans.append(TextSpan(start, end, str(label)))
        pieces.append(child.tail or "")
        end += len(pieces[-1])
    return end


def write(documents: Iterable[Document], path: str) -> None:
    """Write ``<texts><text>...</text></texts>``; spans that cross, and characters that XML cannot hold, are refused."""
    with whole_file(path, text=True) as file:
        file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<{_ROOT}>\n')
        for doc in documents:
            tag = str(doc.extra.get("tag", "text"))
            tag = tag if _NAME.fullmatch(tag) else "text"
            name = "" if doc.name is None else f" id={_attribute(doc.name)}"
            state = ' labeled="no"' if doc.spans is None else ""
            file.write(f"<{tag}{name}{state}>{_marked(doc)}</{tag}>\n")
        file.write(f"</{_ROOT}>\n")


def _marked(doc: Document) -> str:
    opens: dict[int, list[TextSpan]] = {}
    closing: list[TextSpan] = []
    for span in sorted(doc.spans or (), key=lambda s: (s.start, -s.end)):
        while closing and closing[-1].end <= span.start:
            closing.pop()
        if closing and span.end > closing[-1].end:
            raise InputError(
                f"spans {closing[-1].label!r} and {span.label!r} of {doc.text!r:.60} cross, which XML cannot hold."
            )
        closing.append(span)
        opens.setdefault(span.start, []).append(span)
    return _tagged(doc.text, opens)


def _tagged(text: str, opens: dict[int, list[TextSpan]]) -> str:
    made: list[str] = []
    stack: list[TextSpan] = []
    edges = sorted({0, len(text), *opens, *(s.end for spans in opens.values() for s in spans)})
    for begin, end in zip(edges, [*edges[1:], len(text)]):
        while stack and stack[-1].end == begin:
            made.append(f"</{_tag(stack.pop().label)[0]}>")
        for span in opens.get(begin, ()):
            made.append(f"<{''.join(_tag(span.label))}>")
            stack.append(span)
        made.append(_escaped(text[begin:end]))
    made += [f"</{_tag(span.label)[0]}>" for span in reversed(stack)]
    return "".join(made)


def _tag(label: str) -> tuple[str, str]:
    """Element name and attributes of a label."""
    plain = _NAME.fullmatch(label) and label != _SPAN and not label.lower().startswith("xml")
    return (label, "") if plain else (_SPAN, f" label={_attribute(label)}")


def _escaped(text: str) -> str:
    if bad := FORBIDDEN.search(text):
        raise InputError(
            f"XML cannot hold the character U+{ord(bad.group()):04X} of {text!r:.60}; remove it or choose JSON."
        )
    from xml.sax.saxutils import escape  # loads the standard library's network modules

    return escape(text, {"\r": "&#13;"})


def _attribute(value: str) -> str:
    from xml.sax.saxutils import quoteattr

    _escaped(value)
    return quoteattr(value, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})


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


FORMAT = Format("xml", "inline XML: an element per text, an element per span", (".xml",), read, write)
