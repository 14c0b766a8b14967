"""The declared form of what a model file holds: one table of arrays per estimator, one check, before a kernel sees them.

Kernels check nothing: a pointer or a label beyond its table makes them read or write memory that is not theirs. A
table says for every array its type, its shape in named sizes, and what its values may be::

    {"pair_ptr": pointers("features", into="pairs"), "pair_label": index("pairs", below="labels")}

A size is known beforehand (the number of labels), or is what the first array says that has it. Checking is linear, a
few passes over each array: little next to the digest. Metadata is held to type hints by :func:`check_typed`.
"""

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from rulefield.exceptions import ModelFileError, RulefieldError

Record = TypeVar("Record")
Sizes = dict[str, int]
Label = str | int | float | bool
"""What a label in a file may be."""
_least, _most, _every = (
    np.minimum.reduce,
    np.maximum.reduce,
    np.logical_and.reduce,
)  # a method of an array costs twice that
LARGEST_WEIGHT = 1e100
"""Weights are finite, and so small that sums of them are finite."""


@dataclass(frozen=True)
class Form:
    """What an array must be.

    Parameters
    ----------
    dtypes : tuple of str
        One of these, by numpy's names.
    shape : tuple of str
        One entry per axis: a sum of sizes and numbers, or of products of them, such as ``labels*labels`` and ``rows+1``.
    below : str
        Values are >= 0 and smaller than this size.
    into : str
        Values are pointers: 0 first, never falling, this size last.
    ascending : bool
        Every value is larger than the one before.
    rows : str
        Values are ascending between any two of the pointers in the array of this name.
    least : float or None
        Values are finite and not smaller.
    """

    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    below: str = ""
    into: str = ""
    ascending: bool = False
    rows: str = ""
    least: float | None = None


Forms = Mapping[str, Form]


def pointers(rows: str, into: str) -> Form:
    """Where each of ``rows`` begins and ends in arrays of the size ``into``: ``rows + 1`` numbers."""
    return Form(("uint64",), (f"{rows}+1",), into=into)


def index(size: str, below: str, *, ascending: bool = False, rows: str = "", dtype: str = "uint32") -> Form:
    """``size`` numbers of things of which there are ``below``."""
    return Form((dtype,), (size,), below=below, ascending=ascending, rows=rows)


def flags(*shape: str) -> Form:
    """Truth values."""
    return Form(("bool",), shape)


def weights(*shape: str) -> Form:
    """Finite numbers."""
    return Form(("float64",), shape, least=-LARGEST_WEIGHT)


def check_arrays(arrays: Mapping[str, np.ndarray], forms: Forms, sizes: Mapping[str, int]) -> Sizes:
    """Hold arrays against a table, in its order; return all sizes.

    Raises
    ------
    ModelFileError
        An array is missing, or is not what its form says.
    """
    known = dict(sizes)
    for name, form in forms.items():
        if name not in arrays:
            raise ModelFileError(f"the model file lacks the array {name!r}; save the model again.")
        problem = _problem(arrays[name], form, known, arrays)
        if problem:
            raise ModelFileError(f"the array {name!r} of the model file {problem}; save the model again.")
    return known


@cache
def forms_of(cls: type) -> Forms:
    """Return the forms of a dataclass's arrays: fields declared as ``Annotated[np.ndarray, Form]``."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {
        field.name: form
        for field in fields(cls)
        for form in getattr(hints[field.name], "__metadata__", ())
        if isinstance(form, Form)
    }


def check_record(cls: type, values: Mapping[str, Any]) -> None:
    """Hold values against the types and forms of a dataclass's fields; its whole numbers are sizes of its arrays."""
    hints = typing.get_type_hints(cls)
    for name, value in values.items():
        check_typed(value, hints.get(name, Any), f"{name} of a {cls.__name__}")
    check_arrays(values, forms_of(cls), {name: value for name, value in values.items() if type(value) is int})


