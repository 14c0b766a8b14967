"""Scores of sequence items by scikit-learn's functions, with the names of sklearn-crfsuite."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from sklearn import metrics

from rulefield.compat.sklearn_crfsuite.utils import flatten

Sequences = Any
"""A list of sequences of labels."""


def _flat(score: Callable[..., Any], summary: str) -> Callable[..., Any]:
    """Return ``score`` of the items of all sequences taken together."""

    @wraps(score)
    def flat(y_true: Sequences, y_pred: Sequences, *args: Any, **options: Any) -> Any:
        return score(flatten(y_true), flatten(y_pred), *args, **options)

    flat.__name__ = flat.__qualname__ = f"flat_{score.__name__}"
    flat.__module__ = __name__  # so that a scorer made of it can be pickled
    flat.__doc__ = f"{summary} The options are those of scikit-learn's ``{score.__name__}``."
    return flat


flat_accuracy_score = _flat(metrics.accuracy_score, "Accuracy of sequence items.")
flat_precision_score = _flat(metrics.precision_score, "Precision of sequence items.")
flat_recall_score = _flat(metrics.recall_score, "Recall of sequence items.")
flat_f1_score = _flat(metrics.f1_score, "F1 of sequence items.")


def flat_fbeta_score(y_true: Sequences, y_pred: Sequences, beta: float, **options: Any) -> Any:
    """F-beta of sequence items. The options are those of scikit-learn's ``fbeta_score``."""
    return metrics.fbeta_score(flatten(y_true), flatten(y_pred), beta=beta, **options)


def flat_classification_report(y_true: Sequences, y_pred: Sequences, labels: Any = None, **options: Any) -> Any:
    """Precision, recall and F1 of each label. The options are those of scikit-learn's ``classification_report``."""
    return metrics.classification_report(flatten(y_true), flatten(y_pred), labels=labels, **options)


def sequence_accuracy_score(y_true: Sequences, y_pred: Sequences) -> float:
    """Share of sequences whose labels are all right; 0 where there is no sequence."""
    right = [list(gold) == list(found) for gold, found in zip(y_true, y_pred, strict=True)]
    return sum(right) / len(right) if right else 0.0
