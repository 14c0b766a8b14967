"""doccano: JSON lines ``{"id": 1, "text": "...", "label": [[start, end, name], ...]}``."""

from collections.abc import Iterator
from typing import Any

from rulefield.data.documents import Document, Origin, TextSpan
from rulefield.data.source import Source
from rulefield.encode.formats.base import (
    Format,
    as_name,
    bad_record,
    document,
    json_lines,
    json_records,
    own_record,
    span_of,
    text_of,
    with_extra,
    with_new,
)

NAME = "doccano"
_KEYS = ("label", "labels", "entities")
_OWN = ("id", "text", *_KEYS)


def recognizes(record: Any) -> bool:
    """``text`` beside a list of triples or of entities, or alone: not labeled yet."""
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        return False
    return all(isinstance(record[key], list) for key in _KEYS if key in record)


def read(source: Source) -> Iterator[Document]:
    """Yield the documents of an export (also with ``entities``, as exports with relations have)."""
    for place, record in json_records(source):
        if not isinstance(record, dict):
            raise bad_record(place, f"must be an object; got {record!r:.60}.")
        key = next((k for k in _KEYS if k in record), None)
        marks = None if key is None else record[key]
        if marks is not None and not isinstance(marks, list):
            raise bad_record(place, f'field "{key}" must be a list; got {marks!r:.60}.')
        extra = {k: v for k, v in record.items() if k not in _OWN}
        spans = None if marks is None else [_span(mark, f'{place}, field "{key}"') for mark in marks]
        text = text_of(record, "text", place)
        origin = Origin(NAME, record, key or _KEYS[0])
        yield document(place, text, spans, name=as_name(record.get("id")), extra=extra, origin=origin)


def _span(mark: Any, place: str) -> TextSpan:
    if isinstance(mark, dict):
        return span_of(mark.get("start_offset"), mark.get("end_offset"), mark.get("label"), place)
    if isinstance(mark, list) and len(mark) == 3:
        return span_of(mark[0], mark[1], mark[2], place)
    raise bad_record(place, f"a span is [start, end, label]; got {mark!r:.60}.")


def _as_record(doc: Document) -> dict[str, Any]:
    own = own_record(doc, NAME)
    if own is not None:
        key = doc.origin.field if doc.origin else _KEYS[0]
        marks = doc.spans or ()
        made = (
            [_entity(i, span) for i, span in enumerate(marks)] if key == "entities" else [list(s[:3]) for s in marks]
        )
        return with_new(dict(own) if doc.spans is None else {**own, "text": doc.text, key: made}, doc)
    record: dict[str, Any] = {} if doc.name is None else {"id": doc.name}
    record["text"] = doc.text
    if doc.spans is not None:
        record["label"] = [list(span[:3]) for span in doc.spans]
    return with_extra(record, doc, _OWN)


def _entity(number: int, span: TextSpan) -> dict[str, Any]:
    return {"id": number, "label": span.label, "start_offset": span.start, "end_offset": span.end}


FORMAT = Format(NAME, "doccano's JSON lines", (".jsonl", ".json"), read, json_lines(_as_record), recognizes)