def arrays_of(record: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Return the fields of a dataclass of arrays and whole numbers, and of those in it, as named arrays."""
    arrays: dict[str, np.ndarray] = {}
    for field in fields(record):
        value, name = getattr(record, field.name), prefix + field.name
        arrays |= arrays_of(value, f"{name}.") if is_dataclass(value) else {name: np.atleast_1d(value)}
    return arrays


def record_of(cls: Callable[..., Record], arrays: Mapping[str, np.ndarray], prefix: str = "") -> Record:
    """Undo :func:`arrays_of`; nothing is checked."""
    values: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(cls).items():
        if is_dataclass(hint):
            values[name] = record_of(hint, arrays, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            array = arrays[prefix + name]
            values[name] = int(array[0]) if hint is int else array
    return cls(**values)


def sparse_matrix(parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Any:
    """Return the CSR matrix of ``data``, ``indices`` and ``indptr``; scipy's own check looks at the ends only."""
    integer = ("int32", "int64")
    forms = {
        "indptr": Form(integer, ("rows+1",), into="entries"),
        "indices": Form(integer, ("entries",), below="columns", rows="indptr"),
        "data": Form(("float64", "float32", "int64", "bool"), ("entries",)),
    }
    if len(shape) != 2 or min(shape) < 0:
        raise ModelFileError(f"a sparse matrix of the model file has the shape {shape}; save the model again.")
    check_arrays(parts, forms, {"rows": shape[0], "columns": shape[1]})
    from scipy.sparse import csr_array  # slow to load, and few models hold one

    return csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=shape)


def checked_flags(array: np.ndarray) -> np.ndarray:
    """Return an array; one of truth values must hold 0 and 1 only (a file may hold any byte)."""
    if array.dtype == bool and not (array.view(np.uint8) <= 1).all():
        raise ModelFileError("an array of truth values holds other bytes than 0 and 1; save the model again.")
    return array


class FileArrays(dict[str, np.ndarray]):
    """The arrays of a model file, which remember who was read: one that nothing reads has no form, and is refused."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        super().__init__(arrays)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> np.ndarray:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an array, or ``default``."""
        self.read.add(name)
        return super().get(name, default)

    def check_nothing_else(self) -> None:
        """Refuse arrays that were never read."""
        strange = set(self) - self.read
        if strange:
            raise ModelFileError(
                f"the model file holds an array {min(strange)!r} that this model has no use for; save the model again."
            )


def part_of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with ``prefix``, without it: those of a model within the model."""
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}


def _problem(array: np.ndarray, form: Form, sizes: Sizes, arrays: Mapping[str, np.ndarray]) -> str:
    """Say what is wrong with an array, or nothing."""
    if array.dtype not in _dtypes(form.dtypes):
        return f"holds {array.dtype.name} where {' or '.join(form.dtypes)} is needed"
    if array.ndim != len(form.shape):
        return f"has {array.ndim} axes where {len(form.shape)} are needed"
    for have, expression in zip(array.shape, form.shape):
        if not _fits(expression, have, sizes):
            return f"has the shape {array.shape}, which does not fit the others ({', '.join(form.shape)})"
    return _bad_values(array, form, sizes, arrays)


@cache
def _dtypes(names: tuple[str, ...]) -> tuple[np.dtype, ...]:
    return tuple(map(np.dtype, names))


def _bad_values(array: np.ndarray, form: Form, sizes: Sizes, arrays: Mapping[str, np.ndarray]) -> str:
    if array.dtype == bool:
        return "" if _most(array.view(np.uint8), axis=None, initial=0) <= 1 else "holds bytes other than 0 and 1"
    if form.into and not _are_pointers(array, form.into, sizes):
        return f"must rise from 0 to the number of {form.into}"
    if form.below and array.size and not _within(array, _size(form.below, sizes)):
        return f"points beyond the number of {form.below}"
    if form.ascending and not _every(array[1:] > array[:-1]):
        return "must be ascending"
    if form.rows and not _rows_ascend(array, arrays[form.rows]):
        return f"must be ascending in every row of {form.rows}"
    if (
        form.least is not None
        and array.size
        and not form.least <= _least(array, None) <= _most(array, None) <= LARGEST_WEIGHT
    ):
        return "holds values that are not finite, or too large or too small"
    return ""


def _within(array: np.ndarray, size: int) -> bool:
    return int(_most(array, None)) < size and (array.dtype.kind == "u" or int(_least(array, None)) >= 0)


def _are_pointers(array: np.ndarray, into: str, sizes: Sizes) -> bool:
    last = int(array[-1])
    return array[0] == 0 and bool(_every(array[1:] >= array[:-1])) and _fits(into, last, sizes)


def _rows_ascend(values: np.ndarray, starts: np.ndarray) -> bool:
    """Whether values rise within rows; ``starts`` was checked before."""
    if not len(values):
        return True
    rises = np.ones(len(values), np.bool_)
    np.greater(values[1:], values[:-1], out=rises[1:])
    rises[starts[: np.searchsorted(starts, starts.dtype.type(len(values)))].view(f"i{starts.itemsize}")] = True
    return bool(_every(rises))


def _fits(expression: str, have: int, sizes: Sizes) -> bool:
    """Whether an expression has this value; a single unknown size takes the value that makes it so."""
    rest, unknown = 0, ""
    for number, factors in _terms(expression):
        if not unknown and number == 1 and len(factors) == 1 and factors[0] not in sizes:
            unknown = factors[0]
            continue
        for factor in factors:
            number *= sizes[factor]
        rest += number
    if not unknown:
        return rest == have
    sizes[unknown] = have - rest
    return have >= rest


def _size(expression: str, sizes: Sizes) -> int:
    return sum(number * prod(sizes[factor] for factor in factors) for number, factors in _terms(expression))


@cache
def _terms(expression: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Read a sum of products: a number and names of sizes per term."""
    made = []
    for term in expression.split("+"):
        factors = term.split("*")
        made.append((prod(int(f) for f in factors if f.isdigit()), tuple(f for f in factors if not f.isdigit())))
    return tuple(made)


