"""How often rules hold in labeled data, and which candidates are worth learning: the importance of [Anzaroot14], eq. 10."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.exceptions import InputError
from rulefield.rules.chain.compiler import RuleCompiler
from rulefield.rules.finding.observed import Observed, fully_labeled, observe
from rulefield.rules.rule import Rule, as_rules

CUTOFF = 2.75
"""Importance from which a candidate is worth learning, in the paper."""


@dataclass(frozen=True)
class CheckedRule:
    """How a rule fares in so many ``sequences``: those that are ``broken``, and by how much (``amount``) in all."""

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
    return _amounts(as_rules(rules), observe(y, X, scheme, labels)).T.toarray()


def _amounts(rules: Sequence[Rule], data: Observed) -> csr_matrix:
    """By how much each sequence breaks each rule, (n_sequences, n_rules)."""
    compiler = RuleCompiler(rules, data.table.labels, data.table.scheme)
    table = compiler.amounts_of_all(data.tokens, data.sequences)
    impossible = [i for i, ids in enumerate(data.sequences) if not data.possible(ids)]
    if impossible:  # compiled rules do not promise anything there
        table = table.tolil()
        for i in impossible:
            world = data.labeling(i)
            table[i] = [rule.body.amount(world) for rule in rules]
    return csr_matrix(table)


def check(
    rules: Iterable[Rule],
    X: Iterable[Any] | None,
    y: Iterable[Sequence[Any]],
    scheme: str | None = "auto",
    labels: Sequence[str] | None = None,
) -> list[CheckedRule]:
    """How often each rule holds in labeled data (arguments as for :func:`amounts_table`)."""
    rules, data = as_rules(rules), observe(y, X, scheme, labels)
    table = _amounts(rules, data)
    broken, amount = table.getnnz(axis=0).tolist(), table.sum(axis=0).tolist()[0]
    return [CheckedRule(rule, len(data), n, int(total)) for rule, n, total in zip(rules, broken, amount)]


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
    rules, y, predicted = as_rules(rules), list(y), list(predicted)
    if len(y) != len(predicted):
        raise InputError(f"y and predicted must have as many sequences; got {len(y)} and {len(predicted)}.")
    keep = [fully_labeled(row) for row in y]
    X = None if X is None else list(compress(X, keep))
    both = [list(compress(rows, keep)) for rows in (predicted, y)]
    if labels is None:
        labels = sorted({str(label) for rows in both for row in rows for label in row})
    tables = [amounts_table(rules, X, rows, scheme, labels) for rows in both]
    return importance_of(*((table > 0).sum(axis=1) for table in tables))


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
