"""What estimators whose X and y are tables share: numbers that can be used, labels known beforehand."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from rulefield.data.limits import WAY_OUT, usable
from rulefield.exceptions import InputError, ModelFileError

KnownTable = np.ndarray | Iterable[Any] | None
"""One row per instance: labels, None or NaN where unknown; a row may be None."""


def usable_features(X: Any) -> Any:
    """Return X (dense or sparse) if its values are small enough to be squared and summed."""
    bad = ~usable(X.data if sparse.issparse(X) else X)
    if bad.any():
        raise InputError(f"features in X {WAY_OUT}; X holds {(X.data if sparse.issparse(X) else X)[bad].flat[0]:g}.")
    return X


def check_feature_names(model: Any) -> None:
    """Refuse names of columns in a model file that are not one text for each column of X."""
    if hasattr(model, "feature_names_in_"):
        names = model.feature_names_in_.tolist()
        if len(names) != model.n_features_in_ or not all(isinstance(name, str) for name in names):
            raise ModelFileError("the model file does not name all of its features; save it again.")


def known_rows(known: KnownTable, n_rows: int) -> list[list[Any] | None]:
    """Return known labels row by row, None where unknown; labels of a one-dimensional target are rows of one."""
    if isinstance(known, str | bytes | dict) or not isinstance(known, Iterable):
        raise InputError(f"known must hold one row of labels for each instance; got {type(known).__name__}.")
    rows = [_row(given) for given in (known.to_numpy() if hasattr(known, "to_numpy") else known)]
    if len(rows) != n_rows:
        raise InputError(f"known must hold one row of labels for each of {n_rows} instances; got {len(rows)}.")
    return rows


def _row(given: Any) -> list[Any] | None:
    if given is None:
        return None
    values = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    return [None if value is None or value != value else value for value in values]
