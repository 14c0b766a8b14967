"""Public formats of graph problems: UAI (products of tables of probabilities) and WCSP (sums of costs)."""

from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np

from rulefield.datasets.folder import read_lines
from rulefield.exceptions import InputError
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.tables import TableFactors

MOST_ENTRIES = 50_000_000
"""Of one table: more is a damaged file, or not for this machine."""
MOST_LABELS = 1_000_000
"""Of one variable, likewise."""
MOST_SPREAD, LEAST_LISTED = 2**25, 0.01
"""Entries of all tables of two variables, which are kept in full, if the file lists fewer than this share of them."""
Table = tuple[list[int], np.ndarray, np.ndarray, float]


class _Words:
    """The words of a file, one after the other, as numbers."""

    def __init__(self, path: str | Path, what: str):
        self.path, self.what = str(path), what
        self._words: Iterator[str] = (word for line in read_lines(path) for word in line.split())

    def text(self) -> str:
        word = next(self._words, None)
        if word is None:
            raise InputError(f"{self.path!r} ends in the middle of a {self.what} problem; it is not whole.")
        return word

    def whole(self, low: int = 0, high: float = np.inf) -> int:
        word = self.text()
        try:
            value = int(word)
        except ValueError:
            raise self._wrong(word, "a whole number") from None
        if not low <= value <= high:
            raise self._wrong(word, f"a number from {low} to {high:g}")
        return value

    def real(self) -> float:
        word = self.text()
        try:
            value = float(word)
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            raise self._wrong(word, "a finite number")
        return value

    def _wrong(self, word: str, wanted: str) -> InputError:
        return InputError(f"{self.path!r} has {word!r:.40} where a {self.what} file has {wanted}.")

    def sizes(self, n: int) -> np.ndarray:
        return np.array([self.whole(1, MOST_LABELS) for _ in range(n)], np.int64)

    def reals(self, n: int) -> np.ndarray:
        if n > MOST_ENTRIES:
            raise InputError(f"{self.path!r} has a table of {n} entries; at most {MOST_ENTRIES:,} are read.")
        return np.array([self.real() for _ in range(n)])

    def scope(self, sizes: np.ndarray) -> list[int]:
        nodes = [self.whole(0, len(sizes) - 1) for _ in range(self.whole(0, len(sizes)))]
        if len(set(nodes)) < len(nodes):
            raise InputError(f"{self.path!r} has a table that names variable {nodes[0]} or another one twice.")
        return nodes


def read_uai(path: str | Path) -> GraphProblem:
    """Problem of a UAI file (MARKOV or BAYES): scores are logarithms of the tables' entries, an entry of 0 forbids."""
    words = _Words(path, "UAI")
    kind = words.text()
    if kind not in ("MARKOV", "BAYES"):
        raise InputError(f"{str(path)!r} begins with {kind!r}; a UAI file begins with MARKOV or BAYES.")
    sizes = words.sizes(words.whole())
    scopes = [words.scope(sizes) for _ in range(words.whole())]
    tables = []
    for nodes in scopes:
        n = words.whole()
        if n != (combinations := prod(sizes[nodes].tolist())):
            raise InputError(f"{str(path)!r} has a table of {n} entries for {combinations} combinations.")
        entries = words.reals(n)
        if not (entries >= 0).all():
            raise InputError(f"{str(path)!r} has a negative entry; a UAI table holds probabilities or potentials.")
        with np.errstate(divide="ignore"):
            tables.append((nodes, _every(sizes[nodes]), np.log(entries), -np.inf))
    return _problem(path, sizes, tables)


def read_wcsp(path: str | Path) -> GraphProblem:
    """Problem of a WCSP file: scores are minus the costs, a cost of the file's ``top`` or more forbids."""
    words = _Words(path, "WCSP")
    words.text()
    n, _, n_tables, top = words.whole(), words.whole(), words.whole(), words.real()
    sizes = words.sizes(n)
    tables = []
    for _ in range(n_tables):
        nodes = words.scope(sizes)
        default, listed = words.real(), words.whole(-1, MOST_ENTRIES)
        if listed < 0 or default < 0:
            raise InputError(f"{str(path)!r} has a constraint by name; only tables of costs are read.")
        rows = np.empty((listed, len(nodes)), np.int64)
        costs = np.empty(listed)
        for i in range(listed):
            rows[i] = [words.whole(0, int(sizes[v]) - 1) for v in nodes]
            costs[i] = words.real()
        scores = np.where(costs >= top, -np.inf, -costs)
        tables.append((nodes, rows, scores, -np.inf if default >= top else -default))
    return _problem(path, sizes, tables)


def _every(sizes: np.ndarray) -> np.ndarray:
    """All combinations of labels, the last one changing fastest."""
    return np.indices(tuple(sizes)).reshape(len(sizes), -1).T if len(sizes) else np.zeros((1, 0), int)


def _problem(path: str | Path, sizes: np.ndarray, tables: list[Table]) -> GraphProblem:
    spread = sum(prod(sizes[nodes].tolist()) for nodes, *_ in tables if len(nodes) == 2)
    if spread > MOST_SPREAD and sum(len(scores) for _, _, scores, _ in tables) < LEAST_LISTED * spread:
        raise InputError(
            f"{str(path)!r} has tables of two variables with {spread:,} entries, of which it lists hardly any; more than "
            f"{MOST_SPREAD:,} such entries are not read: give variables fewer labels."
        )
    potentials = GraphPotentials(sizes, np.zeros(int(sizes.sum())), np.zeros((0, 2), np.int64), np.zeros(0))
    return GraphProblem(potentials, tables=TableFactors.of(sizes, tables))
