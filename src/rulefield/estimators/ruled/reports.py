"""What learned rules did on held-out data, rule by rule."""

from dataclasses import dataclass

import numpy as np

from rulefield.learning.rule_weights.learners import Examples
from rulefield.rules.rule import Rule


@dataclass(frozen=True)
class RuleReport:
    """How a rule fared on the held-out data.

    ``importance`` counts sequences that the plain model breaks over those that gold labels break; ``acted`` sequences
    whose labels this rule alone changes; ``helped`` tokens that became right by it minus tokens that became wrong.
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

    @property
    def contradicted(self) -> bool:
        """Whether gold labels break a rule that was ``.soft("auto")`` more often than the model does: it is not obeyed."""
        return self.expected_by_model is not None and self.broken_by_gold > self.expected_by_model + 1e-9

    def __str__(self) -> str:
        if self.contradicted:
            return (
                f"not obeyed, broken by model/gold {self.expected_by_model:.1f}/{self.broken_by_gold}: gold labels break it "
                f"more often than the model does  {self.rule}"
            )
        return (
            f"{self.weight:8.3f}  importance {self.importance:6.2f}  broken by model/gold "
            f"{self.broken_by_model}/{self.broken_by_gold}  acted {self.acted}  helped {self.helped:+d}  {self.rule}"
        )


def helpful(
    weights: np.ndarray, learned: np.ndarray, effects: list[tuple[int, int]]
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Take the weight from learned rules that mend no more than they spoil; ``effects`` are those of rules with weight."""
    helped = np.zeros(len(weights))
    helped[weights > 0] = [tokens for _, tokens in effects]
    kept = ~learned | (helped > 0)
    return np.where(kept, weights, 0.0), [e for e, keep in zip(effects, kept[weights > 0]) if keep]


def rule_reports(
    rules: list[Rule],
    weights: np.ndarray,
    importance: np.ndarray,
    broken: np.ndarray,
    gold: np.ndarray,
    effects: list[tuple[int, int]],
    expected: list[float | None],
) -> list[RuleReport]:
    """Return a report for each candidate; ``effects`` are those of rules with weight, ``expected`` of rules once "auto"."""
    kept = iter(effects)
    return [
        RuleReport(
            rule.label,
            float(weights[r]),
            float(importance[r]),
            int((broken[r] > 0).sum()),
            int((gold[r] > 0).sum()),
            *(next(kept) if weights[r] > 0 else (0, 0)),
            expected[r],
        )
        for r, rule in enumerate(rules)
    ]


def effect_of(data: Examples, r: int, weight: float, members: list[int], plain: list[np.ndarray]) -> tuple[int, int]:
    """Return how many sequences a rule changes by itself, and the tokens it mends minus those it spoils."""
    alone = np.zeros(len(data.learned))
    alone[r] = weight
    acted = helped = 0
    for i, (labels, _) in zip(members, data.decode(members, alone)):
        gold, before = data.examples[i].gold, plain[i]
        acted += int((labels != before).any())
        helped += int((labels == gold).sum() - (before == gold).sum())
    return acted, helped
