"""Why a sequence got its labels, token by token: what the explanations of chains and of segments share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rulefield.estimators.labelings import BrokenRule
from rulefield.exceptions import InputError
from rulefield.models.pairs import CsrRows, PairTable, every_value

Contribution = tuple[str, float]
Found = TypeVar("Found")


@dataclass(frozen=True)
class TokenExplanation:
    """Why a token got its label rather than the runner-up.

    ``features`` and ``transitions`` list what the label scored from each, minus what the runner-up would have
    (with its neighbors as they are); the largest in absolute value come first. ``margin`` is their total.
    """

    token: Any
    label: Any
    probability: float
    runner_up: Any
    runner_up_probability: float
    margin: float
    features: tuple[Contribution, ...]
    transitions: tuple[Contribution, ...]

    def __str__(self) -> str:
        head = f"{self.token!s:20.20} {self.label!s:14} {self.probability:6.1%}"
        parts = ", ".join(f"{name} {value:+.2f}" for name, value in (*self.features, *self.transitions))
        return f"{head}  over {self.runner_up!s} {self.runner_up_probability:.1%}: {parts}"


@dataclass(frozen=True)
class Explanation:
    """Why one sequence got its labels, token by token, and which rules they break.

    Where rules decided, the label may score less than the runner-up: ``margin`` is the model's own.
    """

    tokens: tuple[TokenExplanation, ...]
    broken: tuple[BrokenRule, ...] = ()
    note: str = ""

    def _repr_html_(self) -> str:
        from rulefield.report.notebook import explanation_html

        return explanation_html(self)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.tokens, *self.broken, *([self.note] if self.note else []))))


@dataclass(frozen=True)
class ModelExplanation:
    """The largest weights of a model: features by label, transitions, starts and ends."""

    features: dict[Any, tuple[Contribution, ...]]
    transitions: tuple[tuple[Any, Any, float], ...]
    start: tuple[tuple[Any, float], ...]
    end: tuple[tuple[Any, float], ...]

    def _repr_html_(self) -> str:
        from rulefield.report.notebook import weights_html

        return weights_html(self)

    def __str__(self) -> str:
        lines = ["transitions"]
        lines += [f"  {a} -> {b}  {w:+.3f}" for a, b, w in self.transitions]
        for label, rows in self.features.items():
            lines += [f"{label}", *(f"  {w:+.3f}  {name}" for name, w in rows)]
        return "\n".join(lines)


class Weight(NamedTuple):
    """One weight of a sequence model.

    ``feature`` is None for a plain transition; ``previous`` is None for a weight that looks at one label only, and
    ``"(start)"`` for the first label of a sequence; ``label`` is ``"(end)"`` after its last label.
    """

    feature: str | None
    previous: Any
    label: Any
    weight: float


def explain_weights(
    model: Any,
    labels: list[Any],
    features: dict[Any, tuple[Contribution, ...]],
    weights: tuple[np.ndarray, np.ndarray, np.ndarray],
    top: int,
) -> ModelExplanation:
    """Return weights by name: those of features, and of transitions, starts and ends as a model of sequences lists them."""
    moves, start, end = weights
    steps = [
        (labels[model.transition_from[i]], labels[model.transition_to[i]], float(moves[i]))
        for i in largest(moves, 2 * top)
    ]
    ends = ((model.start_label, start), (model.end_label, end))
    return ModelExplanation(
        features, tuple(steps), *(tuple((labels[k], float(w)) for k, w in zip(places, own)) for places, own in ends)
    )


def pair_weights(table: PairTable, weights: np.ndarray, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the weights of (feature, label) pairs; 0 for those that have none."""
    if not len(table.label):
        return np.zeros(len(features))
    low, stop = (table.ptr[features + k].astype(np.int64) for k in (0, 1))
    last = len(table.label) - 1
    high = stop
    for _ in range(int(table.n_labels).bit_length()):
        middle = (low + high) // 2
        below = (middle < high) & (table.label[np.minimum(middle, last)] < labels)
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    place = np.minimum(low, last)
    return np.where((low < stop) & (table.label[place] == labels), weights[place], 0.0)


