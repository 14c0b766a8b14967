"""scikit-learn's conventions for sequence models, without importing it.

Importing scikit-learn takes longer than opening a model and parsing a text, and with what it imports in turn (scipy.stats,
pandas where that is installed) more memory than the weights of a chain. So :class:`Estimator` holds parameters and tells
fitted from unfitted by itself. What only scikit-learn asks for (tags, routing of metadata), and what only it can
give (how an estimator looks), comes from scikit-learn's own ``BaseEstimator``, at the moment when somebody asks.
"""

import inspect
import sys
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rulefield.exceptions import InputError

LARGEST_SEED = 2**32 - 1
"""What numpy's RandomState takes."""


class Estimator:
    """Constructor parameters by name, as scikit-learn's ``BaseEstimator`` keeps them: ``clone`` and searches work."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(_parameter_names(cls))  # type: ignore[arg-type]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters; with ``deep`` also those of parameters that are estimators."""
        params: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{inner}": v for inner, v in value.get_params().items()}
            params[name] = value
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of a parameter that is an estimator as ``name__inner``."""
        known = self._get_param_names()
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for {type(self).__name__}. Valid parameters are: {known!r}."
                )
            if nested:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            if getattr(self, name) is None:
                setattr(self, name, self._usual(name))
            getattr(self, name).set_params(**values)
        return self

    def _usual(self, name: str) -> Any:
        """Return the estimator that a parameter of None stands for, so that its own parameters can be set."""
        raise ValueError(f"{type(self).__name__}: {name} is None, which has no parameters; give an estimator first.")

    def __repr__(self) -> str:
        return repr(_as_scikit(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Give what only scikit-learn's base has, to those who ask for it: notebooks, and scikit-learn itself."""
            if name.startswith("_repr_") or (not name.startswith("__") and "sklearn.base" in sys.modules):
                twin = _twin(type(self))
                if twin is not type(self) and hasattr(twin, name):
                    found = getattr(_as_scikit(self), name)
                    return _returning(self, found) if name.endswith("_request") and name.startswith("set_") else found
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


class TransformerMixin:
    """What scikit-learn's pipelines ask of a transformer."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn from ``X`` and return what it is turned into."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags = TransformerTags()
        return tags


@lru_cache(maxsize=256)
def _parameter_names(cls: type) -> tuple[str, ...]:
    found = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return tuple(sorted(p.name for p in found if p.name != "self" and p.kind is not p.VAR_KEYWORD))


def _as_scikit(estimator: Estimator) -> Any:
    """Return the same estimator as one of scikit-learn's: they share their attributes."""
    made: Any = object.__new__(_twin(type(estimator)))  # type: ignore[arg-type]
    made.__dict__ = estimator.__dict__
    return made


def _returning(estimator: Estimator, method: Any) -> Any:
    """Return a method of a twin that returns the estimator instead of the twin."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Estimator:
        method(*args, **kwargs)
        return estimator

    return call


@lru_cache(maxsize=256)
def _twin(cls: type) -> type:
    from sklearn.base import BaseEstimator

    if cls.__dict__.get("__repr__") is BaseEstimator.__repr__:
        return cls  # a twin is its own
    bases = (cls,) if issubclass(cls, BaseEstimator) else (cls, BaseEstimator)
    return type(cls.__name__, bases, {"__repr__": BaseEstimator.__repr__, "__doc__": cls.__doc__})


def check_is_fitted(estimator: Any, attribute: str | None = None, *, msg: str | None = None) -> None:
    """Raise scikit-learn's ``NotFittedError`` for an estimator that was not fitted."""
    if not _is_fitted(estimator, attribute):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(msg or f"this {type(estimator).__name__} is not fitted yet; call fit before using it.")


def _is_fitted(estimator: Any, attribute: str | None) -> bool:
    if attribute is not None:
        return hasattr(estimator, attribute)
    if hasattr(estimator, "__sklearn_is_fitted__"):
        return estimator.__sklearn_is_fitted__()
    return any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))


class ConvergenceWarning(UserWarning):
    """A fit met its limit; stands for scikit-learn's warning of this name in a process that has not loaded it."""


def convergence_warning() -> type[Warning]:
    """Return scikit-learn's ``ConvergenceWarning`` where it is loaded: whoever filters or expects it has loaded it."""
    loaded = sys.modules.get("sklearn.exceptions")
    return ConvergenceWarning if loaded is None else loaded.ConvergenceWarning


def seed_of_fit(random_state: Any) -> Any:
    """Return the ``random_state`` of a fit: None is always the same seed, so that a fit can be repeated."""
    return 0 if random_state is None else random_state


def check_random_state(seed: Any) -> np.random.RandomState:
    """Return a generator for a seed: None is numpy's own, a generator itself."""
    if seed is None or seed is np.random:
        return np.random.mtrand._rand
    if isinstance(seed, (int, np.integer)) and 0 <= seed <= LARGEST_SEED:
        return np.random.RandomState(seed)
    if isinstance(seed, np.random.RandomState):
        return seed
    raise InputError(
        f"random_state must be None, a whole number from 0 to {LARGEST_SEED} or a RandomState; got {seed!r:.60}."
    )
