"""Hugging Face data sets: JSON lines with ``tokens`` and ``ner_tags``, numbers (with names beside them) or strings."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rulefield.data.documents import Document, joined
from rulefield.data.source import STANDARD, Source
from rulefield.encode.alignment import spans_of, tagged
from rulefield.encode.formats.base import Format, as_name, bad_record, compact, document, json_records
from rulefield.outputs import whole_file

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
        yield document(place, text, spans, tokens=places, name=as_name(record.get("id")))


def _tag_names(tags: Any, names: Sequence[str] | None, place: str) -> list[str]:
    if not isinstance(tags, list):
        raise bad_record(place, f"must be a list; got {tags!r:.60}.")
    if all(isinstance(tag, str) for tag in tags):
        return tags
    if names is None:
        raise bad_record(place, "tags are numbers; give their names in order (--names O,B-PER,I-PER).")
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


def write(documents: Iterable[Document], path: str) -> None:
    """Write ``tokens`` and ``ner_tags`` as strings (``datasets`` turns them into classes by ``ClassLabel``)."""
    with whole_file(path, text=True) as file:
        for doc in documents:
            words, tags = tagged(doc, "BIO")
            record: dict[str, Any] = {} if doc.name is None else {"id": doc.name}
            record["tokens"] = words
            if tags is not None:
                record["ner_tags"] = tags
            file.write(compact(record) + "\n")


FORMAT = Format(
    "hugging-face", "tokens and ner_tags, as Hugging Face has them", (".jsonl", ".json"), read, write, recognizes
)
