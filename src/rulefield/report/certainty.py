"""Probabilities of predicted labels and labelings under rules."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rulefield.encode.schemes import OUTSIDE
from rulefield.exceptions import InfeasibleError, InputError

TOLERANCE = 1e-3
"""Share of the probability mass that sums under rules may leave out."""


class Certainty(NamedTuple):
    """Probability of each predicted label, (n,) for each sequence, and of each whole labeling, (n_sequences,)."""

    tokens: list[np.ndarray]
    whole: np.ndarray

    @property
    def doubt(self) -> np.ndarray:
        """Uncertainty of each labeling: -log p over the root of its length, so that long sequences do not always win."""
        length = np.array([max(len(row), 1) for row in self.tokens])
        return -np.log(np.maximum(self.whole, 1e-300)) / np.sqrt(length)


def certainty(
    model: Any, X: Sequence[Any], predicted: Sequence[Sequence[Any]], rules: Sequence[Any] = ()
) -> Certainty:
    """Return the probabilities of predictions among labelings that obey the hard rules, soft ones paid for.

    If no labeling of a sequence obeys the hard rules, its probabilities are those without rules. A labeling that is not the
    best under the rules gets the product of the probabilities of its labels.
    """
    plain = getattr(model, "estimator_", model)
    columns = label_columns(plain, predicted)
    tokens, whole = [], np.zeros(len(predicted))
    for i, (table, (best, probability), labels) in enumerate(zip(*_sums(plain, X, list(rules)), predicted)):
        tokens.append(np.array([row[columns[str(label)]] for row, label in zip(table, labels)]))
        whole[i] = probability if list(best) == list(labels) else np.prod(tokens[-1])
    return Certainty(tokens, whole)


def _sums(model: Any, X: Sequence[Any], rules: list[Any]) -> tuple[list[np.ndarray], list[tuple[Any, float]]]:
    """Return the marginals of all sequences, and their best labelings with probabilities."""
    try:
        tables = model.predict_marginals(X, rules=rules, output="array", tolerance=TOLERANCE)
        return tables, [row[0] for row in model.predict_kbest(X, rules=rules, k=1)]
    except InfeasibleError:
        if len(X) == 1:
            return _sums(model, X, [])
    parts = [_sums(model, [x], rules) for x in X]
    return [table for tables, _ in parts for table in tables], [best for _, row in parts for best in row]


def label_set(model: Any) -> set[str]:
    """Token labels that the model can give."""
    inner = getattr(model, "estimator_", model)
    return {str(label) for label in (inner._coder.words if inner._kind == "segments" else inner.classes_)}


def label_columns(model: Any, predicted: Sequence[Sequence[Any]]) -> dict[str, int]:
    """Return the column of each label in the model's marginals; those of segments are by type."""
    model = getattr(model, "estimator_", model)
    column = {str(label): k for k, label in enumerate(model.classes_)}
    if model._kind != "segments" or model.scheme is None:
        return column
    names = {str(label) for row in predicted for label in row}
    return {name: column[name if name == OUTSIDE else name.split("-", 1)[1]] for name in names}


def check_sequence_model(model: Any) -> None:
    """Raise unless a model labels sequences."""
    if getattr(model, "_kind", None) not in ("chain", "ruled", "segments"):
        raise InputError(
            f"this needs a ChainCRF, RuledCRF or SegmentCRF (of a TextParser: its model_); got a {type(model).__name__}."
        )
