"""Linear rows over parts: sums as affine expressions, and the builder that collects rows."""

from collections.abc import Iterable, Sequence

import numpy as np

from rulefield.problem.chain_rules import Rows, Tally

_NO_COLUMNS = np.zeros(0, dtype=np.int64)
_NO_VALUES = np.zeros(0, dtype=np.float64)


class Affine:
    """A constant and multiples of columns; a column may occur more than once."""

    __slots__ = ("columns", "constant", "values")

    def __init__(
        self, columns: np.ndarray = _NO_COLUMNS, values: np.ndarray = _NO_VALUES, constant: float = 0.0
    ) -> None:
        self.columns, self.values, self.constant = columns, values, constant

    @property
    def is_constant(self) -> bool:
        """Whether no column occurs."""
        return not len(self.columns)

    def merged(self) -> "Affine":
        """Return the same with each column at most once."""
        _, columns, values = merged([self])
        return Affine(columns, values, self.constant)

    def __add__(self, other: "Affine | float") -> "Affine":
        if not isinstance(other, Affine):
            return Affine(self.columns, self.values, self.constant + other)
        return total((self, other))

    __radd__ = __add__

    def __mul__(self, factor: float) -> "Affine":
        return Affine(self.columns, factor * self.values, factor * self.constant)

    __rmul__ = __mul__

    def __neg__(self) -> "Affine":
        return self * -1.0

    def __sub__(self, other: "Affine | float") -> "Affine":
        return self + (-other)

    def __rsub__(self, other: float) -> "Affine":
        return -self + other


def total(parts: Iterable[Affine]) -> Affine:
    """Sum of affine expressions."""
    parts = list(parts)
    if not parts:
        return Affine()
    columns = np.concatenate([part.columns for part in parts])
    return Affine(columns, np.concatenate([part.values for part in parts]), sum(part.constant for part in parts))


def merged(sums: Sequence[Affine]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of what is not 0 in sums, each column at most once in a row."""
    row = np.repeat(np.arange(len(sums), dtype=np.int64), [len(s.columns) for s in sums])
    together = total(sums)
    order = np.lexsort((together.columns, row))
    row, column, value = row[order], together.columns[order], together.values[order]
    new = np.ones(len(row), dtype=bool)
    new[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    summed = np.add.reduceat(value, np.flatnonzero(new)) if len(value) else value
    keep = summed != 0
    return row[new][keep], column[new][keep], summed[keep]


class RowBuilder:
    """Collects the rows of one rule for one input of n tokens with given classes and m labels.

    ``letter`` (m,), if it is given, tells which label of the rule's tables each label of the input stands for.
    """

    def __init__(self, token_class: np.ndarray, m: int, letter: np.ndarray | None = None):
        m = m if letter is None else len(letter)
        self.token_class, self.letter = token_class, letter
        self.n, self.m = len(token_class), m
        self._first_auxiliary = self.n * m + max(self.n - 1, 0) * m * m
        self._n_auxiliary = 0
        self._rows: list[tuple[Affine, bool]] = []
        self._found: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def at(self, tally: Tally, t: int) -> Affine:
        """Return what token t adds to a tally."""
        c, m = int(self.token_class[t]), self.m
        node = tally.first if t == 0 and tally.first is not None else tally.node
        labels, values = self._nonzero(node, c)
        columns = t * m + labels
        if t and tally.edge is not None:
            steps, more = self._nonzero(tally.edge, c)
            columns = np.concatenate([columns, self.n * m + (t - 1) * m * m + steps])
            values = np.concatenate([values, more])
        return Affine(columns, values)

    def _nonzero(self, table: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Places and values of what is not 0 in row c of a table, found once for all tokens."""
        key = (id(table), c)
        if key not in self._found:
            row = table[c]
            if self.letter is not None:
                row = row[self.letter] if row.ndim == 1 else row[np.ix_(self.letter, self.letter)]
            places = np.flatnonzero(row)
            values = row.ravel()[places].astype(np.float64)
            self._found[key] = places, values, table  # the table, so that its id stays its own
        return self._found[key][:2]

    def tokens(self, tally: Tally) -> list[Affine]:
        """Return what each token adds to a tally."""
        return [self.at(tally, t) for t in range(self.n)]

    def auxiliary(self) -> Affine:
        """Return a new free 0/1 variable."""
        self._n_auxiliary += 1
        return Affine(np.array([self._first_auxiliary + self._n_auxiliary - 1]), np.ones(1))

    def all_positive(self, *numbers: Affine) -> Affine:
        """Return a new 0/1 variable that can be 1 only if all of these whole numbers are positive."""
        chosen = self.auxiliary()
        for number in numbers:
            self.limit(chosen, number)
        return chosen

    def limit(self, left: Affine, right: "Affine | float" = 0.0, slack: bool = False) -> None:
        """Demand ``left <= right``, or ``left <= right + slack``."""
        difference = left - right
        if slack or not difference.is_constant or difference.constant > 0:
            self._rows.append((difference, slack))

    def rows(self) -> Rows:
        """All rows so far, each column at most once in a row."""
        sums = [row for row, _ in self._rows]
        return Rows(
            *merged(sums),
            bound=np.array([0.0 - s.constant for s in sums], dtype=np.float64),
            may_slack=np.array([slack for _, slack in self._rows], dtype=bool),
            n_auxiliary=self._n_auxiliary,
        )
