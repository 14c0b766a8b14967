"""Tables that are written portion by portion: CSV, TSV, JSON lines, Parquet and Excel."""

import csv
from collections.abc import Callable, Iterable
from typing import Any

from rulefield.exceptions import InputError

Rows = list[dict[str, Any]]
_JSON = (".jsonl", ".json", ".ndjson")


def is_parquet(path: str) -> bool:
    """Whether a file name says Parquet."""
    return path.lower().endswith((".parquet", ".pq"))


def is_excel(path: str) -> bool:
    """Whether a file name says Excel."""
    return path.lower().endswith(".xlsx")


def write_table(file: Any, target: str, portions: Iterable[Rows]) -> None:
    """Write portions of rows, all with the same columns, in the form that the name of the target says."""
    from rulefield.encode.formats.base import compact
    from rulefield.encode.formats.tables import separator_of, suffix_is_table

    if is_parquet(target):
        _write_parquet(file, portions)
    elif is_excel(target):
        _write_excel(file, portions)
    elif target.lower().removesuffix(".gz").endswith(_JSON):
        file.writelines(compact(row) + "\n" for rows in portions for row in rows)
    elif suffix_is_table(target):
        _write_cells(
            csv.writer(file, delimiter=separator_of(target), lineterminator="\n").writerow, _written, portions
        )
    else:
        raise InputError(
            f"a parsed table is written as .csv, .tsv, .jsonl, .parquet or .xlsx; got {target!r} (name one with -o)."
        )


def _write_cells(write: Callable[[list[Any]], Any], cell: Callable[[Any], Any], portions: Iterable[Rows]) -> None:
    """Write the names of the columns, then the cells of each row."""
    for number, rows in enumerate(portions):
        if number == 0:
            write(list(rows[0]))
        for row in rows:
            write([cell(value) for value in row.values()])


def _written(value: Any) -> Any:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def _write_parquet(file: Any, portions: Iterable[Rows]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install pyarrow.") from None
    writer = None
    for rows in portions:
        if writer is None:
            writer = parquet.ParquetWriter(file, _schema(pyarrow, rows))
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=writer.schema))
    if writer is not None:
        writer.close()


def _write_excel(file: Any, portions: Iterable[Rows]) -> None:
    try:
        from openpyxl import Workbook
    except ImportError:
        raise InputError("writing .xlsx needs openpyxl: pip install openpyxl.") from None
    book = Workbook(write_only=True)
    _write_cells(book.create_sheet("parsed").append, _cell, portions)
    book.save(file)


def _cell(value: Any) -> Any:
    """Return what a cell can hold: text without control characters, which Excel refuses; formulas as text."""
    if not isinstance(value, str):
        return value
    text = "".join(character for character in value if character >= " " or character in "\t\n\r")
    return f"'{text}" if text.startswith("=") else text


def _schema(pyarrow: Any, rows: Rows) -> Any:
    """Return a schema by the first rows; a column in which they hold nothing is one of strings."""
    inferred = pyarrow.Table.from_pylist(rows).schema
    text = [field.with_type(pyarrow.string()) if field.type == pyarrow.null() else field for field in inferred]
    return pyarrow.schema(
        [field.with_type(pyarrow.float64()) if field.name == "probability" else field for field in text]
    )
