"""Why a chain gave its labels: weights of the model, and what decided one prediction."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.explanations import (
    ModelExplanation,
    TokenExplanation,
    Weight,
    difference,
    differences,
    explain_token,
    explain_weights,
    feature_scores,
    largest_features,
    runner_up,
)
from rulefield.models.chain import ChainModel


def explain_model(
    model: ChainModel, theta: np.ndarray, labels: list[Any], names: Sequence[str], top: int
) -> ModelExplanation:
    """Return the ``top`` largest weights, by absolute value, of each label and of the transitions."""
    layout = model.layout
    features = largest_features(model.pairs, layout.state(theta), labels, names, top)
    return explain_weights(
        model, labels, features, (layout.transition(theta), layout.start(theta), layout.end(theta)), top
    )


def weight_rows(model: ChainModel, theta: np.ndarray, labels: list[Any], names: Sequence[str]) -> list[Weight]:
    """Return every weight of a chain that is not 0, those of features first, then transitions, starts and ends."""
    layout, n = model.layout, len(labels)
    feature = np.repeat(np.arange(model.pairs.n_features), model.pairs.counts)
    step_feature = np.repeat(np.arange(model.step_pairs.n_features), model.step_pairs.counts)
    rows = [
        *(
            Weight(names[f], None, labels[k], w)
            for f, k, w in zip(feature.tolist(), model.pairs.label, layout.state(theta))
        ),
        *(
            Weight(None, labels[a], labels[b], w)
            for a, b, w in zip(model.transition_from, model.transition_to, layout.transition(theta))
        ),
        *(Weight(None, "(start)", labels[k], w) for k, w in zip(model.start_label, layout.start(theta))),
        *(Weight(None, labels[k], "(end)", w) for k, w in zip(model.end_label, layout.end(theta))),
        *(
            Weight(names[f], labels[step // n], labels[step % n], w)
            for f, step, w in zip(step_feature.tolist(), model.step_pairs.label, layout.step(theta))
        ),
    ]
    return [row._replace(weight=float(row.weight)) for row in rows if row.weight != 0]


class ChainExplainer:
    """Explains predictions of one chain model.

    ``beside`` lists what else scores labels at each token, by name: scores (n, n_labels) of a joint model's other tasks.
    """

    def __init__(
        self,
        model: ChainModel,
        theta: np.ndarray,
        labels: list[Any],
        names: Sequence[str],
        top: int,
        beside: Sequence[tuple[str, np.ndarray]] = (),
    ):
        self.model, self.theta, self.labels, self.names, self.top = model, theta, labels, names, top
        self.beside = beside

    def explain(
        self, tokens: list[Any], data: Sequences, path: np.ndarray, marginals: np.ndarray
    ) -> list[TokenExplanation]:
        """Explain labels ``path`` (n,) of the only sequence of ``data``, given node ``marginals`` (n, n_labels)."""
        potentials = self.model.potentials(self.theta, data, 0)
        steps = potentials.pairwise_stack
        rows, weights = self.model.rows(data, 0), self.model.layout.state(self.theta)
        ends = self.model.start_scores(self.theta), self.model.end_scores(self.theta)
        beside = self.beside if data.scores is None else [*self.beside, ("given score", data.scores)]
        parts = []
        for t in range(len(path)):
            label, other = int(path[t]), runner_up(marginals[t], int(path[t]))
            features = differences(
                *(feature_scores(self.model.pairs, weights, rows, t, k, self.names) for k in (label, other))
            )
            moves = self._move_differences(steps, ends, path, t, other)
            moves += [(f"({name})", difference(scores[t, label], scores[t, other])) for name, scores in beside]
            names = self.labels[label], self.labels[other]
            chances = marginals[t, label], marginals[t, other]
            parts.append(explain_token(tokens[t], names, chances, features, moves, self.top))
        return parts

    def _move_differences(self, steps: np.ndarray, ends: tuple, path: np.ndarray, t: int, other: int) -> list:
        label, n, found = int(path[t]), len(path), []
        if t == 0:
            found.append(("(start)", difference(ends[0][label], ends[0][other])))
        else:
            before, step = int(path[t - 1]), steps[t - 1 if len(steps) > 1 else 0]
            found.append((f"{self.labels[before]} ->", difference(step[before, label], step[before, other])))
        if t == n - 1:
            found.append(("(end)", difference(ends[1][label], ends[1][other])))
        else:
            after, step = int(path[t + 1]), steps[t if len(steps) > 1 else 0]
            found.append((f"-> {self.labels[after]}", difference(step[label, after], step[other, after])))
        return found
