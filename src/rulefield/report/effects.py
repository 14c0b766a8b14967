"""What each rule changes: the same model with and without it, beside gold labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.rules.finding.check import amounts_table
from rulefield.rules.rule import Rule

MOST_RULES = 60
SHOWN = 3
"""Examples per rule of what it fixed, and of what it broke."""


@dataclass(frozen=True)
class Change:
    """A sequence whose labels one rule changes; ``gain`` is tokens that became right minus tokens that became wrong."""

    sequence: int
    without: list[Any]
    gain: int


@dataclass(frozen=True)
class RuleEffect:
    """What one rule does on labeled data, among the other rules that act.

    It is broken by gold labels, by what the model predicts under the other rules alone, and by what it predicts, which pays
    ``cost`` for it in all (inf if a hard rule was broken because nothing obeys it). Because of it, ``fixed`` tokens are right
    and ``broken`` ones wrong; ``changes`` are all sequences that it changes, the best for it first.
    """

    rule: Rule
    sequences: int
    broken_in_gold: int
    broken_without: int
    broken_with: int
    cost: float
    fixed: int
    broken: int
    changes: tuple[Change, ...]

    @property
    def holds(self) -> float:
        """Share of the gold labelings that obey it."""
        return 1 - self.broken_in_gold / self.sequences if self.sequences else 1.0

    def _repr_html_(self) -> str:
        from rulefield.report.notebook import rules_html

        return rules_html([effect_row(self)])

    @property
    def examples(self) -> list[tuple[str, Change]]:
        """Up to three sequences that it fixed and three that it broke."""
        good = [("fixed", c) for c in self.changes if c.gain > 0][:SHOWN]
        return good + [("broken", c) for c in reversed(self.changes) if c.gain < 0][:SHOWN]


def effect_row(effect: RuleEffect) -> dict[str, Any]:
    """One row of a table of rules."""
    return {
        "rule": effect.rule.label,
        "price": "hard" if effect.rule.is_hard else f"{effect.rule.weight:.3g}",
        "holds in gold": f"{effect.holds:.1%}",
        "broken without": effect.broken_without,
        "broken with": effect.broken_with,
        "fixed": effect.fixed,
        "broken": effect.broken,
    }


def rule_effects(
    model: Any,
    X: Sequence[Any],
    gold: Sequence[Sequence[Any]],
    rules: Sequence[Rule],
    *,
    predicted: Sequence[Any] | None = None,
    scheme: str | None = "auto",
    labels: Sequence[str] | None = None,
    most: int = MOST_RULES,
) -> list[RuleEffect]:
    """Predict with all rules and with all but one, for each; compare with gold labels.

    Where the labeling without any rule breaks none of them it is the best with and without each, so only the other
    sequences are decoded again: O(rules x sequences that break something).

    ``predicted`` is what the model predicts with all rules, if that is known; ``labels`` are all labels that rules may name.
    Of more than ``most`` rules, those that the labelings without rules break most often are measured.
    """
    plain = list(model.predict(X, rules=[]))
    full = list(model.predict(X, rules=list(rules)) if predicted is None else predicted)
    amounts_under = {
        name: amounts_table(rules, X, y, scheme, labels)
        for name, y in (("gold", gold), ("plain", plain), ("full", full))
    }
    touched = np.flatnonzero((amounts_under["plain"] > 0).any(axis=0)).tolist()
    effects = []
    for r in np.sort(np.argsort(-(amounts_under["plain"] > 0).sum(axis=1), kind="stable")[:most]).tolist():
        rule = rules[r]
        others = [other for k, other in enumerate(rules) if k != r]
        found = list(model.predict([X[i] for i in touched], rules=others)) if touched else []
        amounts = amounts_table([rule], [X[i] for i in touched], found, scheme, labels)[0] if touched else np.zeros(0)
        changes, fixed, broken = _changes(touched, found, full, gold)
        paid = sum(rule.cost(float(amount)) for amount in amounts_under["full"][r] if amount > 0)
        in_gold, with_it = (int((amounts_under[name][r] > 0).sum()) for name in ("gold", "full"))
        effects.append(
            RuleEffect(rule, len(gold), in_gold, int((amounts > 0).sum()), with_it, paid, fixed, broken, changes)
        )
    return effects


def _changes(
    places: list[int], without: list[Any], full: list[Any], gold: Sequence[Sequence[Any]]
) -> tuple[tuple[Change, ...], int, int]:
    changes, fixed, broken = [], 0, 0
    for i, before in zip(places, without):
        if before == full[i]:
            continue
        up = sum(b != g and a == g for b, a, g in zip(before, full[i], gold[i]))
        down = sum(b == g and a != g for b, a, g in zip(before, full[i], gold[i]))
        changes.append(Change(i, before, up - down))
        fixed, broken = fixed + up, broken + down
    return tuple(sorted(changes, key=lambda change: -change.gain)), fixed, broken
