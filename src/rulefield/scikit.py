"""What sequence models take of scikit-learn, and what stands in for it in a process that only opens and applies them.

Importing scikit-learn takes longer than opening a model and parsing a text. ``rulefield parse`` and ``rulefield predict``
call :func:`do_without` before any estimator is imported: the names here are then stand-ins, which hold parameters and
tell fitted from unfitted, and that is all that prediction asks of them. In every other process they are scikit-learn's own.
"""

import inspect
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rulefield.exceptions import InputError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import TransformerMixin as TransformerMixin
    from sklearn.utils import check_random_state as check_random_state
    from sklearn.utils.validation import check_is_fitted as check_is_fitted

_SOURCES = {
    "BaseEstimator": "sklearn.base",
    "TransformerMixin": "sklearn.base",
    "check_is_fitted": "sklearn.utils.validation",
    "check_random_state": "sklearn.utils",
}
_without = False


def do_without() -> None:
    """Use stand-ins from now on, unless scikit-learn is loaded already: the two never mix."""
    global _without
    _without = "sklearn" not in sys.modules


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _STAND_INS[name] if _without else getattr(import_module(_SOURCES[name]), name)


class _Parameters:
    """Constructor parameters by name, as scikit-learn's ``BaseEstimator`` keeps them."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        found = inspect.signature(cls.__init__).parameters.values()
        return sorted(p.name for p in found if p.name != "self" and p.kind is not p.VAR_KEYWORD)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Any:
        """Set constructor parameters by name."""
        strange = sorted(set(params) - set(self._get_param_names()))
        if strange:
            raise InputError(f"{strange[0]!r} is no parameter of {type(self).__name__}.")
        self.__dict__.update(params)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)


class _Nothing:
    """A mixin of which prediction needs nothing."""


def _is_fitted(estimator: Any, attributes: str | None = None) -> None:
    told = getattr(estimator, "__sklearn_is_fitted__", None)
    if not (hasattr(estimator, attributes) if attributes else told is None or told()):
        raise InputError(f"this {type(estimator).__name__} is not fitted yet.")


def _random_state(seed: Any) -> Any:
    return import_module("sklearn.utils").check_random_state(seed)


_STAND_INS = {
    "BaseEstimator": _Parameters,
    "TransformerMixin": _Nothing,
    "check_is_fitted": _is_fitted,
    "check_random_state": _random_state,
}
