"""How often rules hold in labeled data, and which candidates are worth learning: the importance of [Anzaroot14], eq. 10."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.rules.chain.compiler import RuleCompiler
from rulefield.rules.finding.observed import Observed, fully_labeled, observe
from rulefield.rules.rule import Rule, as_rules

CUTOFF = 2.75
"""Importance from which a candidate is worth learning, in the paper."""


@dataclass(frozen=True)
class CheckedRule:
    """How a rule fares in data.

    Parameters
    ----------
    rule : Rule
    sequences : int
        Sequences that were looked at.
    broken : int
        Those that break it.
    amount : int
        By how much they break it in all.
    """

    rule: Rule
    sequences: int
    broken: int
    amount: int

    @property
    def holds(self) -> float:
        """Share of the sequences in which the rule holds."""
        return 1.0 - self.broken / self.sequences if self.sequences else 1.0

    def __str__(self) -> str:
        return f"{self.holds:7.2%} of {self.sequences}: {self.rule.label} (broken by {self.amount} in {self.broken})"


def amounts_table(
    rules: Iterable[Rule],
    X: Iterable[Any] | None,
    y: Iterable[Sequence[Any]],
    scheme: str | None = "auto",
    labels: Sequence[str] | None = None,
) -> np.ndarray:
    """By how much each sequence breaks each rule, (n_rules, n_sequences).

    Sequences with unknown labels are left out. ``X`` may be None if no rule reads tokens. ``labels`` is the label
    set (by default the labels that occur); rules may not name others.
    """
    data = observe(y, X, scheme, labels)
    return _amounts(data, RuleCompiler(rules, data.table.labels, data.table.scheme))


def _amounts(data: Observed, compiler: RuleCompiler) -> np.ndarray:
    table = compiler.amounts_of_all(data.tokens, data.sequences).toarray().T.copy()
    for column, ids in enumerate(data.sequences):
        if not data.possible(ids):  # compiled rules do not promise anything there
            world = data.labeling(column)
            table[:, column] = [rule.body.amount(world) for rule in compiler.rules]
    return table


def count_broken(data: Observed, compiler: RuleCompiler) -> np.ndarray:
    """Sequences that break each rule, and by how much in all, (n_rules, 2)."""
    table = _amounts(data, compiler)
    return np.stack([(table > 0).sum(axis=1), table.sum(axis=1)], axis=1).astype(np.int64)


def check(
    rules: Iterable[Rule],
    X: Iterable[Any] | None,
    y: Iterable[Sequence[Any]],
    scheme: str | None = "auto",
    labels: Sequence[str] | None = None,
) -> list[CheckedRule]:
    """How often each rule holds in labeled data (arguments as for :func:`amounts_table`)."""
    rules, data = as_rules(rules), observe(y, X, scheme, labels)
    compiler = RuleCompiler(rules, data.table.labels, data.table.scheme)
    broken = sum((count_broken(chunk, compiler) for chunk in data.chunks()), np.zeros((len(rules), 2), np.int64))
    return [CheckedRule(rule, len(data), int(n), int(amount)) for rule, (n, amount) in zip(rules, broken)]


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
