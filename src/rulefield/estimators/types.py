"""What estimators are given, in types: data of many forms, labels, rules."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np

from rulefield.data.sequences import Sequences

if TYPE_CHECKING:
    from rulefield.rules.rule import Rule

ArrayLike = Sequence[float] | np.ndarray
"""One number per sequence (or instance)."""
Label = Hashable
"""One label: a string or a number."""
SequencesLike = Sequences | Sequence[Any]
"""A list of sequences of tokens, one of feature matrices, or encoded sequences."""
LabelsLike = Sequence[Any] | np.ndarray
"""Labels of each sequence (or graph): a label per token, None where unknown, a set for one of several."""
KnownLike = Sequence[Any] | np.ndarray
"""What is known beforehand: as :data:`LabelsLike`; None for a sequence of which nothing is known."""
RandomState = np.random.RandomState | int | None


class Transformer(Protocol):
    """What turns tokens into features."""

    def transform(self, X: Any, /) -> Any:
        """Return the features of every token of every sequence."""


class TokenFunction:
    """A feature function of the user's own: the tokens of one sequence in, their features out."""

    def __init__(self, function: Callable[[list[str]], Any]):
        self.function = function

    def transform(self, X: Any) -> list[Any]:
        """Features of every token of every sequence."""
        return [list(self.function(list(tokens))) for tokens in X]


def as_transformer(features: Any) -> Any:
    """Return a function of tokens as a transformer, anything else as it is."""
    return TokenFunction(features) if callable(features) and not hasattr(features, "transform") else features


Tokens = Sequence[Any]
"""One sequence, as it stands in X."""


class Predictor(Protocol):
    """An estimator of scikit-learn's kind that a Gaussian field joins."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Learn."""

    def predict(self, X: Any, /) -> Any:
        """Return labels or values."""

    def __getattr__(self, name: str) -> Any: ...


RulesLike = Union[Sequence["Rule"], "Rule"]
"""Rules, or one rule by itself."""
TasksLike = Sequence[Mapping[str, Any]]
"""Labels of each sequence by task; a task may be None or missing."""


class Client(Protocol):
    """What :class:`rulefield.parallel.Workers` asks of a ``distributed.Client``."""

    def submit(self, function: Any, /, *args: Any, **options: Any) -> Any:
        """Have a function called by a worker."""

    def scheduler_info(self, *args: Any, **options: Any) -> Any:
        """Return what the scheduler knows of workers."""