def feature_differences(
    table: PairTable,
    weights: np.ndarray,
    rows: CsrRows,
    labels: np.ndarray,
    others: np.ndarray,
    names: Sequence[str],
    top: int,
) -> tuple[np.ndarray, list[list[Contribution]]]:
    """Return what features score for each row's label above the other: sums (rows,), and the ``top`` largest parts."""
    n, values = len(labels), every_value(rows)
    token = np.repeat(np.arange(n), np.diff(rows[0]).astype(np.int64))
    own = slice(int(rows[0][0]), int(rows[0][-1]))
    features = rows[1][own].astype(np.int64)
    gain = pair_weights(table, weights, features, labels[token]) - pair_weights(
        table, weights, features, others[token]
    )
    keys, place = np.unique(token * table.n_features + features, return_inverse=True)
    value = np.bincount(place, values[own] * gain, len(keys))
    token, features = keys // table.n_features, keys % table.n_features
    order = np.lexsort((-np.abs(value), token))
    begins = np.searchsorted(token, np.arange(n))
    kept = order[(np.arange(len(order)) - begins[token] < top) & (value[order] != 0)]
    found: list[list[Contribution]] = [[] for _ in range(n)]
    for t, feature, part in zip(token[kept].tolist(), features[kept].tolist(), value[kept].tolist()):
        found[t].append((names[feature], part))
    return np.bincount(token, value, n), found


def differences(of: Mapping[str, float], other: Mapping[str, float]) -> list[Contribution]:
    """By name, what one label scores minus what the other does."""
    return [(name, difference(of.get(name, 0.0), other.get(name, 0.0))) for name in {**of, **other}]


def largest_features(
    table: PairTable, weights: np.ndarray, labels: list[Any], names: Sequence[str], top: int
) -> dict[Any, tuple[Contribution, ...]]:
    """Return the ``top`` features of each label with the largest weights, by absolute value."""
    feature = np.repeat(np.arange(table.n_features), table.counts)
    found = {}
    for k, label in enumerate(labels):
        own = np.flatnonzero(table.label == k)
        best = own[largest(weights[own], top)]
        found[label] = tuple((names[feature[i]], float(weights[i])) for i in best)
    return found


def most(parts: list[Contribution], top: int) -> tuple[Contribution, ...]:
    """Return the ``top`` parts that say most, either way."""
    kept = [part for part in parts if part[1] != 0]
    return tuple(sorted(kept, key=lambda part: -abs(part[1]))[:top])


def difference(a: float, b: float) -> float:
    """Return a - b; 0 where both are forbidden."""
    return float(a - b) if a > -np.inf or b > -np.inf else 0.0


def label_differences(scores: np.ndarray, labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return by how much each row (n, m) scores its label above the other; 0 where both are forbidden."""
    rows = np.arange(len(labels))
    one, other = scores[rows, labels], scores[rows, others]
    return np.subtract(one, other, out=np.zeros(len(rows)), where=(one > -np.inf) | (other > -np.inf))


def runner_up(probability: np.ndarray, label: int) -> int:
    """Return the most probable label but that one (that one if there is no other)."""
    others = probability.copy()
    others[label] = -1.0
    return int(others.argmax()) if len(others) > 1 else label


def largest(values: np.ndarray, top: int) -> np.ndarray:
    """Places of the ``top`` largest values, by absolute value."""
    return np.argsort(-np.abs(values), kind="stable")[:top]


def with_rules_or_without(under_rules: Callable[[], Found], plain: Callable[[], Found]) -> tuple[Found, str]:
    """Return probabilities under rules, or, with a note, those without where rules are too many to sum over."""
    try:
        return under_rules(), ""
    except InputError as error:
        return plain(), f"probabilities are those of the model without its rules: {error}"
