"""Arrays of models, declared once on the dataclasses that hold them: named arrays out, checked models back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import prod
from typing import Any, TypeVar, get_type_hints

import numpy as np

from rulefield.forms import Form, Forms, Sizes, check_arrays, pair_table
from rulefield.models.pairs import PairTable

Model = TypeVar("Model")


@dataclass(frozen=True)
class Pairs:
    """Declares a :class:`PairTable` of the size ``size`` whose labels are below ``labels``."""

    size: str
    labels: str


@cache
def _declared(cls: Any) -> tuple[tuple[str, Form | Pairs], ...]:
    """Return the fields of a dataclass that are declared as ``Annotated[..., Form or Pairs]``."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        (field.name, form) for field in fields(cls) for form in getattr(hints[field.name], "__metadata__", ())
    )


def arrays_of(model: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Return the declared arrays of a model by name."""
    arrays: dict[str, np.ndarray] = {}
    for name, form in _declared(model.__class__):
        value = getattr(model, name)
        parts = {f"{name}_ptr": value.ptr, f"{name}_label": value.label} if isinstance(form, Pairs) else {name: value}
        arrays |= {prefix + part: array for part, array in parts.items()}
    return arrays


def check_model(cls: type, arrays: Mapping[str, np.ndarray], sizes: Sizes, prefix: str = "") -> Sizes:
    """Hold arrays of a file against what a model declares; return all sizes."""
    forms: dict[str, Form] = {}
    for name, form in _declared(cls):
        forms |= pair_table(name, form.size, form.labels) if isinstance(form, Pairs) else {name: form}
    named: Forms = {prefix + name: form.within(prefix) for name, form in forms.items()}
    return check_arrays(arrays, named, sizes)


def model_of(
    cls: Callable[..., Model], arrays: Mapping[str, np.ndarray], n_labels: int, prefix: str = "", **rest: Any
) -> Model:
    """Undo :func:`arrays_of`, for arrays that were checked; ``rest`` are the fields that are no arrays."""
    parts: dict[str, Any] = {}
    for name, form in _declared(cls):
        if isinstance(form, Pairs):
            ptr, label = arrays[f"{prefix}{name}_ptr"], arrays[f"{prefix}{name}_label"]
            parts[name] = PairTable(ptr, label, prod(n_labels for _ in form.labels.split("*")))
        else:
            parts[name] = arrays[prefix + name]
    features = next(value.n_features for value in parts.values() if isinstance(value, PairTable))
    return cls(n_labels=n_labels, n_features=features, **parts, **rest)
