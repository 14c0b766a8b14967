"""Why a chain gave its labels: weights of the model, and what decided one prediction."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.explanations import (
    Contribution,
    ModelExplanation,
    TokenExplanation,
    Weight,
    explain_weights,
    feature_differences,
    label_differences,
    largest_features,
    most,
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
    layout = model.layout
    feature = np.repeat(np.arange(model.pairs.n_features), model.pairs.counts)
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
        if not len(path):
            return []
        others = marginals.copy()
        others[np.arange(len(path)), path] = -1.0
        other = others.argmax(axis=1) if len(self.labels) > 1 else path
        weights, rows = self.model.layout.state(self.theta), self.model.rows(data, 0)
        totals, features = feature_differences(self.model.pairs, weights, rows, path, other, self.names, self.top)
        moves = self._move_differences(data, path, other)
        names, second = [self.labels[k] for k in path.tolist()], [self.labels[k] for k in other.tolist()]
        chance, chances = (marginals[np.arange(len(path)), ids].tolist() for ids in (path, other))
        return [
            TokenExplanation(
                tokens[t], names[t], chance[t], second[t], chances[t], total + sum(v for _, v in moves[t]),
                tuple(features[t]), most(moves[t], self.top),
            )
            for t, total in enumerate(totals.tolist())
        ]  # fmt: skip

    def _move_differences(self, data: Sequences, path: np.ndarray, other: np.ndarray) -> list[list[Contribution]]:
        """Return what transitions, ends and other scores add to each token's label minus to the other."""
        n, model = len(path), self.model
        steps = model.pairwise(self.theta)
        begins, ends = (scores(self.theta) for scores in (model.start_scores, model.end_scores))
        before = label_differences(np.vstack([begins[None], steps[path[:-1]]]), path, other).tolist()
        after = label_differences(np.vstack([steps[:, path[1:]].T, ends[None]]), path, other).tolist()
        names = [str(self.labels[label]) for label in path.tolist()]
        left, right = ["(start)", *(f"{name} ->" for name in names)], [*(f"-> {name}" for name in names[1:]), "(end)"]
        found = [[(left[t], before[t]), (right[t], after[t])] for t in range(n)]
        for name, scores in self.beside if data.scores is None else [*self.beside, ("given score", data.scores)]:
            for t, value in enumerate(label_differences(scores, path, other).tolist()):
                found[t].append((f"({name})", value))
        return found
