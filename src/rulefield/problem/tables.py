"""Score tables over any number of nodes, sparse: what is listed has its own score, everything else the table's default."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rulefield.exceptions import InputError

MOST_LABELS = 100_000
"""Of the node that stands for a table: combinations of labels that are not forbidden."""


@dataclass(frozen=True)
class TableFactors:
    """Tables; a combination of labels (y_1, ..., y_k) of a table's nodes has the code ((y_1 m_2 + y_2) m_3 + ...)."""

    pointer: np.ndarray
    """int64 (n_tables + 1,): nodes of table t are ``node[pointer[t] : pointer[t + 1]]``, all different."""
    node: np.ndarray  # int64
    code_pointer: np.ndarray  # int64 (n_tables + 1,)
    code: np.ndarray  # int64: combinations that have a score of their own, ascending in each table
    score: np.ndarray  # float64
    default: np.ndarray  # float64 (n_tables,): score of all other combinations; ``-inf`` forbids them

    @property
    def n_tables(self) -> int:
        """Number of tables."""
        return len(self.default)

    @classmethod
    def none(cls) -> "TableFactors":
        """Return no tables at all."""
        whole, start = np.zeros(0, np.int64), np.zeros(1, np.int64)
        return cls(start, whole, start, whole, np.zeros(0), np.zeros(0))

    @classmethod
    def of(
        cls, n_labels: np.ndarray, tables: Sequence[tuple[Sequence[int], np.ndarray, np.ndarray, float]]
    ) -> "TableFactors":
        """Tables from (nodes, combinations (k, arity), scores (k,), default score) each."""
        codes, scores = [], []
        for t, (nodes, rows, values, _) in enumerate(tables):
            sizes = np.asarray(n_labels)[np.asarray(nodes, np.int64)]
            rows = np.asarray(rows, np.int64).reshape(len(values), len(sizes))
            if len(set(nodes)) != len(nodes):
                raise InputError(f"table {t} names a node twice; give every node of a table once.")
            if float(np.prod(sizes.astype(float))) >= 2.0**62:
                raise InputError(f"table {t} has more combinations of labels than can be numbered; split it.")
            if (rows < 0).any() or (rows >= sizes).any():
                raise InputError(f"table {t} lists a label that its node does not have; number labels from 0.")
            code = np.ravel_multi_index(tuple(rows.T), tuple(sizes)) if len(sizes) else np.zeros(len(rows), np.int64)
            code = np.atleast_1d(np.asarray(code, np.int64))
            if len(np.unique(code)) != len(code):
                raise InputError(f"table {t} lists a combination of labels twice.")
            order = np.argsort(code)
            codes.append(code[order])
            scores.append(np.asarray(values, np.float64)[order])
        return cls(
            _pointers([len(t[0]) for t in tables]),
            np.concatenate([np.zeros(0, np.int64), *(np.asarray(t[0], np.int64) for t in tables)]),
            _pointers([len(c) for c in codes]),
            np.concatenate([np.zeros(0, np.int64), *codes]),
            np.concatenate([np.zeros(0), *scores]),
            np.array([t[3] for t in tables], np.float64),
        )

    def table_score(self, n_labels: np.ndarray, labels: np.ndarray) -> float:
        """Sum of the tables' scores of one labeling, by definition; O(tables x arity x log of their length)."""
        total = 0.0
        for t in range(self.n_tables):
            code = 0
            for v in self.node[self.pointer[t] : self.pointer[t + 1]]:
                code = code * int(n_labels[v]) + int(labels[v])
            listed = self.code[self.code_pointer[t] : self.code_pointer[t + 1]]
            place = int(np.searchsorted(listed, code))
            own = place < len(listed) and listed[place] == code
            total += float(self.score[self.code_pointer[t] + place] if own else self.default[t])
        return total

    def combinations(self, t: int, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what table ``t`` does not forbid: combinations (k, arity) and scores; ``sizes`` are its nodes'."""
        span = slice(self.code_pointer[t], self.code_pointer[t + 1])
        code, score = self.code[span], self.score[span]
        if self.default[t] > -np.inf:
            count = float(np.prod(sizes.astype(float)))
            if count > MOST_LABELS:
                raise InputError(
                    f"table {t} gives a score to all of its {count:.3g} combinations of labels; at most {MOST_LABELS:,} "
                    "can be told apart: list the allowed ones and let the default be -inf."
                )
            full = np.full(int(count), self.default[t])
            full[code] = score
            code, score = np.arange(int(count)), full
        alive = score > -np.inf
        rows = np.stack(np.unravel_index(code[alive], tuple(sizes)), axis=1) if len(sizes) else np.zeros((1, 0), int)
        return rows, score[alive]

    def dense(self, t: int, sizes: np.ndarray) -> np.ndarray:
        """Return all scores of table ``t``, one axis for each of its nodes; ``sizes`` are its nodes'."""
        span = slice(self.code_pointer[t], self.code_pointer[t + 1])
        full = np.full(int(np.prod(sizes)), self.default[t])
        full[self.code[span]] = self.score[span]
        return full.reshape(tuple(sizes))

    def flat(self) -> "TableFactors":
        """Return the same tables with scores of 0 if they forbid nothing."""
        score, default = (np.where(a > -np.inf, 0.0, -np.inf) for a in (self.score, self.default))
        return replace(self, score=score, default=default)

    @property
    def spread(self) -> float:
        """Bound on the difference between two sums of scores of labelings that no table forbids."""
        total = 0.0
        for t in range(self.n_tables):
            own = np.append(self.score[self.code_pointer[t] : self.code_pointer[t + 1]], self.default[t])
            own = own[own > -np.inf]
            total += float(np.ptp(own)) if len(own) else 0.0
        return total


def _pointers(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
