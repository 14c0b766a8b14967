"""What learned rules did on held-out data, rule by rule."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.estimators.ruled.prices import AutoCounts
from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.rules.rule import Rule


@dataclass(frozen=True)
class RuleReport:
    """How a rule fared on the held-out data.

    ``importance`` counts sequences that the plain model breaks over those that gold labels break; ``acted`` sequences
    whose labels this rule alone changes; ``fixed`` and ``broken`` tokens that became right and wrong by it, ``helped`` the
    first minus the second.
    """

    rule: str
    weight: float
    importance: float
    broken_by_model: int
    broken_by_gold: int
    acted: int = 0
    fixed: int = 0
    broken: int = 0
    expected_by_model: float | None = None
    """Sequences in which the model is expected to break a rule that was ``.soft("auto")``."""
    contradicted: bool = False
    """Whether gold labels break a rule that was ``.soft("auto")`` about as often as the model: it is not obeyed."""

    @property
    def helped(self) -> int:
        """Tokens that the rule alone fixes, less those that it breaks."""
        return self.fixed - self.broken

    def _repr_html_(self) -> str:
        from rulefield.report.notebook import rules_html

        return rules_html([self.__dict__])

    def __str__(self) -> str:
        if self.contradicted:
            return (
                f"not obeyed: gold labels break it in {self.broken_by_gold} sequences, the model in "
                f"{self.expected_by_model:.1f}: {self.rule}"
            )
        return (
            f"costs {self.weight:.2f}, fixes {self.fixed} and breaks {self.broken} tokens alone; broken by model/gold "
            f"{self.broken_by_model}/{self.broken_by_gold}: {self.rule}"
        )


def rule_reports(
    rules: list[Rule],
    weights: np.ndarray,
    importance: np.ndarray,
    by_model: np.ndarray,
    by_gold: np.ndarray,
    effects: np.ndarray,
    expected: Sequence[AutoCounts | None],
    found: bool,
) -> list[RuleReport]:
    """Return a report for each candidate; of ``found`` ones, which are many, for those with a weight.

    ``effects`` (n_rules, 3) are those of rules with weight.
    """
    reports = []
    for r in np.flatnonzero(weights > 0).tolist() if found else range(len(rules)):
        acted, fixed, broken = effects[r].tolist()
        auto = expected[r]
        reports.append(
            RuleReport(
                rules[r].label,
                float(weights[r]),
                float(importance[r]),
                int(by_model[r]),
                int(by_gold[r]),
                acted,
                fixed,
                broken,
                expected_by_model=None if auto is None else auto.by_model,
                contradicted=auto is not None and auto.contradicted,
            )
        )
    return reports


def effects_of(lists: MeasuredLists, weights: np.ndarray) -> np.ndarray:
    """Return what each rule does by itself: sequences that it changes, tokens fixed, tokens broken; (n_rules, 3).

    Labels are the best of the lists.
    """
    own = lists.lists
    by_rule = lists.units.tocsc()
    effects = np.zeros((len(weights), 3), dtype=np.int64)
    for r in np.flatnonzero(weights > 0):
        column = slice(by_rule.indptr[r], by_rule.indptr[r + 1])
        worth = lists.worth.copy()
        worth[by_rule.indices[column]] -= weights[r] * by_rule.data[column]
        best = own.best_of(worth)
        for i in np.flatnonzero(best != own.first).tolist():
            before, after = (own.labelings[j[i]] == own.examples[i].gold for j in (own.first, best))
            effects[r] += 1, (after & ~before).sum(), (before & ~after).sum()
    return effects
