"""CRF++ feature templates: ``U05:%x[-1,0]/%x[0,0]`` for features, ``B`` for transitions.

A line that begins with U makes one feature string a token: the line with every ``%x[row,col]`` replaced by column
``col`` of the token ``row`` places away. Beyond the ends it is ``_B-1``, ``_B-2``, ... before, ``_B+1``, ... behind.
A line that is only ``B`` asks for transition weights, which a chain CRF always has. A longer B line asks for
weights of label pairs for each value; such features are made too, and
:attr:`Template.transition_prefixes` names them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from rulefield.exceptions import InputError
from rulefield.scikit import Estimator, TransformerMixin

FARTHEST = 1000
"""Most places that a template may look to the left or to the right."""
MOST_COLUMNS = 1000
_MACRO = re.compile(r"%x\[\s*(-?\d+)\s*,\s*(\d+)\s*\]")


class Line(NamedTuple):
    """A line of a template: literal texts, and the cells (row, column) between them."""

    texts: tuple[str, ...]
    cells: tuple[tuple[int, int], ...]


class Template(TransformerMixin, Estimator):
    r"""Turn tokens with columns into lists of feature strings by a CRF++ template.

    Parameters
    ----------
    text : str
        The template, lines and all. :meth:`from_file` reads a file.

    Notes
    -----
    Tokens are strings (one column) or tuples of strings. O(tokens x lines).

    Examples
    --------
    >>> Template("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,1]").transform([[("the", "DT"), ("cat", "NN")]])
    [[['U0:the', 'U1:_B-1/DT'], ['U0:cat', 'U1:the/NN']]]
    """

    def __init__(self, text: str):
        self.text = text

    @classmethod
    def from_file(cls, path: str | Path) -> "Template":
        """Read a template file."""
        try:
            return cls(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise InputError(f"the template {str(path)!r} is not UTF-8 text ({error.reason}).") from None

    def fit(self, X: Any, y: Any = None) -> "Template":
        """Check the template; there is nothing to learn."""
        _parse(self.text)
        return self

    @property
    def lines(self) -> list["Line"]:
        """The lines that make features, taken apart."""
        return _parse(self.text)

    @property
    def extent(self) -> tuple[int, int]:
        """How many columns are read, and how many places away the farthest token is."""
        cells = [cell for line in self.lines for cell in line.cells]
        return 1 + max([column for _, column in cells], default=0), max([abs(row) for row, _ in cells], default=0)

    @property
    def transition_prefixes(self) -> list[str]:
        """Beginnings of the features that B lines with macros make (``B07:``): weights for label pairs."""
        return [line.texts[0] for line in self.lines if line.texts[0].startswith("B")]

    def transform(self, X: Iterable[Sequence[Any]]) -> list[list[list[str]]]:
        """Features of every token of every sequence."""
        lines, (width, reach) = self.lines, self.extent
        return [_apply(lines, padded(tokens, i, width, reach), width, reach) for i, tokens in enumerate(X)]

    def to_config(self) -> dict[str, Any]:
        """Parameters as JSON can hold them."""
        return {"text": self.text}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Template":
        """Undo :meth:`to_config`."""
        return cls(**config)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _parse(text: str) -> list[Line]:
    """Take the lines apart; each is literal texts with cells between them."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#") or line == "B":
            continue
        if line[0] not in "UB":
            raise InputError(f"template line {number} must begin with U, B or #; got {line!r}.")
        cells = tuple(_cell(row, column, number) for row, column in _MACRO.findall(line))
        texts = tuple(_MACRO.split(line)[::3])
        if any("%" in part and re.search(r"%\s*[a-zA-Z]", part) for part in texts):
            raise InputError(f"template line {number} has a macro that is not %x[row,column]: {line!r}.")
        lines.append(Line(texts, cells))
    if not any(line.texts[0].startswith("U") for line in lines):
        raise InputError("a template needs at least one line that begins with U, such as U00:%x[0,0].")
    return lines


def _cell(row: str, column: str, line: int) -> tuple[int, int]:
    """Read a macro; numbers that no data can need (they would cost memory) are refused."""
    if len(row) > 9 or abs(int(row)) > FARTHEST:
        raise InputError(f"template line {line} looks {row[:20]} places away; {FARTHEST} are the most.")
    if len(column) > 9 or int(column) >= MOST_COLUMNS:
        raise InputError(f"template line {line} reads column {column[:20]}; the last possible is {MOST_COLUMNS - 1}.")
    return int(row), int(column)


def padded(tokens: Sequence[Any], sequence: int, width: int, reach: int) -> list[tuple[str, ...]]:
    """Rows of columns with markers beyond both ends."""
    rows = [(token,) if isinstance(token, str) else tuple(token) for token in tokens]
    for t, row in enumerate(rows):
        if len(row) < width:
            raise InputError(
                f"the template reads column {width - 1}, but token {t} of sequence {sequence} has {len(row)} "
                f"column{'s' if len(row) > 1 else ''}: {row!r}."
            )
    before = [(f"_B-{k}",) * width for k in range(reach, 0, -1)]
    return before + rows + [(f"_B+{k}",) * width for k in range(1, reach + 1)]


def _apply(lines: Sequence[Line], rows: Sequence[tuple[str, ...]], width: int, reach: int) -> list[list[str]]:
    """Return the features of every token; ``rows`` are padded by ``reach`` markers on both sides."""
    columns = [[row[column] for row in rows] for column in range(width)]
    n = len(rows) - 2 * reach
    made = []
    for texts, cells in lines:
        parts: list[Iterable[str]] = [repeat(texts[0], n)]
        for (row, column), text in zip(cells, texts[1:]):
            parts += columns[column][reach + row : reach + row + n], repeat(text, n)
        made.append(map("".join, zip(*parts)))
    return [list(features) for features in zip(*made)]
