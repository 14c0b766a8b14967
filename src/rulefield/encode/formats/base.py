"""What a file format of documents is: a name, a way to recognize it, a reader, a writer."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rulefield.data.documents import Document, TextSpan
from rulefield.data.limits import LARGEST_OUTPUT
from rulefield.data.source import STANDARD, Source
from rulefield.exceptions import InputError


@dataclass(frozen=True)
class Format:
    """One format.

    Parameters
    ----------
    name : str
        As in ``--format``.
    about : str
        One line for people.
    suffixes : tuple of str
        File names that end so may be of this format; the first is written.
    read : callable
        ``read(source)`` yields documents, one at a time where the format allows it.
    write : callable
        ``write(documents, path)``.
    recognizes : callable
        Whether the first record of a JSON file is one of this format's.
    """

    name: str
    about: str
    suffixes: tuple[str, ...]
    read: Callable[[Source], Iterator[Document]]
    write: Callable[[Iterable[Document], str], None]
    recognizes: Callable[[Any], bool] = lambda record: False


def bad_record(place: str, why: str) -> InputError:
    """Name the file, the record and the field of what is wrong; of "is ..." and the like, the place is the subject."""
    return InputError(f"{place} {why}" if why.startswith(("is ", "must ", "holds ")) else f"{place}: {why}")


def json_records(source: Source) -> Iterator[tuple[str, Any]]:
    """Yield (place, record) of a JSON list, of one object over several lines, or of one object per line."""
    for number, line in source.lines():
        text = line.strip()
        if not text:
            continue
        if number == 1 and text.startswith("["):
            yield from _list_records(source)
            return
        if number == 1 and text.startswith("{") and not text.endswith("}") and source.path != STANDARD:
            yield source.place, parsed(source.text(), source.place)
            return
        place = f"{source.place}, line {number}"
        yield place, parsed(line, place)


def _list_records(source: Source) -> Iterator[tuple[str, Any]]:
    records = parsed(source.text(), source.place)
    if not isinstance(records, list):
        raise bad_record(source.place, "must hold a list of records.")
    for number, record in enumerate(records, 1):
        yield f"{source.place}, record {number}", record


def parsed(text: str, place: str) -> Any:
    """Read JSON; what is wrong with it is reported in a sentence."""
    try:
        return json.loads(text)
    except RecursionError:
        raise bad_record(place, "JSON is nested too deeply.") from None
    except ValueError as error:
        raise bad_record(place, f"is not JSON ({error}): {text[:60]!r}.") from None


def text_of(record: Mapping[str, Any], key: str, place: str) -> str:
    """Return the text of a record."""
    if key not in record:
        known = ", ".join(map(repr, record)) or "none"
        raise bad_record(place, f"there is no field {key!r}; the fields are {known}.")
    text = record[key]
    if not isinstance(text, str):
        raise bad_record(place, f'field "{key}" must be a string; got {text!r:.60}.')
    return text


def span_of(start: Any, end: Any, label: Any, place: str, score: Any = None) -> TextSpan:
    """Check what a record says of one span."""
    if type(start) is not int or type(end) is not int:
        raise bad_record(place, f"a span must begin and end at whole numbers; got {start!r:.40} and {end!r:.40}.")
    if not isinstance(label, str) or not label:
        raise bad_record(place, f"the label of the span at {start} must be a string; got {label!r:.40}.")
    if score is not None and not (type(score) in (int, float) and abs(score) <= LARGEST_OUTPUT):
        raise bad_record(place, f"the score of the span at {start} must be a finite number; got {score!r:.40}.")
    return TextSpan(start, end, label, None if score is None else float(score))


def document(place: str, text: str, spans: Any, **more: Any) -> Document:
    """Make a document; spans that do not lie in its text are reported with their place."""
    try:
        return Document(text, None if spans is None else tuple(spans), **more)
    except InputError as error:
        raise bad_record(place, str(error)) from None


def as_name(value: Any) -> str | None:
    """Return what a record calls itself, as a string."""
    return None if value is None else str(value)


def with_extra(record: dict[str, Any], doc: Document, reserved: Iterable[str] = ()) -> dict[str, Any]:
    """Add what the document holds besides; names that the record has, or that the format reserves, are left out."""
    return record | {key: value for key, value in doc.extra.items() if key not in record and key not in reserved}


def own_record(doc: Document, form: str) -> Any:
    """Return the record of this format that a document was read from, or None."""
    return doc.origin.record if doc.origin is not None and doc.origin.form == form else None


def compact(record: Any) -> str:
    """One line of JSON, characters as they are (lone surrogates, which UTF-8 cannot hold, are escaped)."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(record)
    return line
