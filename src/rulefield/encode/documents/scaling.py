"""Numbers as piecewise linear functions of their quantiles: what a linear model can bend."""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError

N_KNOTS = 6
"""Columns that a number is spread over."""


@dataclass(frozen=True)
class QuantileScale:
    """Turns a column of numbers into a few columns that add up to 1, one per knot (a missing number: all 0).

    A number between two knots is shared between them in proportion, so that a weight per knot is a continuous piecewise
    linear function of the number, fine where training data are dense. Knots are ascending, one array per column.
    """

    knots: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        for knots in self.knots:
            plain = knots.dtype == np.float64 and knots.ndim == 1 and len(knots) > 0 and np.isfinite(knots).all()
            if not plain or (knots[1:] <= knots[:-1]).any():
                raise InputError("knots must be ascending finite numbers, one at least for each column.")

    @classmethod
    def fit(cls, columns: np.ndarray) -> "QuantileScale":
        """Place knots at quantiles of each column (n, d); NaN is missing."""
        levels = np.linspace(0.0, 1.0, N_KNOTS)
        knots = []
        for column in columns.T:
            known = column[~np.isnan(column)]
            knots.append(np.unique(np.quantile(known, levels)) if len(known) else np.zeros(1))
        return cls(tuple(knots))

    @property
    def width(self) -> int:
        """Number of columns that come out."""
        return sum(len(knots) for knots in self.knots)

    def names(self, columns: list[str]) -> list[str]:
        """Names of the columns that come out."""
        return [f"{name}~{knot:.3g}" for name, knots in zip(columns, self.knots) for knot in knots]

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Return (n, width)."""
        out = np.zeros((len(columns), self.width))
        begin = 0
        for column, knots in zip(columns.T, self.knots):
            rows = np.flatnonzero(~np.isnan(column))
            value = np.clip(column[rows], knots[0], knots[-1])
            at = np.clip(np.searchsorted(knots, value, side="right") - 1, 0, max(len(knots) - 2, 0))
            step = np.diff(knots)[at] if len(knots) > 1 else np.ones(len(rows))
            share = (value - knots[at]) / step
            out[rows, begin + at] = 1.0 - share
            if len(knots) > 1:
                out[rows, begin + at + 1] = share
            begin += len(knots)
        return out
