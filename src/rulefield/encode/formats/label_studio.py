"""Label Studio: a JSON list of tasks with annotations or predictions; the short export (JSON-MIN) is read too."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rulefield.data.documents import Document, Origin, TextSpan
from rulefield.data.limits import is_whole
from rulefield.data.source import Source
from rulefield.encode.formats.base import (
    Format,
    as_name,
    bad_record,
    document,
    json_records,
    own_record,
    span_of,
    text_of,
    with_extra,
)
from rulefield.outputs import whole_file

NAME = "label-studio"
FROM, TO = "label", "text"


def recognizes(record: Any) -> bool:
    """Tell a task with ``data``, or a short record whose labels are objects with ``labels``."""
    if not isinstance(record, dict):
        return False
    return isinstance(record.get("data"), dict) or _is_short(record)


def _is_short(record: Mapping[str, Any]) -> bool:
    marks = record.get("label")
    return isinstance(marks, list) and bool(marks) and isinstance(marks[0], dict) and "labels" in marks[0]


def read(source: Source) -> Iterator[Document]:
    """Yield the documents. The newest annotation that was not cancelled counts; predictions where there is none.

    The text is the field that the option ``text`` names, "text" where a task has it, or its only string.
    """
    for place, record in json_records(source):
        if not isinstance(record, dict):
            raise bad_record(place, f"must be an object; got {record!r:.60}.")
        yield _short(record, place) if "data" not in record else _task(record, place, source.options.get("text"))


def _short(record: Mapping[str, Any], place: str) -> Document:
    marks = record.get("label")
    if marks is not None and not isinstance(marks, list):
        raise bad_record(place, f'field "label" must be a list; got {marks!r:.60}.')
    spans = None if marks is None else [s for m in marks for s in _spans(m, None, place)]
    return document(place, text_of(record, "text", place), spans, name=as_name(record.get("id")))


def _task(task: Mapping[str, Any], place: str, key: str | None) -> Document:
    data = task["data"]
    if not isinstance(data, dict):
        raise bad_record(place, f'field "data" must be an object; got {data!r:.60}.')
    field = key or _text_field(data, place)
    results = _results(task, place)
    spans = None if results is None else [s for r in results for s in _result_spans(r, place)]
    extra = {k: v for k, v in data.items() if k != field}
    origin = Origin(NAME, task, field)
    return document(
        place, text_of(data, field, place), spans, name=as_name(task.get("id")), extra=extra, origin=origin
    )


def _text_field(data: Mapping[str, Any], place: str) -> str:
    if "text" in data:
        return "text"
    strings = [key for key, value in data.items() if isinstance(value, str)]
    if len(strings) != 1:
        raise bad_record(
            place, f'field "data" has no "text" and {len(strings)} strings; name the text\'s field (--text).'
        )
    return strings[0]


def _results(task: Mapping[str, Any], place: str) -> list[Any] | None:
    done = _objects(task, "annotations", place) or _objects(task, "completions", place)
    done = [a for a in done if not a.get("was_cancelled")]
    chosen = done or _objects(task, "predictions", place)
    if not chosen:
        return None
    results = chosen[-1].get("result")
    if not isinstance(results, list):
        raise bad_record(place, f'field "result" must be a list; got {results!r:.60}.')
    return results


def _objects(task: Mapping[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    found = task.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise bad_record(place, f'field "{key}" must be a list of objects; got {found!r:.60}.')
    return found


def _result_spans(result: Any, place: str) -> list[TextSpan]:
    if not isinstance(result, dict) or not isinstance(result.get("value"), dict):
        raise bad_record(place, f'a result must be an object with "value"; got {result!r:.60}.')
    if result.get("type", "labels") not in ("labels", "hypertextlabels"):
        return []  # choices, ratings and relations are no spans
    return _spans(result["value"], result.get("score"), place)


def _spans(value: Any, score: Any, place: str) -> list[TextSpan]:
    labels = value.get("labels") or value.get("hypertextlabels") if isinstance(value, dict) else None
    if not isinstance(labels, list) or not labels:
        raise bad_record(place, f'a span must have a list "labels"; got {value!r:.60}.')
    return [span_of(value.get("start"), value.get("end"), label, place, score) for label in labels]


def write(documents: Iterable[Document], path: str) -> None:
    """Write tasks: spans with scores as predictions (for pre-annotation), others as annotations."""
    tasks = [_as_task(doc) for doc in documents]
    with whole_file(path, text=True) as file:
        json.dump(tasks, file, ensure_ascii=True, indent=1)


def _as_task(doc: Document) -> dict[str, Any]:
    own = own_record(doc, NAME)
    if own is not None and doc.origin is not None:
        task = {**own, "data": with_extra({**own["data"], doc.origin.field: doc.text}, doc)}
        names = _names_of(own, doc.origin.field)
        if not _is_predicted(doc) and _task(own, "", doc.origin.field).spans == doc.spans:
            return task
    else:
        task = {} if doc.name is None else {"id": int(doc.name) if is_whole(doc.name) else doc.name}
        task["data"] = {**doc.extra, "text": doc.text}
        names = (FROM, TO)
    if doc.spans is None:
        return task
    results = [_as_result(doc.text, i, span, names) for i, span in enumerate(doc.spans)]
    if not _is_predicted(doc):
        return {**task, "annotations": [{"result": results}]}
    score = min([span.score for span in doc.spans if span.score is not None], default=1.0)
    made = {"model_version": "rulefield", "score": score if doc.score is None else doc.score, "result": results}
    return {**task, "predictions": [made]}


def _is_predicted(doc: Document) -> bool:
    return doc.score is not None or any(span.score is not None for span in doc.spans or ())


def _names_of(task: Mapping[str, Any], field: str) -> tuple[str, str]:
    """Return ``from_name`` and ``to_name`` of the project that a task belongs to, as its results show them."""
    for key in ("annotations", "completions", "predictions"):
        for one in _objects(task, key, ""):
            for result in one.get("result") or ():
                if isinstance(result, dict) and result.get("type", "labels") in ("labels", "hypertextlabels"):
                    return str(result.get("from_name", FROM)), str(result.get("to_name", TO))
    return FROM, TO if field == "text" else field


def _as_result(text: str, number: int, span: TextSpan, names: tuple[str, str]) -> dict[str, Any]:
    value = {"start": span.start, "end": span.end, "text": text[span.start : span.end], "labels": [span.label]}
    result = {"id": f"span{number}", "from_name": names[0], "to_name": names[1], "type": "labels", "value": value}
    return result if span.score is None else {**result, "score": span.score}


FORMAT = Format(NAME, "Label Studio's tasks", (".json",), read, write, recognizes)
