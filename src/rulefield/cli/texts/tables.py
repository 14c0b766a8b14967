"""Tables that are written portion by portion: CSV, TSV, JSON lines, Parquet and Excel."""

import csv
from collections.abc import Callable
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


def table_writer(file: Any, target: str) -> Callable[[Rows], None]:
    """Return what writes rows, all with the same columns, in the form that the name of the target says; [] ends it."""
    from rulefield.encode.formats.base import compact
    from rulefield.encode.formats.tables import separator_of, suffix_is_table

    if is_parquet(target):
        return _parquet_writer(file, target)
    if is_excel(target):
        return _excel_writer(file)
    if target.lower().removesuffix(".gz").endswith(_JSON):
        return lambda rows: file.writelines(compact(row) + "\n" for row in rows)
    if not suffix_is_table(target):
        raise InputError(
            f"a parsed table is written as .csv, .tsv, .jsonl, .parquet or .xlsx; got {target!r} (name one with -o)."
        )
    writer = csv.writer(file, delimiter=separator_of(target), lineterminator="\n")
    begun = False

    def write(rows: Rows) -> None:
        nonlocal begun
        if rows and not begun:
            writer.writerow(list(rows[0]))
            begun = True
        writer.writerows([_written(value) for value in row.values()] for row in rows)

    return write


def _written(value: Any) -> Any:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def _parquet_writer(file: Any, target: str) -> Callable[[Rows], None]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install pyarrow.") from None
    if not hasattr(file, "mode") and not hasattr(file, "write"):
        raise InputError(f"Parquet is written to a file; name one with -o, not {target!r}.")
    opened: list[Any] = []

    def write(rows: Rows) -> None:
        if not rows:
            for writer in opened:
                writer.close()
            return
        table = pyarrow.Table.from_pylist(rows, schema=_schema(pyarrow, rows) if not opened else opened[0].schema)
        if not opened:
            opened.append(parquet.ParquetWriter(file, table.schema))
        opened[0].write_table(table)

    return write


def _excel_writer(file: Any) -> Callable[[Rows], None]:
    try:
        from openpyxl import Workbook
    except ImportError:
        raise InputError("writing .xlsx needs openpyxl: pip install openpyxl.") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("parsed")
    begun = False

    def write(rows: Rows) -> None:
        nonlocal begun
        if not rows:
            book.save(file)
            return
        if not begun:
            sheet.append(list(rows[0]))
            begun = True
        for row in rows:
            sheet.append([_cell(value) for value in row.values()])

    return write


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
