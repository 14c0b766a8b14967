"""Readers of tagged text: Cora and UMass citations, US addresses, and the citation split of constrained models."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from rulefield.datasets.columns import LabelLists
from rulefield.datasets.folder import data_folder, find_file, read_lines
from rulefield.exceptions import InputError

Words = list[list[str]]
_TAG = re.compile(r"(</?[a-z][a-z0-9_-]*>)")


def label_tagged(text: str) -> tuple[list[str], list[str]]:
    """Tokens and hierarchical BIO labels of text with nested tags.

    ``<a> x <b> y </b> </a>`` gives tokens x, y with labels ``B-a``, ``I-a/B-b``. Tokens are separated by white space.
    A closing tag closes everything opened since its opening one; one that was never opened is ignored; what is
    open at the end is closed there. So unbalanced text is read too, and its labels are always possible.
    """
    tokens: list[str] = []
    labels: list[str] = []
    opened: list[list] = []  # [type, whether it has a token]
    for part in _TAG.split(text):
        name = part.strip("</>")
        if _TAG.fullmatch(part) and part.startswith("</"):
            types = [kind for kind, _ in opened]
            if name in types:
                del opened[len(types) - 1 - types[::-1].index(name) :]
        elif _TAG.fullmatch(part):
            opened.append([name, False])
        else:
            for token in part.split():
                tokens.append(token)
                labels.append("/".join(f"{'I' if used else 'B'}-{kind}" for kind, used in opened) or "O")
                opened = [[kind, True] for kind, _ in opened]
    return tokens, labels


def _labeled(texts: Iterable[str]) -> tuple[Words, LabelLists]:
    pairs = [label_tagged(text) for text in texts]
    return [tokens for tokens, _ in pairs if tokens], [labels for tokens, labels in pairs if tokens]


def load_cora() -> tuple[Words, LabelLists]:
    """Cora citations: 500 references, white-space tokens, BIO labels of 13 fields."""
    path = find_file(data_folder("cora"), "tagged_references.newreference.txt")
    texts = "\n".join(read_lines(path)).split("<NEWREFERENCE>")
    return _labeled(texts)


def load_umass(part: str = "training") -> tuple[Words, LabelLists]:
    """UMass citations with hierarchical BIO labels; "training", "dev" or "testing"."""
    return _labeled(read_lines(find_file(data_folder("umass_citation"), f"{part}.docs")))


US50_FIELDS = {
    "1": "number",
    "2": "box",
    "3": "street",
    "4": "type",
    "5": "city",
    "6": "state",
    "7": "zip",
    "8": "direction",
}


def load_us50(part: str = "train") -> tuple[Words, LabelLists]:
    """US addresses, BIO labels; commas are tokens of their own, inside the segment that they end."""
    return read_us50(find_file(data_folder("us50"), f"us50.{part}.tagged"))


def read_us50(path: str | Path) -> tuple[Words, LabelLists]:
    """Read a file of ``text |label`` lines, one per segment, with a blank line between addresses."""

    def segment(line: str, place: str) -> tuple[list[str], list[str]]:
        text, bar, code = line.rpartition("|")
        if not bar or code.strip() not in US50_FIELDS:
            raise InputError(f"{place} must be `text |label`, label 1 to 8; got {line!r}.")
        tokens = text.replace(",", " , ").split()
        field = US50_FIELDS[code.strip()]
        return tokens, [f"{'I' if i else 'B'}-{field}" for i in range(len(tokens))]

    return _blocks(path, segment)


def load_citation_split(part: str = "train") -> tuple[Words, LabelLists]:
    """Cora in the 300/100/100 split, punctuation split off, one plain label per token.

    ``part`` is "train", "dev", "test" or "unlabeled"; the labels of the last mean nothing.
    """
    name = {"train": "train.300.0"}.get(part, part)
    return read_citation_split(find_file(data_folder("cora_ccm_split"), f"citation_{name}.txt"))


def read_citation_split(path: str | Path) -> tuple[Words, LabelLists]:
    """Read lines of ``token<TAB>label<TAB>features``, with a blank line between citations."""

    def token(line: str, place: str) -> tuple[list[str], list[str]]:
        row = line.split("\t")
        if len(row) < 2:
            raise InputError(f"{place} must have a token, a tab and a label; got {line!r}.")
        return row[:1], row[1:2]

    return _blocks(path, token)


def _blocks(path: str | Path, read: Callable[[str, str], tuple[list[str], list[str]]]) -> tuple[Words, LabelLists]:
    """Sequences of a file with a blank line between them; ``read(line, place)`` gives the tokens and labels of a line."""
    words: Words = [[]]
    labels: LabelLists = [[]]
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            words.append([])
            labels.append([])
            continue
        tokens, names = read(line, f"{str(path)!r}, line {number}")
        words[-1] += tokens
        labels[-1] += names
    return [w for w in words if w], [y for y in labels if y]
