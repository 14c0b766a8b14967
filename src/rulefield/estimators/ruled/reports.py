"""What learned rules did on held-out data, rule by rule."""

from dataclasses import dataclass

import numpy as np

from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.rules.rule import Rule


@dataclass(frozen=True)
class RuleReport:
    """How a rule fared on the held-out data.

    ``importance`` counts sequences that the plain model breaks over those that gold labels break; ``acted`` sequences
    whose labels this rule alone changes; ``mended`` and ``spoiled`` tokens that became right and wrong by it, ``helped`` the
    first minus the second.
    """

    rule: str
    weight: float
    importance: float
    broken_by_model: int
    broken_by_gold: int
    acted: int
    helped: int
    expected_by_model: float | None = None
    """Sequences in which the model is expected to break a rule that was ``.soft("auto")``."""
    spoiled: int = 0

    @property
    def mended(self) -> int:
        """Tokens that became right by the rule alone."""
        return self.helped + self.spoiled

    @property
    def contradicted(self) -> bool:
        """Whether gold labels break a rule that was ``.soft("auto")`` more often than the model does: it is not obeyed."""
        return self.expected_by_model is not None and self.broken_by_gold > self.expected_by_model + 1e-9

    def _repr_html_(self) -> str:
        from rulefield.report.notebook import rules_html

        return rules_html([self.__dict__])

    def __str__(self) -> str:
        if self.contradicted:
            return (
                f"not obeyed, broken by model/gold {self.expected_by_model:.1f}/{self.broken_by_gold}: gold labels break it "
                f"more often than the model does  {self.rule}"
            )
        return (
            f"{self.weight:8.3f}  importance {self.importance:6.2f}  broken by model/gold "
            f"{self.broken_by_model}/{self.broken_by_gold}  acted {self.acted}  mended {self.mended}  spoiled "
            f"{self.spoiled}  {self.rule}"
        )


def rule_reports(
    rules: list[Rule],
    weights: np.ndarray,
    importance: np.ndarray,
    broken: np.ndarray,
    gold: np.ndarray,
    effects: np.ndarray,
    expected: list[float | None],
) -> list[RuleReport]:
    """Return a report for each candidate; ``effects`` (n_rules, 3) are those of rules with weight."""
    return [
        RuleReport(
            rule.label,
            float(weights[r]),
            float(importance[r]),
            int(broken[r]),
            int(gold[r]),
            acted=int(effects[r, 0]) if weights[r] > 0 else 0,
            helped=int(effects[r, 1] - effects[r, 2]) if weights[r] > 0 else 0,
            expected_by_model=expected[r],
            spoiled=int(effects[r, 2]) if weights[r] > 0 else 0,
        )
        for r, rule in enumerate(rules)
    ]


def effects_of(lists: MeasuredLists, weights: np.ndarray) -> np.ndarray:
    """Return what each rule does by itself: sequences that it changes, tokens mended, tokens spoiled; (n_rules, 3).

    Answers are the best of the lists.
    """
    own = lists.lists
    by_rule = lists.units.tocsc()
    effects = np.zeros((len(weights), 3), dtype=np.int64)
    for r in np.flatnonzero(weights > 0):
        here = slice(by_rule.indptr[r], by_rule.indptr[r + 1])
        worth = lists.worth.copy()
        worth[by_rule.indices[here]] -= weights[r] * by_rule.data[here]
        best = own.best_of(worth)
        for i in np.flatnonzero(best != own.first).tolist():
            before, after = (own.labelings[j[i]] == own.examples[i].gold for j in (own.first, best))
            effects[r] += 1, (after & ~before).sum(), (before & ~after).sum()
    return effects
