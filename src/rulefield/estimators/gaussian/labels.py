"""Labels of a Gaussian classifier: what users write, and the class numbers that fields work with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from rulefield.estimators.gaussian.layouts import Labels, is_ragged
from rulefield.exceptions import LabelError


@dataclass(frozen=True)
class LabelCodes:
    """The classes in order, and whether labels came as one number per instance (``flat``)."""

    values: np.ndarray
    flat: bool

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.values)

    @property
    def kind(self) -> str:
        """Return "binary" or "classes"."""
        return "binary" if self.n_classes == 2 else "classes"

    def encode(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Class numbers of labels, row by row; NaN where a label is unknown (NaN or None)."""
        return [self._encode_row(row) for row in rows]

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


def read_labels(X: Any, y: Any) -> tuple[LabelCodes, Labels]:
    """Check the labels of a training set; return their classes and class numbers, (n_instances, n_outputs) or a list."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if not is_list_of_vectors(y):
        y = np.asarray(y)
        if y.ndim == 1:
            return _read_flat(y, n)
    if is_list_of_vectors(y) and len({len(v) for v in y}) > 1:
        parts = [np.asarray(v, dtype=float) for v in y]
    else:
        table = np.asarray(y, dtype=float)
        if table.ndim != 2:
            raise LabelError(f"y must have one or two dimensions; got {table.ndim}.")
        parts = list(table)
    if len(parts) != n:
        raise LabelError(f"y must hold labels of {n} instances; got {len(parts)}.")
    known = np.concatenate([p[~np.isnan(p)] for p in parts])
    if np.isinf(known).any():
        raise LabelError("Input y contains infinity; NaN marks an unknown label.")
    values = np.unique(known)
    if len(values) < 2:
        raise LabelError(f"y must hold at least two classes; its labels contain {len(values)} class.")
    if (len(values) == 2 and set(values) != {0.0, 1.0}) or not np.all(values == np.round(values)):
        raise LabelError(f"y in two dimensions must hold 0 / 1 or whole class numbers; got {values[:5]}.")
    codes = [np.where(np.isnan(p), np.nan, np.searchsorted(values, p)) for p in parts]
    ragged = len({len(p) for p in parts}) > 1 or is_ragged(X)
    return LabelCodes(values.astype(int), False), codes if ragged else np.stack(codes)


def _read_flat(y: Any, n: int) -> tuple[LabelCodes, np.ndarray]:
    y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise LabelError(f"Found input variables with inconsistent numbers of samples: {[n, len(y)]}.")
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
