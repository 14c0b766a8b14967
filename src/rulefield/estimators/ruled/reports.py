"""What learned rules did on held-out data, rule by rule."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rulefield.estimators.ruled.candidates import Candidates
from rulefield.exceptions import callers_level
from rulefield.learning.rule_weights.lists import MeasuredLists, costs_of
from rulefield.rules.finding.check import importance_of
from rulefield.rules.rule import AUTO

if TYPE_CHECKING:
    from rulefield.estimators.ruled.weighing import Screening


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
    candidates: Candidates, weights: np.ndarray, screening: "Screening", effects: np.ndarray
) -> list[RuleReport]:
    """Return a report for each candidate; of found ones, which are many, for those with a weight.

    ``effects`` (n_rules, 3) are those of rules with weight.
    """
    importance = importance_of(screening.by_model, screening.by_gold)
    return [
        RuleReport(
            candidates.rules[r].label,
            float(weights[r]),
            float(importance[r]),
            int(screening.by_model[r]),
            int(screening.by_gold[r]),
            acted,
            fixed,
            broken,
            float(screening.expected[r]) if candidates.rules[r].weight == AUTO else None,
            bool(screening.wrong[r]),
        )
        for r, (acted, fixed, broken) in enumerate(effects.tolist())
        if weights[r] > 0 or not candidates.found
    ]


def effects_of(measured: MeasuredLists, weights: np.ndarray) -> np.ndarray:
    """Return what each rule does by itself: sequences that it changes, tokens fixed, tokens broken; (n_rules, 3).

    Labels are the best of the lists.
    """
    lists, by_rule = measured.lists, measured.units.tocsc()
    plain = lists.best_of(lists.score)
    effects = np.zeros((len(weights), 3), dtype=np.int64)
    for r in np.flatnonzero(weights > 0):
        best = lists.best_of(lists.score - costs_of(by_rule[:, [r]], weights[[r]]))
        for i in np.flatnonzero(best != plain).tolist():
            before, after = (lists.labelings[j[i]] == lists.examples[i].gold for j in (plain, best))
            effects[r] += 1, (after & ~before).sum(), (before & ~after).sum()
    return effects


def warn_of_wrong_rules(report: Sequence[RuleReport], n_sequences: int) -> None:
    """Name the rules that gold labels contradict."""
    wrong = [f'"{r.rule}" ({r.broken_by_gold} against {r.expected_by_model:.1f})' for r in report if r.contradicted]
    if wrong:
        warnings.warn(
            f"{'one rule is' if len(wrong) == 1 else f'{len(wrong)} rules are'} not obeyed, because gold labels break "
            f"{'it' if len(wrong) == 1 else 'them'} in as many of the {n_sequences} held-out sequences as the model "
            f"does, or in a third of them: {', '.join(wrong[:5])}{', ...' if len(wrong) > 5 else ''}.",
            UserWarning,
            stacklevel=callers_level(),
        )
