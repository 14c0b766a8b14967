"""How often rules hold in labeled data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.rules.chain.compiler import RuleCompiler
from rulefield.rules.finding.observed import Observed, observe
from rulefield.rules.rule import Rule, as_rules


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
