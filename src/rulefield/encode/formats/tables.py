"""Tables: CSV, TSV and Parquet with a column of texts and, if it is annotated, a column ``spans`` of JSON triples."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from rulefield.data.documents import Document, Origin
from rulefield.data.source import Source
from rulefield.encode.formats.base import (
    Format,
    as_name,
    bad_record,
    document,
    own_record,
    parsed,
    span_of,
    with_extra,
)
from rulefield.exceptions import InputError
from rulefield.outputs import check_output, whole_file

TEXT, SPANS, NAME = "text", "spans", "id"
_LARGEST_CELL = 2**31 - 1


def is_parquet(path: str) -> bool:
    """Whether a file name says Parquet."""
    return path.lower().endswith((".parquet", ".pq"))


def separator_of(path: str) -> str:
    """Return the separator between the cells of a table, by its name."""
    return "\t" if path.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else ","


def _separator(path: str, header: str) -> str:
    """Return the separator of a table that is read: its header shows the semicolons of many countries' spreadsheets."""
    usual = separator_of(path)
    return ";" if usual == "," and "," not in header and ";" in header else usual


def rows_of(source: Source) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (place, row) of a table; rows are dicts by column name. CSV is read row by row."""
    if is_parquet(source.path):
        yield from _parquet_rows(source)
        return
    csv.field_size_limit(_LARGEST_CELL)
    with io.TextIOWrapper(source.open(), encoding=source.encoding, newline="") as file:
        try:
            yield from _csv_rows(source, file)
        except UnicodeDecodeError as error:
            raise source.unreadable(error) from None


def _csv_rows(source: Source, file: io.TextIOWrapper) -> Iterator[tuple[str, Mapping[str, Any]]]:
    header = file.readline()
    reader = csv.DictReader(chain([header], file), delimiter=_separator(source.path, header), strict=True)
    try:
        for row in reader:
            place = f"{source.place}, line {reader.line_num}"
            if None in row or None in row.values():
                raise bad_record(
                    place, f"has another number of cells than the {len(reader.fieldnames or ())} columns."
                )
            yield place, row
    except csv.Error as error:
        raise bad_record(f"{source.place}, line {reader.line_num}", f"is not a table: {error}.") from None


def _parquet_rows(source: Source) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parquet = _pyarrow_parquet()
    try:
        file = parquet.ParquetFile(source.path)
    except (OSError, ValueError) as error:
        raise InputError(f"{source.place} is not a Parquet file: {error}.") from None
    number = 0
    for batch in file.iter_batches():
        for row in batch.to_pylist():
            number += 1
            yield f"{source.place}, row {number}", row


def _pyarrow_parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install pyarrow.") from None
    return parquet


def read(source: Source) -> Iterator[Document]:
    """Yield one document per row; the option ``column`` names the column of texts (default ``text``)."""
    column = source.options.get("column", TEXT)
    for place, row in rows_of(source):
        if column not in row:
            known = ", ".join(map(repr, row))
            raise bad_record(
                place, f"there is no column {column!r}; the columns are {known} (name one with --column)."
            )
        marks = row.get(SPANS)
        spans = None if marks in (None, "") else _spans(marks, f'{place}, column "{SPANS}"')
        extra = {k: v for k, v in row.items() if k not in (column, SPANS, NAME)}
        origin = Origin("table", row, column)
        yield document(
            place, row[column] or "", spans, name=as_name(row.get(NAME) or None), extra=extra, origin=origin
        )


def _spans(cell: Any, place: str) -> list[Any]:
    marks = parsed(cell, place) if isinstance(cell, str) else cell
    if not isinstance(marks, list):
        raise bad_record(place, f"must be a list of [start, end, label]; got {cell!r:.60}.")
    if not all(isinstance(mark, list) and len(mark) == 3 for mark in marks):
        raise bad_record(place, f"a span is [start, end, label]; got {cell!r:.60}.")
    return [span_of(mark[0], mark[1], mark[2], place) for mark in marks]


def write(documents: Iterable[Document], path: str) -> None:
    """Write ``id``, ``text``, ``spans`` and what the rows held besides."""
    rows = [_row(doc) for doc in documents]
    names = list(dict.fromkeys(name for row in rows for name in row)) or [TEXT]
    if is_parquet(path):
        _write_parquet(rows, names, path)
        return
    with whole_file(path, text=True) as file:
        writer = csv.writer(file, delimiter=separator_of(path), lineterminator="\r\n")
        writer.writerow(names)
        writer.writerows([row.get(name, "") for name in names] for row in rows)


def _row(doc: Document) -> dict[str, Any]:
    own = own_record(doc, "table")
    if own is not None and doc.origin is not None:
        spans = {} if doc.spans is None else {SPANS: _written(doc)}
        return with_extra({**own, doc.origin.field: doc.text, **spans}, doc)
    row: dict[str, Any] = {} if doc.name is None else {NAME: doc.name}
    row[TEXT] = doc.text
    if doc.spans is not None:
        row[SPANS] = _written(doc)
    return with_extra(row, doc, (TEXT, SPANS, NAME))


def _written(doc: Document) -> str:
    return json.dumps([[s.start, s.end, s.label] for s in doc.spans or ()], ensure_ascii=False)


def _write_parquet(rows: list[dict[str, Any]], names: list[str], path: str) -> None:
    parquet = _pyarrow_parquet()
    import pyarrow

    check_output(path)
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    with whole_file(path) as file:
        parquet.write_table(table, file)


def suffix_is_table(path: str) -> bool:
    """Whether a file name says that it is a table."""
    return Path(path.lower().removesuffix(".gz")).suffix in (".csv", ".tsv", ".tab", ".parquet", ".pq")


FORMAT = Format(
    "table", "CSV, TSV or Parquet: a column of texts, a column of spans", (".csv", ".tsv", ".parquet"), read, write
)
