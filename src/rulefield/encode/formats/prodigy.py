"""Prodigy and spaCy: JSON lines ``{"text": "...", "spans": [{"start": 0, "end": 5, "label": "X"}], "tokens": [...]}``."""

from collections.abc import Iterator
from typing import Any

from rulefield.data.documents import Document, Origin
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

NAME = "prodigy"
_KNOWN = ("text", "spans", "tokens", "id")


def recognizes(record: Any) -> bool:
    """``text`` beside a list of span objects."""
    return isinstance(record, dict) and "text" in record and isinstance(record.get("spans"), list)


def read(source: Source) -> Iterator[Document]:
    """Yield the documents; answers other than "accept" are annotated with nothing we may trust, so they have no spans."""
    for place, record in json_records(source):
        if not isinstance(record, dict):
            raise bad_record(place, f"must be an object; got {record!r:.60}.")
        marks = record.get("spans")
        if marks is not None and not (isinstance(marks, list) and all(isinstance(mark, dict) for mark in marks)):
            raise bad_record(place, f'field "spans" must be a list of objects; got {marks!r:.60}.')
        trusted = marks is not None and record.get("answer", "accept") == "accept"
        where = f'{place}, field "spans"'
        spans = (
            [span_of(m.get("start"), m.get("end"), m.get("label"), where, m.get("score")) for m in marks or ()]
            if trusted
            else None
        )
        extra = {k: v for k, v in record.items() if k not in _KNOWN}
        origin = Origin(NAME, record)
        text, tokens = text_of(record, "text", place), _tokens(record.get("tokens"), place)
        yield document(place, text, spans, tokens=tokens, name=as_name(record.get("id")), extra=extra, origin=origin)


def _tokens(tokens: Any, place: str) -> tuple[tuple[int, int], ...] | None:
    if tokens is None:
        return None
    made: list[tuple[int, int]] = []
    for token in tokens if isinstance(tokens, list) else [None]:
        if not isinstance(token, dict) or type(token.get("start")) is not int or type(token.get("end")) is not int:
            raise bad_record(place, 'field "tokens" must be a list of objects with whole numbers "start" and "end".')
        made.append((token["start"], token["end"]))
    return tuple(made)


def _as_record(doc: Document) -> dict[str, Any]:
    own = own_record(doc, NAME)
    marks = {} if doc.spans is None else {"spans": [_mark(*span) for span in doc.spans]}
    if own is not None:
        return with_new({**own, "text": doc.text, **marks}, doc)
    record: dict[str, Any] = {} if doc.name is None else {"id": doc.name}
    record["text"] = doc.text
    if doc.tokens is not None:
        places = enumerate(doc.tokens)
        record["tokens"] = [{"text": doc.text[a:b], "start": a, "end": b, "id": i} for i, (a, b) in places]
    return with_extra({**record, **marks}, doc, _KNOWN)


def _mark(start: int, end: int, label: str, score: float | None) -> dict[str, Any]:
    mark = {"start": start, "end": end, "label": label}
    return mark if score is None else {**mark, "score": score}


FORMAT = Format(
    NAME, "Prodigy's and spaCy's JSON lines", (".jsonl", ".json"), read, json_lines(_as_record), recognizes
)
