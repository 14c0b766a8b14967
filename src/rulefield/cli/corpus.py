"""Sequences in files: CoNLL columns and JSON lines, in and out."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulefield.data.plain_json import read_json
from rulefield.data.source import STANDARD, Source
from rulefield.encode.formats.base import compact
from rulefield.encode.formats.columns import ColumnFile
from rulefield.exceptions import InputError
from rulefield.outputs import check_output, whole_file

JSON_NAMES = (".jsonl", ".json", ".ndjson")


def counted(n: int, one: str, many: str | None = None) -> str:
    """Write a number of things as people do: 1 label, 2 labels, 2 boxes."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def say(sentence: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(sentence + "\n")


def progress(quiet: bool) -> int:
    """Return the ``verbose`` of an estimator: 1 (a progress bar) if stderr is a terminal."""
    return int(not quiet and sys.stderr.isatty())


@dataclass(frozen=True)
class FileContents:
    """What a file holds: tokens as a model is given them (strings, tuples of columns, or features), and labels.

    ``records`` are the file's own rows of columns or objects of JSON lines (``form``), to be written back with more in them.
    """

    tokens: list[Any]
    labels: list[Any] | None
    records: list[Any]
    form: str
    separator: str = " "


def form_of(path: str, form: str = "auto") -> str:
    """Format of a file: as asked for, or by its name."""
    if form in ("columns", "jsonl"):
        return form
    if form != "auto":
        raise InputError(f"--format must be auto, columns or jsonl; got {form!r}.")
    return "jsonl" if path.removesuffix(".gz").endswith(JSON_NAMES) else "columns"


def read_corpus(
    path: str, form: str = "auto", *, labeled: bool, unknown: str | None = None, encoding: str = "utf-8-sig"
) -> FileContents:
    """Read a file, or standard input where ``path`` is ``-``.

    ``labeled`` asks for labels: the last column, or the key ``labels``; ``unknown`` is the label that means "not known".
    """
    source = Source(path, encoding)
    read = _read_jsonl if form_of(path, form) == "jsonl" else _read_columns
    corpus = read(source, labeled)
    if not corpus.tokens:
        raise InputError(f"{source.place} holds no sequence.")
    if unknown is None or corpus.labels is None:
        return corpus
    labels = [[None if label == unknown else label for label in sequence] for sequence in corpus.labels]
    return FileContents(corpus.tokens, labels, corpus.records, corpus.form, corpus.separator)


def _read_columns(source: Source, labeled: bool) -> FileContents:
    columns = ColumnFile(source)
    blocks = [rows for _, rows in columns]
    if labeled and blocks and len(blocks[0][0]) < 2:
        raise InputError(f"{source.place} has one column; a labeled file has the token first and its label last.")
    tokens = [[_token(row[:-1] if labeled else row) for row in block] for block in blocks]
    labels = [[row[-1] for row in block] for block in blocks] if labeled else None
    _refuse_misread(source, labels or [])
    return FileContents(tokens, labels, blocks, "columns", columns.separator)


MOST_LABELS = 200
"""A file with more labels than this, most of them used once, is no file of tokens and labels."""


def _refuse_misread(source: Source, labels: list[list[str]]) -> None:
    """Refuse a file that is not one token per line: a sentence and its labels on each, texts in columns, numbers.

    Most labels hold a blank, or there are more than :data:`MOST_LABELS`, used less than twice on average.
    """
    seen = [label for row in labels for label in row]
    kinds = set(seen)
    several = sum(" " in label.strip() for label in seen)
    if 2 * several <= len(seen) and (len(kinds) <= MOST_LABELS or 2 * len(kinds) < len(seen)):
        return
    raise InputError(
        f"{source.place} has {len(kinds)} different labels in its last column for {len(seen)} tokens "
        f"({seen[0][:40]!r} is the first); a column file has one token and its label per line and a blank line between "
        "sequences. If it holds a sentence per line, write each token on a line of its own; if it holds texts, name their "
        "format with --format."
    )


def _token(columns: Sequence[str]) -> Any:
    return columns[0] if len(columns) == 1 else tuple(columns)


def words(tokens: list[Any]) -> list[Any]:
    """Return the word of each token that has columns."""
    return [[token[0] if isinstance(token, tuple) else token for token in sequence] for sequence in tokens]


def _read_jsonl(source: Source, labeled: bool) -> FileContents:
    tokens: list[Any] = []
    labels: list[Any] = []
    records: list[Any] = []
    for number, line in source.lines():
        if not line.strip():
            continue
        record = _record(line, f"{source.place}, line {number}", labeled)
        records.append(record)
        tokens.append(record["features"] if "features" in record else [_json_token(t) for t in record["tokens"]])
        labels.append(record.get("labels"))
        if labeled and len(labels[-1]) != len(tokens[-1]):
            raise InputError(f"{source.place}, line {number}: {len(tokens[-1])} tokens but {len(labels[-1])} labels.")
    return FileContents(tokens, labels if labeled else None, records, "jsonl")


def _record(line: str, place: str, labeled: bool) -> dict[str, Any]:
    try:
        record = read_json(line)
    except ValueError as error:
        raise InputError(f"{place} is not JSON that can be read ({error}): {line[:60]!r}.") from None
    if not isinstance(record, dict) or not isinstance(record.get("features", record.get("tokens")), list):
        raise InputError(f'{place} must be an object with a list "tokens" (or "features"); got {line[:60]!r}.')
    if labeled and not isinstance(record.get("labels"), list):
        raise InputError(f'{place} has no list "labels".')
    return record


def _json_token(token: Any) -> Any:
    """JSON has no tuples: a token that is a list is one with columns."""
    return tuple(token) if isinstance(token, list) else token


def with_labels(
    corpus: FileContents, labels: Iterable[Any], extra: Sequence[dict[str, Any]] | None = None
) -> Iterator[str]:
    """Lines of the file with predicted labels: more columns, or the key ``labels`` (old ones under ``gold``).

    ``labels`` holds a list for each sequence, or a dict of task to list: then there is a column for each task.
    """
    for i, (record, predicted) in enumerate(zip(corpus.records, labels)):
        more = extra[i] if extra else {}
        if corpus.form == "jsonl":
            old = {"gold": record["labels"]} if "labels" in record else {}
            yield compact({**record, **old, "labels": predicted, **more})
            continue
        columns = [map(str, column) for column in _columns(predicted)]
        chances = [(f"{p:.4f}" for p in column) for column in _columns(more.get("probabilities", {}))]
        for row, *new in zip(record, *columns, *chances):
            yield corpus.separator.join([*row, *new])
        yield ""


def _columns(values: Any) -> list[Any]:
    return list(values.values()) if isinstance(values, dict) else [values]


def write_lines(path: str, lines: Iterable[str], inputs: Sequence[str] = ()) -> None:
    """Write lines to a file that appears when it is whole, or to standard output; inputs are never replaced."""
    if path == STANDARD:
        for line in lines:
            sys.stdout.write(line + "\n")
        return
    protect_inputs(path, inputs)
    with whole_file(path, text=True) as file:
        file.writelines(line + "\n" for line in lines)


def protect_inputs(path: str, inputs: Sequence[str]) -> None:
    """Refuse an output that is one of the inputs, or that cannot be written: before any work begins."""
    if path != STANDARD:
        check_output(path)
    for name in inputs:
        if name != STANDARD and Path(path).resolve() == Path(name).resolve():
            raise InputError(f"the output {path!r} is also an input; give another name.")
