"""The options of ChainCRF, checked, with the names of sklearn-crfsuite translated."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

from rulefield.encode.schemes import as_scheme
from rulefield.exceptions import InputError
from rulefield.parallel import n_threads

ALGORITHMS = ("lbfgs", "sgd", "perceptron", "ssvm")
_CRFSUITE_ALGORITHMS = {"l2sgd": "sgd", "ap": "perceptron"}


@dataclass(frozen=True)
class ChainOptions:
    """What a fit of a chain is told, after checks."""

    algorithm: str
    l1: float
    l2: float
    max_iter: int | None
    tol: float | None
    min_count: int
    all_states: bool
    all_transitions: bool
    patience: int | None
    n_jobs: int


def chain_options(estimator: Any) -> ChainOptions:
    """Read and check the parameters of a ChainCRF; raise a sentence that names the parameter and its range."""
    e = estimator
    as_scheme(e.scheme)
    algorithm = _CRFSUITE_ALGORITHMS.get(e.algorithm, e.algorithm)
    if algorithm not in ALGORITHMS:
        raise InputError(f"algorithm must be one of {', '.join(ALGORITHMS)} (or l2sgd, ap); got {e.algorithm!r}.")
    # CRFsuite writes its penalty c2 |w|^2, we write (l2 / 2) |w|^2
    l1 = _number("l1" if e.c1 is None else "c1", e.l1 if e.c1 is None else e.c1)
    l2 = _number("l2", e.l2) if e.c2 is None else 2 * _number("c2", e.c2)
    if algorithm != "lbfgs" and l1 > 0:
        raise InputError(f"l1 = {l1} needs algorithm='lbfgs'; {algorithm} has no L1 penalty.")
    if algorithm == "ssvm" and l2 == 0:
        raise InputError("algorithm='ssvm' needs l2 > 0: without it the margin has no scale.")
    max_iter = e.max_iter if e.max_iterations is None else e.max_iterations
    return ChainOptions(
        algorithm=algorithm,
        l1=l1,
        l2=l2,
        max_iter=None if max_iter is None else _whole("max_iter", max_iter, 1),
        tol=None if e.tol is None else _number("tol", e.tol),
        min_count=_whole("min_count", _first(e.min_freq, e.min_count), 0),
        all_states=bool(_first(e.all_possible_states, e.all_states)),
        all_transitions=bool(_first(e.all_possible_transitions, e.all_transitions)),
        patience=None if e.early_stopping is None else _whole("early_stopping", e.early_stopping, 1),
        n_jobs=n_threads(e.n_jobs),
    )


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < float("inf"):
        raise InputError(f"{name} must be a finite number >= 0; got {value!r}.")
    return float(value)


def _whole(name: str, value: Any, least: int) -> int:
    whole = isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()
    if not whole or value < least:
        raise InputError(f"{name} must be a whole number >= {least}; got {value!r}.")
    return int(value)
