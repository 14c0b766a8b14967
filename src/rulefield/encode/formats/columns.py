"""CoNLL columns: one token per line, its label last, a blank line between sequences."""

from collections.abc import Iterable, Iterator

from rulefield.data.documents import Document, joined
from rulefield.encode.alignment import spans_of, tagged
from rulefield.encode.formats.base import Format, bad_record, document
from rulefield.encode.formats.source import Source
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

DOCUMENT_START = "-DOCSTART-"


def column_blocks(source: Source) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield (first line, rows) of every sequence.

    Columns are separated by tabs where the first line has one (cells may then be empty or hold blanks), else by white
    space. ``-DOCSTART-`` lines and comments before a sequence (``# ...`` with another number of columns) are passed over.
    """
    block: list[list[str]] = []
    first = width = 0
    tabs: bool | None = None
    for number, line in source.lines():
        if not line.strip():
            if block:
                yield first, block
            block = []
            continue
        if line.startswith(DOCUMENT_START):
            continue
        tabs = "\t" in line if tabs is None else tabs
        row = line.split("\t") if tabs else line.split()
        if line.startswith("#") and len(row) != (width or 0) and not block:
            continue
        width = width or len(row)
        if len(row) != width:
            raise bad_record(
                f"{source.place}, line {number}", f"{len(row)} columns where the first has {width}: {line!r:.80}."
            )
        if not row[0]:
            raise bad_record(f"{source.place}, line {number}", f"the token (first column) is empty: {line!r:.80}.")
        first = first if block else number
        block.append(row)
    if block:
        yield first, block


def read(source: Source) -> Iterator[Document]:
    """Yield one document per sequence: tokens joined by blanks, labels (the last column) as spans."""
    for line, rows in column_blocks(source):
        text, places = joined([row[0] for row in rows])
        spans = (
            None
            if len(rows[0]) < 2
            else spans_of([row[-1] for row in rows], places, source.options.get("scheme", "auto"))
        )
        yield document(f"{source.place}, line {line}", text, spans, tokens=places)


def write(documents: Iterable[Document], path: str) -> None:
    """Write token and BIO label, separated by a tab; the token alone where no document is labelled."""
    width: set[bool] = set()
    with whole_file(path, text=True) as file:
        for doc in documents:
            words, labels = tagged(doc, "BIO")
            width.add(labels is None)
            if len(width) > 1:
                raise InputError(f"a column file is labelled throughout or not at all; {doc.text!r:.50} differs.")
            for cells in zip(words, labels) if labels is not None else zip(words):
                _check(cells)
                file.write("\t".join(cells) + "\n")
            file.write("\n")


def _check(cells: tuple[str, ...]) -> None:
    if any(c in cell for cell in cells for c in "\t\n\r"):
        raise InputError(
            f"a token or label near {cells[0]!r} holds a tab or a line end, which column files cannot hold."
        )


FORMAT = Format(
    "columns", "CoNLL columns: token first, label last", (".conll", ".txt", ".iob", ".bio", ".tsv"), read, write
)
