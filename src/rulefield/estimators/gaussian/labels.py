"""Labels of a Gaussian field: what users write, and the class numbers that fields work with; what is known beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from rulefield.estimators.gaussian.inputs import as_table, check_count, is_ragged
from rulefield.estimators.tables import KnownTable, known_rows
from rulefield.exceptions import InputError, LabelError, ModelFileError
from rulefield.forms import are_labels

MOST_OUTPUTS = 10_000_000
"""Outputs that a model file may name."""


@dataclass(frozen=True)
class LabelCodes:
    """The classes in order, and the form in which labels came.

    ``flat``: one label per instance. ``outputs``: number of outputs where all instances have the same (else 0).
    """

    values: np.ndarray
    flat: bool
    outputs: int = 0

    def check(self) -> None:
        """Refuse classes of a file that are none."""
        values = self.values
        good = values.ndim == 1 and values.dtype.kind in "biufUO" and are_labels(values.tolist())
        good = good and len(values) > 1 and not (values[1:] <= values[:-1]).any()
        if not good or not 0 <= self.outputs <= (0 if self.flat else MOST_OUTPUTS):
            raise ModelFileError("the labels of the model file are no classes in order; save the model again.")

    @property
    def classes(self) -> Any:
        """The classes as scikit-learn has them: a list of them for several outputs."""
        return [self.values] * self.outputs if self.outputs else self.values

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.values)

    @property
    def kind(self) -> Literal["binary", "classes"]:
        """Return "binary" or "classes"."""
        return "binary" if self.n_classes == 2 else "classes"

    def encode(self, known: KnownTable, sizes: np.ndarray) -> np.ndarray:
        """Class numbers of labels known beforehand, (n_instances, n_nodes); NaN where a label is unknown."""
        return as_table([self._encode_row(row) for row in known_vectors(known, sizes)])

    def _encode_row(self, row: np.ndarray) -> np.ndarray:
        if row.dtype.kind == "f" and self.values.dtype.kind in "iubf":
            values, unknown = self.values.astype(float), np.isnan(row)
            strange = row[~unknown & ~np.isin(row, values)]
            codes = np.where(unknown, np.nan, np.searchsorted(values, row))
        else:
            number = {value: float(k) for k, value in enumerate(self.values.tolist())} | {None: np.nan}
            strange = np.array([label for label in row.tolist() if label not in number], dtype=object)
            codes = np.array([number.get(label, np.nan) for label in row.tolist()])
        if len(strange):
            shown = f"{strange[0]:g}" if isinstance(strange[0], float) else repr(strange[0])
            raise LabelError(f"known holds the label {shown}, which is none of the classes {self.values.tolist()}.")
        return codes


def read_labels(X: Any, y: Any) -> tuple[LabelCodes, np.ndarray]:
    """Check the labels of a training set; return their classes and class numbers, (n_instances, n_outputs)."""
    check_count(X, y)
    if not is_list_of_vectors(y):
        y = np.asarray(y)
        if y.ndim == 1:
            return _read_flat(y)
        if y.ndim != 2:
            raise LabelError(f"y must have one or two dimensions; got {y.ndim}.")
    table = as_table(y)
    if np.isinf(table).any():
        raise LabelError("Input y contains infinity; NaN marks an unknown label.")
    values = np.unique(table[~np.isnan(table)])
    if len(values) < 2:
        raise LabelError(f"y must hold at least two classes; its labels contain {len(values)} class.")
    if (len(values) == 2 and set(values) != {0.0, 1.0}) or not np.all(values == np.round(values)):
        raise LabelError(f"y in two dimensions must hold 0 / 1 or whole class numbers; got {values[:5]}.")
    codes = np.where(np.isnan(table), np.nan, np.searchsorted(values, table))
    return LabelCodes(values.astype(int), False, 0 if is_ragged(X) else table.shape[1]), codes


def _read_flat(y: np.ndarray) -> tuple[LabelCodes, np.ndarray]:
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise LabelError("Input y contains NaN or infinity; unknown labels need a two-dimensional y.")
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise LabelError(f"y must hold at least two classes; it contains {len(classes)} class.")
    return LabelCodes(classes, True), codes[:, None].astype(float)


def is_list_of_vectors(y: Any) -> bool:
    """Whether y is a list of one label vector per instance."""
    return isinstance(y, (list, tuple)) and len(y) > 0 and np.ndim(y[0]) == 1


def known_vectors(known: KnownTable, sizes: np.ndarray) -> list[np.ndarray]:
    """Known labels of each instance: floats with NaN where unknown, or objects with None; ``sizes`` in nodes."""
    if isinstance(known, np.ndarray) and known.dtype.kind in "iubf":
        rows: list[Any] = list(known.astype(float).reshape(len(known), -1))
    else:
        rows = [row if row is None else _as_vector(row) for row in known_rows(known, len(sizes))]
    if len(rows) != len(sizes):
        raise InputError(f"known must hold a row for each of {len(sizes)} instances; got {len(rows)}.")
    for j, (row, size) in enumerate(zip(rows, sizes)):
        if row is not None and len(row) != size:
            raise InputError(f"known[{j}] must hold {size} labels; got {len(row)}.")
    return [np.full(size, np.nan) if row is None else row for row, size in zip(rows, sizes)]


def _as_vector(row: Sequence[Any]) -> np.ndarray:
    """Return numbers as floats with NaN where unknown; anything else as objects with None."""
    if all(value is None or isinstance(value, int | float | np.number | np.bool_) for value in row):
        return np.array([np.nan if value is None else float(value) for value in row])
    out = np.empty(len(row), dtype=object)
    out[:] = list(row)
    return out
