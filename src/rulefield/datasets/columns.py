"""Column files: one token per line, a blank line between sequences (CoNLL shared tasks, CoNLL-U)."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rulefield.datasets.folder import data_folder, find_file, read_lines
from rulefield.exceptions import InputError

Tokens = list[list[tuple[str, ...]]]
LabelLists = list[list[str]]


def read_rows(path: str | Path, separator: str | None = None) -> list[list[list[str]]]:
    """Rows of columns of every sequence.

    Parameters
    ----------
    path : path
        Compressed where its name ends in .gz.
    separator : str, optional
        Between columns; by default any white space.

    Notes
    -----
    Lines that begin with ``-DOCSTART-`` are left out. A line with another number of columns than the first is an
    error that names it.
    """
    return list(rows_of(read_lines(path), str(path), separator))


def rows_of(lines: Iterable[str], source: str, separator: str | None = None) -> Iterator[list[list[str]]]:
    """Rows of columns of every sequence, from lines; errors name ``source``."""
    block: list[list[str]] = []
    width = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            if block:
                yield block
            block = []
            continue
        if line.startswith("-DOCSTART-"):
            continue
        row = line.split(separator)
        width = width or len(row)
        if len(row) != width:
            raise InputError(f"{source}, line {number}: {len(row)} columns where line 1 has {width}: {line[:60]!r}.")
        block.append(row)
    if block:
        yield block


def read_columns(path: str | Path, separator: str | None = None) -> tuple[Tokens, LabelLists]:
    """Tokens (tuples of all columns but the last) and labels (the last column) of a column file."""
    rows = read_rows(path, separator)
    if rows and len(rows[0][0]) < 2:
        raise InputError(f"{str(path)!r} has one column; a labelled file has the token first and its label last.")
    return [[tuple(row[:-1]) for row in block] for block in rows], [[row[-1] for row in block] for block in rows]


def load_conll2000(part: str = "train") -> tuple[Tokens, LabelLists]:
    """CoNLL-2000 chunking: (word, part of speech) tokens and BIO labels; ``part`` is "train" or "test"."""
    return read_columns(find_file(data_folder("conll2000"), f"{part}.txt"))


def load_conll2002(part: str = "train") -> tuple[Tokens, LabelLists]:
    """CoNLL-2002 Spanish names: (word, part of speech) tokens and BIO labels; "train", "testa" or "testb"."""
    return read_columns(find_file(data_folder("conll2002_es"), f"esp.{part}"))


def load_ud_english(part: str = "train", column: str = "upos") -> tuple[list[list[str]], LabelLists]:
    """Universal Dependencies English EWT: words and tags; "train", "dev" or "test", ``column`` "upos" or "xpos"."""
    return read_conllu(find_file(data_folder("ud_english_ewt"), f"en_ewt-ud-{part}.conllu"), column)


def read_conllu(path: str | Path, column: str = "upos") -> tuple[list[list[str]], LabelLists]:
    """Words and tags of a CoNLL-U file; comments, ranges (``3-4``) and empty nodes (``3.1``) are left out."""
    places = {"upos": 3, "xpos": 4}
    if column not in places:
        raise InputError(f"column must be one of {', '.join(places)}; got {column!r}.")
    words: list[list[str]] = [[]]
    tags: LabelLists = [[]]
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            words.append([])
            tags.append([])
        elif not line.startswith("#"):
            row = line.split("\t")
            if len(row) != 10:
                raise InputError(
                    f"{str(path)!r}, line {number}: CoNLL-U has 10 columns; got {len(row)}: {line[:60]!r}."
                )
            if row[0].isdigit():
                words[-1].append(row[1])
                tags[-1].append(row[places[column]])
    return [w for w in words if w], [t for t in tags if t]
