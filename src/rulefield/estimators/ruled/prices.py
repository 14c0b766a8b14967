"""Prices of rules that are ``.soft("auto")``: estimated on held-out sequences, or reported to be wrong."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rulefield.exceptions import callers_level
from rulefield.learning.rule_weights.learners import Examples
from rulefield.learning.rule_weights.residual import BrokenShares, broken_shares
from rulefield.rules.chain.compiler import RuleCompiler
from rulefield.rules.rule import AUTO, LEARN, Rule

if TYPE_CHECKING:
    from rulefield.estimators.ruled.held_out import CrossFitted


@dataclass(frozen=True)
class Resolved:
    """Rules without "auto".

    Parameters
    ----------
    rules : list of Rule
        At their residual price, or ``.soft("learn")`` if learning starts there.
    prior : ndarray, shape (n_rules,)
        Prices toward which weights are learned; 0 for rules that were not "auto".
    forced : ndarray of bool, shape (n_rules,)
        Rules that have such a price: somebody wrote them, so they need not be chosen.
    expected : list of AutoCounts or None
        For rules that were "auto".
    """

    rules: list[Rule]
    prior: np.ndarray
    forced: np.ndarray
    expected: list["AutoCounts | None"]

    def some(self, numbers: np.ndarray) -> "Resolved":
        """Return some of the rules."""
        rules, expected = ([values[i] for i in numbers] for values in (self.rules, self.expected))
        return Resolved(rules, self.prior[numbers], self.forced[numbers], expected)


@dataclass(frozen=True)
class AutoCounts:
    """Sequences in which the model is expected to break a rule that was "auto"; whether gold labels contradict the rule."""

    by_model: float
    contradicted: bool


def at_prices(rules: Sequence[Rule], prices: np.ndarray) -> list[Rule]:
    """Rules that have a price above 0, the most expensive first."""
    order = np.argsort(-prices, kind="stable")
    return [rules[i].soft(float(prices[i]), per=rules[i].per) for i in order if prices[i] > 0]


def measured(rules: Sequence[Rule], held: "CrossFitted", n_jobs: int = 1) -> Examples:
    """Held-out sequences under rules; those whose weight is open count as learned."""
    compiler = RuleCompiler(rules, held.family.table)
    fixed = np.array([np.nan if rule.is_open else float(rule.weight) for rule in rules])
    once = np.array([rule.per == "once" for rule in rules], dtype=bool)
    return Examples(held.examples, compiler, fixed, once, n_jobs, held.executor)


def resolve(rules: list[Rule], held: "CrossFitted", learns: bool) -> Resolved:
    """Find the prices of rules that are "auto"; ``learns`` leaves those that are above 0 to a learner that starts there.

    Rules that gold labels break as often as the model does, or in a third of the sequences, are reported and cost nothing.
    """
    auto = [i for i, rule in enumerate(rules) if rule.weight == AUTO]
    prior, forced, done = np.zeros(len(rules)), np.zeros(len(rules), dtype=bool), list(rules)
    expected: list[AutoCounts | None] = [None] * len(rules)
    if not auto:
        return Resolved(done, prior, forced, expected)
    some = auto + [i for i, rule in enumerate(rules) if not rule.is_open]
    shares = broken_shares(measured([rules[i] for i in some], held), held.lists)
    for i, price, by_model, wrong in zip(auto, shares.prices, shares.by_model, shares.contradicted):
        price = 0.0 if wrong else float(price)
        expected[i] = AutoCounts(float(by_model), bool(wrong))
        forced[i] = learns and price > 0
        prior[i] = price if learns else 0.0
        done[i] = rules[i].soft(LEARN if forced[i] else price, per=rules[i].per)
    _warn_of([rules[i] for i in auto], shares)
    return Resolved(done, prior, forced, expected)


def _warn_of(rules: list[Rule], shares: BrokenShares) -> None:
    """Name the rules that gold labels contradict."""
    wrong = [
        f'"{rule.label}" ({gold:g} against {model:.1f})'
        for rule, gold, model, is_wrong in zip(rules, shares.by_gold, shares.by_model, shares.contradicted)
        if is_wrong
    ]
    if wrong:
        warnings.warn(
            f"{'one rule is' if len(wrong) == 1 else f'{len(wrong)} rules are'} not obeyed, because gold labels break "
            f"{'it' if len(wrong) == 1 else 'them'} in as many of the {shares.sequences} held-out sequences as the model "
            f"does, or in a third of them: {', '.join(wrong[:5])}{', ...' if len(wrong) > 5 else ''}.",
            UserWarning,
            stacklevel=callers_level(),
        )
