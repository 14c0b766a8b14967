"""Files as they are: formats of annotation tools, one file per format, found by name and content."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rulefield.data.documents import Document
from rulefield.data.source import STANDARD, Source
from rulefield.encode.formats import brat, columns, conllu, inline_xml, label_studio, tables
from rulefield.encode.formats.base import Format, json_records
from rulefield.encode.formats.json_lines import DOCCANO_FORMAT, PRODIGY_FORMAT
from rulefield.exceptions import InputError

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        label_studio.FORMAT,
        PRODIGY_FORMAT,
        DOCCANO_FORMAT,
        inline_xml.FORMAT,
        brat.FORMAT,
        conllu.FORMAT,
        tables.FORMAT,
        columns.FORMAT,
    )
}
_JSON = (".json", ".jsonl", ".ndjson")


def find_format(source: Source, name: str = "auto") -> Format:
    """Format of a file: as asked for, by its name, or by its first record.

    Raises
    ------
    InputError
        No format fits; the message lists them.
    """
    if name != "auto":
        if name not in FORMATS:
            raise InputError(f"format must be auto or one of {', '.join(FORMATS)}; got {name!r}.")
        return FORMATS[name]
    path = source.path.lower().removesuffix(".gz")
    if Path(source.path).is_dir():
        return FORMATS["brat"]
    if path.endswith(_JSON):
        return _json_format(source)
    if tables.suffix_is_table(path) and not path.endswith((".tsv", ".tab")):
        return FORMATS["table"]
    if path.endswith((".tsv", ".tab")):
        return FORMATS["table"] if _has_header(source) else FORMATS["columns"]
    by_name = [form for form in FORMATS.values() if path.endswith(form.suffixes)]
    return by_name[0] if by_name else FORMATS["columns"]


def _has_header(source: Source) -> bool:
    """Whether the first line of a .tsv names a column of texts (else it is a token and its label)."""
    column = source.options.get("column", tables.TEXT)
    first = next(source.lines(), (1, ""))[1]
    return column in first.split("\t")


def _json_format(source: Source) -> Format:
    place, record = next(json_records(source), ("", None))
    for form in FORMATS.values():
        if form.recognizes(record):
            return form
    if record is None:
        raise InputError(f"{source.place} is empty: it holds no record.")
    raise InputError(
        f"{source.place} is JSON of no known form (first record: {record!r:.80}); known are Label Studio, Prodigy "
        f"and doccano; name one with --format."
    )


def read_documents(
    path: str | Path, format: str = "auto", *, encoding: str = "utf-8-sig", **options: Any
) -> Iterator[Document]:
    """Yield the documents of a file, one at a time where the format allows it.

    Parameters
    ----------
    path : path
        ``-`` is standard input (name its format).
    format : str
        One of :data:`FORMATS`, or "auto".
    encoding : str
    **options
        ``column``: of a table or of CoNLL-U; ``text``: Label Studio's field of the text; ``scheme``: of token labels.
    """
    source = Source(str(path), encoding, {key: value for key, value in options.items() if value is not None})
    if source.path == STANDARD and format == "auto":
        raise InputError(f"standard input has no name to tell its format by; give --format ({', '.join(FORMATS)}).")
    return find_format(source, format).read(source)


def write_documents(documents: Iterable[Document], path: str | Path, format: str = "auto") -> None:
    """Write documents; the format is taken from the file's name, if it can be; .gz packs it."""
    format_to_write(str(path), format).write(documents, str(path))


def format_to_write(path: str, name: str = "auto") -> Format:
    """Format of a file to be written: as asked for, or by its name.

    Raises
    ------
    InputError
        The name fits several formats, or none.
    """
    name = _name_of_target(path) if name == "auto" else name
    if name not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}; got {name!r}.")
    return FORMATS[name]


def _name_of_target(path: str) -> str:
    lower = path.lower().removesuffix(".gz")
    if lower.endswith(_JSON):
        raise InputError(f"{path!r} could be one of several JSON forms; name one: label-studio, prodigy, doccano.")
    suffix = Path(lower).suffix
    if suffix in (".parquet", ".pq") and path.lower().endswith(".gz"):
        raise InputError(f"{suffix} files are packed already; leave .gz out of {path!r}.")
    if suffix == ".ann":
        raise InputError(
            f"brat keeps texts and labels in a folder of files; give the name of a folder, not {path!r}."
        )
    if not suffix:
        return "brat"
    if tables.suffix_is_table(lower):
        return "table"
    found = next((form.name for form in FORMATS.values() if suffix in form.suffixes), None)
    if found is None:
        raise InputError(f"{path!r} does not tell its format; name one with --to: {', '.join(FORMATS)}.")
    return found
