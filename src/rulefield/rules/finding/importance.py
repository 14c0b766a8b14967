"""Which candidate rules are worth learning: the importance score of [Anzaroot14], eq. 10."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.rules.finding.check import amounts_table
from rulefield.rules.finding.observed import fully_labeled
from rulefield.rules.rule import Rule, as_rules

CUTOFF = 2.75


def importance_of(by_model: np.ndarray, by_gold: np.ndarray) -> np.ndarray:
    """Compute importance from the numbers of sequences (n_rules,) whose prediction and whose gold labels break rules.

    The first over the second; ``inf`` if only predictions break a rule, 0 if neither does (such a rule can never act).

    References
    ----------
    [Anzaroot14], eq. 10
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_model == 0, 0.0, by_model / by_gold)


def importance(
    rules: Iterable[Rule],
    X: Iterable[Any] | None,
    y: Iterable[Sequence[Any]],
    predicted: Iterable[Sequence[Any]],
    scheme: str | None = "auto",
    labels: Sequence[str] | None = None,
) -> np.ndarray:
    """Compute the importance of each rule, given gold labels and what the plain model (without rules) predicts."""
    y, predicted = list(y), list(predicted)
    if len(y) != len(predicted):
        raise InputError(f"y and predicted must have as many sequences; got {len(y)} and {len(predicted)}.")
    keep = [i for i, sequence in enumerate(y) if fully_labeled(sequence)]
    y, predicted = [y[i] for i in keep], [predicted[i] for i in keep]
    if X is not None:
        tokens = list(X)
        X = [tokens[i] for i in keep]
    if labels is None:
        labels = sorted({str(label) for sequences in (y, predicted) for labels_ in sequences for label in labels_})
    both = amounts_table(rules, None if X is None else [*X, *X], [*predicted, *y], scheme, labels)
    return importance_of(*((part > 0).sum(axis=1) for part in np.split(both, [len(predicted)], axis=1)))


def prune(
    rules: Iterable[Rule],
    X: Iterable[Any] | None,
    y: Iterable[Sequence[Any]],
    predicted: Iterable[Sequence[Any]],
    cutoff: float = CUTOFF,
    scheme: str | None = "auto",
    labels: Sequence[str] | None = None,
) -> list[Rule]:
    """Rules whose importance reaches the cutoff, most important first (2.75 in the paper)."""
    rules = as_rules(rules)
    scores = importance(rules, X, y, predicted, scheme, labels)
    order = np.argsort(-scores, kind="stable")
    return [rules[i] for i in order if scores[i] >= cutoff]
