"""JSON lines with a text and a list of its spans per record: doccano's, and those of Prodigy and spaCy.

doccano: ``{"id": 1, "text": "...", "label": [[start, end, name], ...]}``, or ``labels``, or ``entities`` as exports with
relations have them. Prodigy: ``{"text": "...", "spans": [{"start": 0, "end": 5, "label": "X"}], "tokens": [...]}``.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from rulefield.data.documents import Document, Origin, TextSpan
from rulefield.data.source import Source
from rulefield.encode.formats.base import (
    Format,
    as_name,
    bad_record,
    compact,
    document,
    json_records,
    own_record,
    span_of,
    text_of,
    with_extra,
)
from rulefield.outputs import whole_file

DOCCANO, PRODIGY = "doccano", "prodigy"
_KEYS = {DOCCANO: ("label", "labels", "entities"), PRODIGY: ("spans",)}
"""Fields that may hold the spans; the first is written."""
_OWN = {DOCCANO: ("id", "text", *_KEYS[DOCCANO]), PRODIGY: ("id", "text", "spans", "tokens")}


def _is_doccano(record: Any) -> bool:
    """``text`` beside a list of triples or of entities, or alone: not labeled yet."""
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        return False
    return all(isinstance(record[key], list) for key in _KEYS[DOCCANO] if key in record)


def _is_prodigy(record: Any) -> bool:
    """``text`` beside a list of span objects."""
    return isinstance(record, dict) and "text" in record and isinstance(record.get("spans"), list)


def _read(source: Source, form: str) -> Iterator[Document]:
    """Yield the documents; Prodigy's answers other than "accept" are annotated with nothing we may trust: no spans."""
    for place, record in json_records(source):
        if not isinstance(record, dict):
            raise bad_record(place, f"must be an object; got {record!r:.60}.")
        key = next((k for k in _KEYS[form] if k in record), _KEYS[form][0])
        marks = record.get(key)
        kind = dict if form == PRODIGY else list | dict
        if marks is not None and not (isinstance(marks, list) and all(isinstance(mark, kind) for mark in marks)):
            of_what = "objects" if form == PRODIGY else "spans"
            raise bad_record(place, f'field "{key}" must be a list of {of_what}; got {marks!r:.60}.')
        trusted = marks is not None and (form == DOCCANO or record.get("answer", "accept") == "accept")
        yield document(
            place,
            text_of(record, "text", place),
            [_span(mark, f'{place}, field "{key}"') for mark in marks or ()] if trusted else None,
            tokens=_tokens(record.get("tokens"), place) if form == PRODIGY else None,
            name=as_name(record.get("id")),
            extra={k: v for k, v in record.items() if k not in _OWN[form]},
            origin=Origin(form, record, key),
        )


def _span(mark: Any, place: str) -> TextSpan:
    if isinstance(mark, dict):
        start, end = (mark.get(f"{edge}_offset", mark.get(edge)) for edge in ("start", "end"))
        return span_of(start, end, mark.get("label"), place, mark.get("score"))
    if len(mark) != 3:
        raise bad_record(place, f"a span is [start, end, label]; got {mark!r:.60}.")
    return span_of(mark[0], mark[1], mark[2], place)


def _tokens(tokens: Any, place: str) -> tuple[tuple[int, int], ...] | None:
    if tokens is None:
        return None
    made: list[tuple[int, int]] = []
    for token in tokens if isinstance(tokens, list) else [None]:
        if not isinstance(token, dict) or type(token.get("start")) is not int or type(token.get("end")) is not int:
            raise bad_record(place, 'field "tokens" must be a list of objects with whole numbers "start" and "end".')
        made.append((token["start"], token["end"]))
    return tuple(made)


def _write(documents: Iterable[Document], path: str, form: str) -> None:
    with whole_file(path, text=True) as file:
        file.writelines(compact(_as_record(doc, form)) + "\n" for doc in documents)


def _as_record(doc: Document, form: str) -> dict[str, Any]:
    own = own_record(doc, form)
    key = doc.origin.field if own is not None and doc.origin is not None else _KEYS[form][0]
    marks = {} if doc.spans is None else {key: [_mark(i, span, key) for i, span in enumerate(doc.spans)]}
    if own is not None:
        return with_extra({**own, "text": doc.text, **marks}, doc)
    record: dict[str, Any] = {} if doc.name is None else {"id": doc.name}
    record["text"] = doc.text
    if form == PRODIGY and doc.tokens is not None:
        places = enumerate(doc.tokens)
        record["tokens"] = [{"text": doc.text[a:b], "start": a, "end": b, "id": i} for i, (a, b) in places]
    return with_extra({**record, **marks}, doc, _OWN[form])


def _mark(number: int, span: TextSpan, key: str) -> Any:
    if key == "entities":
        return {"id": number, "label": span.label, "start_offset": span.start, "end_offset": span.end}
    if key != "spans":
        return list(span[:3])
    mark = {"start": span.start, "end": span.end, "label": span.label}
    return mark if span.score is None else {**mark, "score": span.score}


def _format(form: str, about: str, recognizes: Any) -> Format:
    return Format(
        form,
        about,
        (".jsonl", ".json"),
        lambda source: _read(source, form),
        lambda documents, path: _write(documents, path, form),
        recognizes,
    )


DOCCANO_FORMAT = _format(DOCCANO, "doccano's JSON lines", _is_doccano)
PRODIGY_FORMAT = _format(PRODIGY, "Prodigy's and spaCy's JSON lines", _is_prodigy)
