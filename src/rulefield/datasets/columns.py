"""Column files: one token per line, a blank line between sequences (CoNLL shared tasks, CoNLL-U)."""

import bz2
from pathlib import Path

from rulefield.data.source import Source
from rulefield.datasets.folder import data_folder, find_file, read_lines
from rulefield.encode.formats.columns import ColumnFile
from rulefield.encode.spans import convert
from rulefield.exceptions import InputError

Tokens = list[list[tuple[str, ...]]]
LabelLists = list[list[str]]


def read_columns(path: str | Path) -> tuple[Tokens, LabelLists]:
    """Tokens (tuples of all columns but the last) and labels (the last column) of a column file.

    Files as in :func:`rulefield.encode.formats.columns.ColumnFile`, compressed where the name ends in .gz.
    """
    rows = [block for _, block in ColumnFile(Source(str(path)))]
    if rows and len(rows[0][0]) < 2:
        raise InputError(f"{str(path)!r} has one column; a labeled file has the token first and its label last.")
    return [[tuple(row[:-1]) for row in block] for block in rows], [[row[-1] for row in block] for block in rows]


def load_conll2000(part: str = "train") -> tuple[Tokens, LabelLists]:
    """CoNLL-2000 chunking: (word, part of speech) tokens and BIO labels; ``part`` is "train" or "test"."""
    return read_columns(find_file(data_folder("conll2000"), f"{part}.txt"))


def load_conll2002(part: str = "train") -> tuple[Tokens, LabelLists]:
    """CoNLL-2002 Spanish names: (word, part of speech) tokens and BIO labels; "train", "testa" or "testb"."""
    return read_columns(find_file(data_folder("conll2002_es"), f"esp.{part}"))


def load_conll2003(part: str = "train") -> tuple[Tokens, LabelLists]:
    """CoNLL-2003 English names: (word, part of speech, chunk) tokens and BIO labels; ``part`` is "train" or "testa".

    The file's IOB1 labels become BIO; lines that begin a document are left out.
    """
    X, y = read_columns(find_file(data_folder("conll2003_en"), f"eng.{part}.gz"))
    kept = [i for i, tokens in enumerate(X) if tokens[0][0] != "-DOCSTART-"]
    return [X[i] for i in kept], [convert(y[i], "IOB1", "BIO") for i in kept]


def load_ads(part: str = "train") -> tuple[list[list[str]], LabelLists]:
    """Apartment advertisements, one label per token, no prefixes; "train", "dev", "test", or "unlabeled" (labels "?")."""
    path = find_file(data_folder("ads"), f"ads_{part}.txt{'.bz2' if part == 'unlabeled' else ''}")
    text = (bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()).decode()
    blocks = [[line.split() for line in block.splitlines() if line.split()] for block in text.split("\n\n")]
    blocks = [rows for rows in blocks if rows]
    return [[row[0] for row in rows] for rows in blocks], [[row[-1] for row in rows] for rows in blocks]


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
