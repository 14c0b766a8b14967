"""What constructor parameters may be: a table per estimator, one check, one wording.

An estimator writes down ``_parameters = {"l2": number(), "method": one_of("soft", "two_stage"), ...}`` and calls
:func:`check_parameters` at the start of ``fit``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from sys import float_info
from typing import Any, Protocol

import numpy as np

from rulefield.encode.schemes import as_scheme
from rulefield.exceptions import InputError
from rulefield.parallel import n_threads
from rulefield.scikit import LARGEST_SEED


@dataclass(frozen=True)
class Requirement:
    """What a parameter must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


LARGEST_WHOLE = 2**63 - 1
"""What compiled code can count to."""
Table = Mapping[str, Requirement]


class Parametrized(Protocol):
    """An estimator with a table of its parameters."""

    @property
    def _parameters(self) -> Table: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters."""


def check_parameters(estimator: Parametrized) -> None:
    """Refuse the first parameter that is not what its table says, in one sentence."""
    for name, required in estimator._parameters.items():
        check_value(name, getattr(estimator, name), required)


def check_value(name: str, value: object, required: Requirement) -> None:
    """Refuse a value that is not what it must be, in one sentence."""
    if not required.holds(value):
        raise InputError(f"{name} must be {required.words}; got {value!r}.")


def number(least: float = 0.0, most: float = np.inf, *, above: bool = False) -> Requirement:
    """Return the requirement of a finite number >= ``least`` (> with ``above``) and <= ``most``."""

    def holds(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real) or not abs(value) <= float_info.max:  # type: ignore[operator]
            return False  # a whole number of 400 digits is no float
        given = float(value)
        return (given > least if above else given >= least) and given <= most

    limit = f"{'>' if above else '>='} {least:g}" + (f" and <= {most:g}" if np.isfinite(most) else "")
    return Requirement(f"a finite number {limit}", holds)


def whole(least: int, most: int = LARGEST_WHOLE) -> Requirement:
    """Return the requirement of a whole number from ``least`` to ``most``."""
    limit = f">= {least}" if most == LARGEST_WHOLE else f"from {least} to {most}"
    return Requirement(
        f"a whole number {limit}",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most,
    )


def one_of(*choices: str) -> Requirement:
    """Return the requirement of one of a few words."""
    return Requirement(
        f"one of {', '.join(map(repr, choices))}", lambda value: isinstance(value, str) and value in choices
    )


def optional(required: Requirement) -> Requirement:
    """Allow None, too."""
    return Requirement(f"None or {required.words}", lambda value: value is None or required.holds(value))


def either(*requirements: Requirement) -> Requirement:
    """Return the requirement that one of several holds."""
    return Requirement(
        " or ".join(r.words for r in requirements), lambda value: any(r.holds(value) for r in requirements)
    )


def instance_of(words: str, *types: type) -> Requirement:
    """Return the requirement of an object of one of these types."""
    return Requirement(words, lambda value: isinstance(value, types))


def list_of(words: str, *types: type) -> Requirement:
    """Return the requirement of a list or tuple of objects of these types."""
    return Requirement(
        words, lambda value: isinstance(value, list | tuple) and all(isinstance(item, types) for item in value)
    )


def having(words: str, *methods: str) -> Requirement:
    """Return the requirement of an object with these methods."""
    return Requirement(words, lambda value: all(callable(getattr(value, name, None)) for name in methods))


def anything(words: str = "anything") -> Requirement:
    """Require nothing here: the words document a parameter that is checked where it is read."""
    return Requirement(words, lambda value: True)


def _is_scheme(value: str | None) -> bool:
    as_scheme(value)  # raises its own sentence, with the nearest name
    return True


def _is_rule(value: object) -> bool:
    return type(value).__module__.startswith("rulefield.rules")


def _are_rules(value: object) -> bool:
    return _is_rule(value) or (isinstance(value, list | tuple) and all(_is_rule(rule) for rule in value))


def _is_expectation(value: object) -> bool:
    return (type(value).__module__, type(value).__name__) == ("rulefield.rules.expectations", "Expectation")


def _are_expectations(value: object) -> bool:
    return value is None or (isinstance(value, list | tuple) and all(map(_is_expectation, value)))


def _keeps_expectations(value: object) -> bool:
    return type(value).__module__ == "rulefield.estimators.expectations" or _are_expectations(value)


def rule_list(rules: Any) -> list[Any]:
    """Return rules as a list: one rule by itself is a list of one, None is an empty list."""
    if rules is None:
        return []
    return list(rules) if isinstance(rules, Iterable) and not isinstance(rules, str) else [rules]


def _is_thread_count(value: int | None) -> bool:
    n_threads(value)  # raises its own sentence
    return True


EXPECTATIONS = Requirement("a list of expectations, such as share('B-PER').between(.04, .06)", _are_expectations)
FLAG = instance_of("True or False", bool, np.bool_)
KEEPER = Requirement(
    "a list of expectations, a PosteriorRegularization or a GeneralizedExpectation", _keeps_expectations
)
LABEL = instance_of("one label (a string or a number)", str, int, float, np.generic)
N_JOBS = Requirement("a whole number of threads, or -1 for all cores", _is_thread_count)
ON_INFEASIBLE = one_of("raise", "relax")
RANDOM_STATE = optional(either(whole(0, LARGEST_SEED), instance_of("a RandomState", np.random.RandomState)))
SOME_RULES = Requirement("a rule or a list of rules", _are_rules)
RULES = optional(SOME_RULES)
SCHEME = Requirement("a label scheme", _is_scheme)
TRANSFORMER = optional(having("an object with transform()", "transform"))
VERBOSE = either(FLAG, whole(0))

MOST_LISTED = 100_000
"""Labelings of one sequence that are listed; more would fill the memory."""
MOST_DRAWN = 1_000_000
"""Labelings of one sequence that are drawn."""
_CALLS: Table = {
    "k": whole(1, MOST_LISTED),
    "n_samples": whole(1, MOST_DRAWN),
    "node_limit": optional(whole(0)),
    "seconds": optional(number()),
}


def check_call(**given: object) -> None:
    """Refuse an argument of a prediction that is not what its name asks for."""
    for name, value in given.items():
        check_value(name, value, _CALLS[name])