@contextmanager
def refused_as_file() -> Iterator[None]:
    """Turn what a constructor makes of altered values into :class:`ModelFileError`."""
    try:
        yield
    except ModelFileError:
        raise
    except (
        RulefieldError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise ModelFileError(
            f"the model file cannot be used ({type(error).__name__}: {str(error)[:200]}); save the model again."
        ) from error


# --- metadata -------------------------------------------------------------------------------------


def are_labels(labels: typing.Sequence[Any]) -> bool:
    """Whether there are labels, each of them once, and no NaN among them (which equals nothing, itself included)."""
    return len(labels) > 0 and len(set(labels)) == len(labels) and all(label == label for label in labels)


def check_typed(value: Any, hint: Any, where: str) -> None:
    """Refuse a value of the metadata that is not what a type hint says; ``where`` names it."""
    if not conforms(value, hint):
        raise ModelFileError(f"{where} of the model file is {value!r:.60}, which is no {_name(hint)}; save it again.")


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is what a type hint says: classes, unions, lists, tuples, sets, dicts, literals and TypedDicts.

    ``int`` excludes bool, ``float`` takes whole numbers too.
    """
    return _test(hint)(value)


_Test = Callable[[Any], bool]


@cache
def _test(hint: Any) -> _Test:
    """Return the test of a hint: hints are few, and reading one takes longer than testing a value."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return lambda value: True
    if typing.is_typeddict(hint):
        return _typed_dict_test({key: _test(one) for key, one in typing.get_type_hints(hint).items()})
    if origin in (typing.Union, types.UnionType):
        options = [_test(option) for option in inner]
        return lambda value: any(option(value) for option in options)
    if origin is typing.Literal:
        return lambda value: any(value == option and type(value) is type(option) for option in inner)
    if origin in (dict, Mapping):
        key, item = _test(inner[0]), _test(inner[1])
        return lambda value: isinstance(value, dict) and all(map(key, value)) and all(map(item, value.values()))
    if origin is tuple and inner[-1] is not Ellipsis:
        tests = [_test(one) for one in inner]
        return lambda value: (
            isinstance(value, (list, tuple))
            and len(value) == len(tests)
            and all(test(v) for test, v in zip(tests, value))
        )
    if origin in (list, tuple, frozenset):
        kinds, item = ((list, tuple) if origin is tuple else origin), _test(inner[0])  # JSON has no tuples
        return lambda value: isinstance(value, kinds) and all(map(item, value))
    if hint is None or hint is types.NoneType:
        return lambda value: value is None
    if hint in (int, float):
        numbers = (int, float) if hint is float else int
        return lambda value: isinstance(value, numbers) and not isinstance(value, bool)
    return lambda value: isinstance(value, hint)


def _typed_dict_test(wanted: dict[str, _Test]) -> _Test:
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == wanted.keys()
        and all(test(value[key]) for key, test in wanted.items())
    )


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", None) if typing.get_origin(hint) is None else str(hint)  # type: ignore[return-value]
