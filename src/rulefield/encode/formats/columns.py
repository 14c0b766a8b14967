"""CoNLL columns: one token per line, its label last, a blank line between sequences."""

from collections.abc import Iterable, Iterator

from rulefield.data.documents import Document, joined
from rulefield.data.source import Source
from rulefield.encode.alignment import spans_of, tagged
from rulefield.encode.formats.base import Format, bad_record, document
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

DOCUMENT_START = "-DOCSTART-"


class ColumnFile:
    """The sequences of a column file, each as (its first line, rows); all column files are read here.

    Columns are separated by tabs where the first line has one (cells may then be empty or hold blanks), else by white
    space. ``-DOCSTART-`` lines and comments before a sequence (``# ...`` with another number of columns) are passed over.
    """

    def __init__(self, source: Source):
        self.source = source
        self.separator = " "
        """Between columns, known once the first row is read."""

    def __iter__(self) -> Iterator[tuple[int, list[list[str]]]]:
        block: list[tuple[int, list[str]]] = []
        doubtful: list[tuple[int, str]] = []  # "#" lines at the beginning: the first other line shows what they are
        width = 0
        for number, line in self.source.lines():
            if not line.strip():
                yield from _finished(block)
                block, doubtful = [], []
            elif line.startswith(DOCUMENT_START):
                continue
            elif not width and line.startswith("#"):
                doubtful.append((number, line))
            else:
                if not width:
                    self.separator = "\t" if "\t" in line else " "
                    width = len(self._cells(line))
                    block = [(n, row) for n, row in ((n, self._cells(x)) for n, x in doubtful) if len(row) == width]
                row = self._cells(line)
                if block or not line.startswith("#") or len(row) == width:
                    self._check(row, width, number, line)
                    block.append((number, row))
        yield from _finished(block)

    def _cells(self, line: str) -> list[str]:
        return line.split("\t") if self.separator == "\t" else line.split()

    def _check(self, row: list[str], width: int, number: int, line: str) -> None:
        place = f"{self.source.place}, line {number}"
        if len(row) != width:
            given = "1 column" if len(row) == 1 else f"{len(row)} columns"
            raise bad_record(
                place,
                f"{given} where the first has {width}: {line!r:.80}; if each line is a text, say --format lines.",
            )
        if not row[0]:
            raise bad_record(place, f"the token (first column) is empty: {line!r:.80}.")


def _finished(block: list[tuple[int, list[str]]]) -> Iterator[tuple[int, list[list[str]]]]:
    if block:
        yield block[0][0], [row for _, row in block]


def read(source: Source) -> Iterator[Document]:
    """Yield one document per sequence: tokens joined by blanks, labels (the last column) as spans."""
    for line, rows in ColumnFile(source):
        text, places = joined([row[0] for row in rows])
        spans = (
            None
            if len(rows[0]) < 2
            else spans_of([row[-1] for row in rows], places, source.options.get("scheme", "auto"))
        )
        yield document(f"{source.place}, line {line}", text, spans, tokens=places)


def write(documents: Iterable[Document], path: str) -> None:
    """Write token and BIO label, separated by a tab; the token alone where no document is labeled."""
    width: set[bool] = set()
    with whole_file(path, text=True) as file:
        for doc in documents:
            words, labels = tagged(doc, "BIO")
            width.add(labels is None)
            if len(width) > 1:
                raise InputError(f"a column file is labeled throughout or not at all; {doc.text!r:.50} differs.")
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
