"""Hugging Face data sets: JSON lines with ``tokens`` and ``ner_tags``, numbers (with names beside them) or strings."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rulefield.data.documents import Document, Origin, joined
from rulefield.data.source import STANDARD, Source
from rulefield.encode.alignment import labels_of_tokens, spans_of, tagged
from rulefield.encode.formats.base import (
    Format,
    as_name,
    bad_record,
    document,
    json_lines,
    json_records,
    own_record,
)

NAME = "hugging-face"
_KEYS = ("ner_tags", "tags", "labels")


def recognizes(record: Any) -> bool:
    """``tokens`` beside ``ner_tags`` (or ``tags``)."""
    return isinstance(record, dict) and isinstance(record.get("tokens"), list) and any(k in record for k in _KEYS[:2])


def read(source: Source) -> Iterator[Document]:
    """Yield the documents; the names of integer tags come from the option ``names`` or from ``dataset_info.json`` beside."""
    names = source.options.get("names") or _names_beside(source)
    for place, record in json_records(source):
        words = record.get("tokens") if isinstance(record, dict) else None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise bad_record(place, 'field "tokens" must be a list of strings.')
        key = next((k for k in _KEYS if k in record), None)
        text, places = joined(words)
        spans = None
        if key is not None:
            tags = _tag_names(record[key], names, f'{place}, field "{key}"')
            if len(tags) != len(words):
                raise bad_record(place, f"{len(words)} tokens but {len(tags)} tags.")
            spans = spans_of(tags, places, source.options.get("scheme", "auto"))
        origin = Origin(NAME, {**record, "names": names}, key or _KEYS[0])
        yield document(place, text, spans, tokens=places, name=as_name(record.get("id")), origin=origin)


def _tag_names(tags: Any, names: Sequence[str] | None, place: str) -> list[str]:
    if not isinstance(tags, list):
        raise bad_record(place, f"must be a list; got {tags!r:.60}.")
    if all(isinstance(tag, str) for tag in tags):
        return tags
    if names is None:
        raise bad_record(
            place, "tags are numbers; give their names in order: rulefield convert --names O,B-PER,I-PER."
        )
    if not all(isinstance(tag, int) and 0 <= tag < len(names) for tag in tags):
        raise bad_record(place, f"tags must be whole numbers from 0 to {len(names) - 1}; got {tags!r:.60}.")
    return [names[tag] for tag in tags]


def _names_beside(source: Source) -> list[str] | None:
    """Return the names that ``datasets`` keeps in ``dataset_info.json`` in the same folder."""
    info = Path(source.path).with_name("dataset_info.json")
    if source.path == STANDARD or not info.is_file():
        return None
    try:
        features = json.loads(info.read_text(encoding="utf-8"))["features"]
        feature = next(features[key] for key in _KEYS if key in features)
        return [str(name) for name in feature.get("feature", feature)["names"]]
    except (ValueError, KeyError, StopIteration, TypeError, AttributeError, RecursionError):
        return None


def _as_record(doc: Document) -> dict[str, Any]:
    own = own_record(doc, NAME)
    if own is not None and doc.origin is not None:
        record, names, key = dict(own), own["names"], doc.origin.field
        del record["names"]
        tags = labels_of_tokens(doc)
        return record if tags is None else {**record, key: _numbered(tags, names) if names else tags}
    words, tags = tagged(doc, "BIO")
    record = {} if doc.name is None else {"id": doc.name}
    record["tokens"] = words
    return record if tags is None else {**record, "ner_tags": tags}


def _numbered(tags: list[str], names: Sequence[str]) -> list[Any]:
    """Return the numbers of tags, if all have one."""
    number = {name: i for i, name in enumerate(names)}
    return [number[tag] for tag in tags] if all(tag in number for tag in tags) else tags


FORMAT = Format(
    NAME,
    "tokens and ner_tags, as Hugging Face has them",
    (".jsonl", ".json"),
    read,
    json_lines(_as_record),
    recognizes,
)
