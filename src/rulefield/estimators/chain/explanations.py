"""Why a chain gave its labels: weights of the model, and what decided one prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.labelings import BrokenRule
from rulefield.models.chain import ChainModel

Contribution = tuple[str, float]


@dataclass(frozen=True)
class TokenExplanation:
    """Why a token got its label rather than the runner-up.

    ``features`` and ``transitions`` list what the label scored from each, minus what the runner-up would have
    (with its neighbours as they are); the largest in absolute value come first. ``margin`` is their total.
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


def explain_model(
    model: ChainModel, theta: np.ndarray, labels: list[Any], names: list[str], top: int
) -> ModelExplanation:
    """Return the ``top`` largest weights, by absolute value, of each label and of the transitions."""
    weights, ptr = model.layout.state(theta), model.pairs.ptr.astype(np.int64)
    feature = np.repeat(np.arange(model.n_features), ptr[1:] - ptr[:-1])
    features = {}
    for k, label in enumerate(labels):
        own = np.flatnonzero(model.pairs.label == k)
        best = own[_largest(weights[own], top)]
        features[label] = tuple((names[feature[i]], float(weights[i])) for i in best)
    moves = model.layout.transition(theta)
    transitions = tuple(
        (labels[model.transition_from[i]], labels[model.transition_to[i]], float(moves[i]))
        for i in _largest(moves, top * 2)
    )
    return ModelExplanation(
        features,
        transitions,
        tuple((labels[k], float(w)) for k, w in zip(model.start_label, model.layout.start(theta))),
        tuple((labels[k], float(w)) for k, w in zip(model.end_label, model.layout.end(theta))),
    )


class ChainExplainer:
    """Explains predictions of one chain model.

    ``beside`` lists what else scores labels at each token, by name: scores (n, n_labels) of a joint model's other tasks.
    """

    def __init__(
        self,
        model: ChainModel,
        theta: np.ndarray,
        labels: list[Any],
        names: list[str],
        top: int,
        beside: Sequence[tuple[str, np.ndarray]] = (),
    ):
        self.model, self.theta, self.labels, self.names, self.top = model, theta, labels, names, top
        self.beside = beside

    def explain(
        self,
        tokens: list[Any],
        data: Sequences,
        path: np.ndarray,
        marginals: np.ndarray,
        broken: tuple[BrokenRule, ...] = (),
        note: str = "",
    ) -> Explanation:
        """Explain labels ``path`` (n,) of the only sequence of ``data``, given node ``marginals`` (n, n_labels)."""
        potentials = self.model.potentials(self.theta, data, 0)
        steps = potentials.pairwise_stack
        rows = self.model.rows(data, 0)
        ends = self.model.start_scores(self.theta), self.model.end_scores(self.theta)
        beside = self.beside if data.scores is None else [*self.beside, ("given score", data.scores)]
        parts = []
        for t in range(len(path)):
            label, other = int(path[t]), _runner_up(marginals[t], int(path[t]))
            features = self._feature_differences(rows, t, label, other)
            moves = self._move_differences(steps, ends, path, t, other)
            moves += [(f"({name})", _difference(scores[t, label], scores[t, other])) for name, scores in beside]
            parts.append(
                TokenExplanation(
                    tokens[t],
                    self.labels[label],
                    float(marginals[t, label]),
                    self.labels[other],
                    float(marginals[t, other]),
                    sum(v for _, v in features) + sum(v for _, v in moves),
                    self._top(features),
                    self._top(moves),
                )
            )
        return Explanation(tuple(parts), broken, note)

    def _feature_differences(self, rows: tuple, t: int, label: int, other: int) -> list[Contribution]:
        indptr, indices, values = rows
        weights, table = self.model.layout.state(self.theta), self.model.pairs
        found = []
        for i in range(int(indptr[t]), int(indptr[t + 1])):
            feature = int(indices[i])
            first, last = int(table.ptr[feature]), int(table.ptr[feature + 1])
            of = dict(zip(table.label[first:last].tolist(), weights[first:last].tolist()))
            found.append((self.names[feature], float(values[i]) * (of.get(label, 0.0) - of.get(other, 0.0))))
        return found

    def _move_differences(self, steps: np.ndarray, ends: tuple, path: np.ndarray, t: int, other: int) -> list:
        label, n, found = int(path[t]), len(path), []
        if t == 0:
            found.append(("(start)", _difference(ends[0][label], ends[0][other])))
        else:
            before, step = int(path[t - 1]), steps[t - 1 if len(steps) > 1 else 0]
            found.append((f"{self.labels[before]} ->", _difference(step[before, label], step[before, other])))
        if t == n - 1:
            found.append(("(end)", _difference(ends[1][label], ends[1][other])))
        else:
            after, step = int(path[t + 1]), steps[t if len(steps) > 1 else 0]
            found.append((f"-> {self.labels[after]}", _difference(step[label, after], step[other, after])))
        return found

    def _top(self, parts: list[Contribution]) -> tuple[Contribution, ...]:
        kept = [part for part in parts if part[1] != 0]
        return tuple(sorted(kept, key=lambda part: -abs(part[1]))[: self.top])


def _difference(a: float, b: float) -> float:
    return float(a - b) if a > -np.inf or b > -np.inf else 0.0


def _runner_up(probability: np.ndarray, label: int) -> int:
    others = probability.copy()
    others[label] = -1.0
    return int(others.argmax()) if len(others) > 1 else label


def _largest(values: np.ndarray, top: int) -> np.ndarray:
    return np.argsort(-np.abs(values), kind="stable")[:top]
