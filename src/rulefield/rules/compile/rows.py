"""Linear rows over parts: sums as affine expressions, and the builder that collects rows."""

from collections.abc import Iterable

import numpy as np

from rulefield.problem.compiled import Rows, Tally


class Affine:
    """A constant and multiples of columns."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: dict[int, float] | None = None, constant: float = 0.0):
        self.terms = terms if terms is not None else {}
        self.constant = constant

    def __add__(self, other: "Affine | float") -> "Affine":
        if not isinstance(other, Affine):
            return Affine(self.terms, self.constant + other)
        terms = dict(self.terms)
        for column, value in other.terms.items():
            terms[column] = terms.get(column, 0.0) + value
        return Affine(terms, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: float) -> "Affine":
        return Affine({c: factor * v for c, v in self.terms.items()}, factor * self.constant)

    __rmul__ = __mul__

    def __neg__(self) -> "Affine":
        return self * -1.0

    def __sub__(self, other: "Affine | float") -> "Affine":
        return self + (-other)

    def __rsub__(self, other: float) -> "Affine":
        return -self + other


def total(parts: Iterable[Affine]) -> Affine:
    """Sum of affine expressions."""
    result = Affine()
    for part in parts:
        result.constant += part.constant
        for column, value in part.terms.items():
            result.terms[column] = result.terms.get(column, 0.0) + value
    return result


class RowBuilder:
    """Collects the rows of one rule for one input of n tokens with given classes and m labels."""

    def __init__(self, token_class: np.ndarray, m: int):
        self.token_class = token_class
        self.n, self.m = len(token_class), m
        self._first_auxiliary = self.n * m + max(self.n - 1, 0) * m * m
        self._n_auxiliary = 0
        self._rows: list[tuple[dict[int, float], float, bool]] = []

    def at(self, tally: Tally, t: int) -> Affine:
        """Return what token t adds to a tally."""
        c, m = int(self.token_class[t]), self.m
        node = tally.first if t == 0 and tally.first is not None else tally.node
        terms = {t * m + int(l): float(node[c, l]) for l in np.flatnonzero(node[c])}
        if t and tally.edge is not None:
            start = self.n * m + (t - 1) * m * m
            flat = tally.edge[c].ravel()
            terms.update({start + int(i): float(flat[i]) for i in np.flatnonzero(flat)})
        return Affine(terms)

    def tokens(self, tally: Tally) -> list[Affine]:
        """Return what each token adds to a tally."""
        return [self.at(tally, t) for t in range(self.n)]

    def auxiliary(self) -> Affine:
        """Return a new free 0/1 variable."""
        self._n_auxiliary += 1
        return Affine({self._first_auxiliary + self._n_auxiliary - 1: 1.0})

    def limit(self, left: Affine, right: "Affine | float" = 0.0, slack: bool = False) -> None:
        """Demand ``left <= right``, or ``left <= right + slack``."""
        difference = left - right
        if slack or difference.terms or difference.constant > 0:
            self._rows.append((difference.terms, 0.0 - difference.constant, slack))

    def rows(self) -> Rows:
        """All rows so far."""
        sizes = [len(terms) for terms, _, _ in self._rows]
        return Rows(
            row=np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
            column=np.array([c for terms, _, _ in self._rows for c in terms], dtype=np.int64),
            value=np.array([v for terms, _, _ in self._rows for v in terms.values()], dtype=np.float64),
            bound=np.array([bound for _, bound, _ in self._rows], dtype=np.float64),
            may_slack=np.array([slack for _, _, slack in self._rows], dtype=bool),
            n_auxiliary=self._n_auxiliary,
        )
