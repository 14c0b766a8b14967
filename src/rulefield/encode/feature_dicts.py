"""Feature dicts to names and values, by the rules of python-crfsuite (see :mod:`rulefield.encode.features`)."""

from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np

from rulefield.data.limits import LARGEST_FEATURE, WAY_OUT

DEEPEST = 100
"""Most feature dicts inside each other."""


class BadFeatureError(Exception):
    """A feature cannot be read; the reader knows at which token it stopped."""


class DictReader:
    """Reads tokens one after the other and remembers what is not in their names.

    Attributes
    ----------
    counts : list of int
        Features of each token that was read.
    weights : list of (int, float)
        Values other than 1: which feature, counted over all tokens, and the value.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.weights: list[tuple[int, float]] = []

    def names(self, tokens: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
        """Names of the features of each token; features with value 0 are left out."""
        total = 0
        for token in tokens:
            names: list[str] = []
            for key, value in token.items():
                if value.__class__ is str and key.__class__ is str:  # by far the most frequent kind
                    names.append(f"{key}:{value}")
                elif value is not False:
                    self._read(key, value, names, total)
            self.counts.append(len(names))
            total += len(names)
            yield names

    def values(self, total: int) -> np.ndarray | None:
        """Values of all features (total,), None if all are 1."""
        if not self.weights:
            return None
        made = np.ones(total)
        where, values = zip(*self.weights)
        made[list(where)] = values
        return made

    def _read(self, key: Any, value: Any, names: list[str], total: int, depth: int = 1) -> None:
        if not isinstance(key, str):
            raise BadFeatureError(f"feature names must be strings; got {key!r}")
        if isinstance(value, (str, bytes)):
            names.append(f"{key}:{_text(value)}")
        elif isinstance(value, (Real, np.bool_)):
            self._read_number(key, value, names, total)
        elif isinstance(value, Mapping):
            if depth == DEEPEST:
                raise BadFeatureError(f"feature {key[:30]!r}... is nested more than {DEEPEST} deep; write it flat")
            for sub, inner in value.items():
                if not isinstance(sub, str):
                    raise BadFeatureError(f"names inside feature {key!r} must be strings; got {sub!r}")
                self._read(f"{key}:{sub}", inner, names, total, depth + 1)
        elif isinstance(value, (list, set, frozenset, tuple)):
            for item in value:
                if not isinstance(item, (str, bytes)):
                    raise BadFeatureError(f"feature {key!r} lists {item!r}, which is not a string")
                names.append(f"{key}:{_text(item)}")
        else:
            raise BadFeatureError(_complaint(key, value))

    def _read_number(self, key: str, value: Any, names: list[str], total: int) -> None:
        if value == 0:
            return
        if value != 1:
            if not abs(value) <= LARGEST_FEATURE:
                raise BadFeatureError(f"feature {key!r} is {_shown(value)}; values {WAY_OUT}")
            number = float(value)
            self.weights.append((total + len(names), number))
        names.append(key)


def _shown(value: Any) -> str:
    return "a number of more than 300 digits" if isinstance(value, int) and abs(value) > 1e300 else f"{value:g}"


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def _complaint(key: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"feature {key!r} is an array; give its entries names, or use rf.formats.Sequences"
    way_out = "leave it out" if value is None else "a value is a string, number, bool, list, set or dict"
    return f"feature {key!r} has the value {value!r} ({type(value).__name__}): {way_out}"
