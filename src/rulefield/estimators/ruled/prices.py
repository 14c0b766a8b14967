"""Prices of rules that are ``.soft("auto")``: found on held-out sequences, or said to be wrong."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.exceptions import callers_level
from rulefield.learning.rule_weights.learners import Example, Examples
from rulefield.learning.rule_weights.lists import Lists
from rulefield.learning.rule_weights.residual import BrokenShares, broken_shares
from rulefield.parallel import Executor
from rulefield.rules.chain.compiler import RuleCompiler
from rulefield.rules.rule import AUTO, LEARN, Rule

LEAST_PRICE = 0.1
"""Found rules whose residual price is lower, in nats, have to earn their weight: they are many, and hardly act."""


@dataclass(frozen=True)
class Resolved:
    """Rules without "auto".

    Parameters
    ----------
    rules : list of Rule
        At their residual price, or ``.soft("learn")`` where that is only where learning starts.
    prior : ndarray, shape (n_rules,)
        Prices toward which weights are learned; 0 for rules that were not "auto".
    auto : ndarray of bool, shape (n_rules,)
        Rules that have, or on other sequences would have, a price toward which weights are learned.
    expected : list of float or None
        For rules that were "auto", the number of sequences in which the model is expected to break them.
    """

    rules: list[Rule]
    prior: np.ndarray
    auto: np.ndarray
    expected: list[float | None]


def at_prices(rules: Sequence[Rule], prices: np.ndarray) -> list[Rule]:
    """Rules that have a price above 0, dearest first."""
    order = np.argsort(-prices, kind="stable")
    return [rules[i].soft(float(prices[i]), per=rules[i].per) for i in order if prices[i] > 0]


def measured(
    rules: Sequence[Rule],
    examples: Sequence[Example],
    classes: Sequence[Any],
    scheme: str | None,
    n_jobs: int = 1,
    executor: Executor | None = None,
) -> Examples:
    """Held-out sequences under rules; those whose weight is open count as learned."""
    compiler = RuleCompiler(rules, [str(c) for c in classes], scheme)
    fixed = np.array([np.nan if rule.is_open else float(rule.weight) for rule in rules])
    once = np.array([rule.per == "once" for rule in rules], dtype=bool)
    return Examples(examples, compiler, fixed, once, n_jobs, executor)


def resolve(
    rules: list[Rule], lists: Lists, classes: Sequence[Any], scheme: str | None, learns: bool, found: bool = False
) -> Resolved:
    """Find the prices of rules that are "auto"; ``learns`` leaves those that are above 0 to a learner that starts there.

    Rules that gold labels break more often than the model does are reported and not obeyed; where they were ``found``, not
    written, they are candidates like others, without a word.
    """
    auto = [i for i, rule in enumerate(rules) if rule.weight == AUTO]
    prior, open_, done = np.zeros(len(rules)), np.zeros(len(rules), dtype=bool), list(rules)
    expected: list[float | None] = [None] * len(rules)
    if not auto:
        return Resolved(done, prior, open_, expected)
    some = auto + [i for i, rule in enumerate(rules) if not rule.is_open]
    shares = broken_shares(measured([rules[i] for i in some], lists.examples, classes, scheme), lists)
    for i, price, by_model in zip(auto, shares.prices, shares.by_model):
        expected[i] = None if found else float(by_model)
        open_[i] = learns and (found or price > 0)
        prior[i] = price if learns and (price >= LEAST_PRICE or not found) else 0.0
        done[i] = rules[i].soft(LEARN if open_[i] else float(price), per=rules[i].per)
    if not found:
        _warn_of([rules[i] for i in auto], shares)
    return Resolved(done, prior, open_, expected)


def _warn_of(rules: list[Rule], shares: BrokenShares) -> None:
    """Name the rules that gold labels break more often than the model does."""
    wrong = [
        f'"{rule.label}" ({gold:g} against {model:.1f})'
        for rule, gold, model, is_wrong in zip(rules, shares.by_gold, shares.by_model, shares.contradicted)
        if is_wrong
    ]
    if wrong:
        warnings.warn(
            f"{'one rule is' if len(wrong) == 1 else f'{len(wrong)} rules are'} not obeyed, because gold labels break "
            f"{'it' if len(wrong) == 1 else 'them'} in more of the {shares.sequences} held-out sequences than the model "
            f"does: {', '.join(wrong[:5])}{', ...' if len(wrong) > 5 else ''}.",
            UserWarning,
            stacklevel=callers_level(),
        )
