r"""Residual prices: what breaking a rule should cost beyond what the model knows already.

Let a model that has not seen a sequence break a rule with probability m, and gold labels with probability g. At a price c
the model breaks it with probability :math:`m e^{-c} / (m e^{-c} + 1 - m)`, whose logit is :math:`logit(m) - c`. So

.. math:: c = \max(0, logit(m) - logit(g))

is the price at which the model breaks the rule as often as people do; one that it keeps by itself costs nothing. Paid per
unit, labelings that break it more than once pay more than c, and the share broken falls to g or below: the price is the
same for both ways of paying. Where sequences differ in m, the price is too small rather than too large (the share of a
mixture moves less than those of its parts). m and g are shares of held-out sequences with half a sequence added to the
broken and to the others; what the model breaks is expected over its best labelings.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.learning.rule_weights.learners import Examples
from rulefield.learning.rule_weights.lists import Lists

MAX_BROKEN_SHARE = 1 / 3
"""A rule that gold labels break in a larger share of the sequences is none."""


@dataclass(frozen=True)
class BrokenShares:
    """How often rules are broken in held-out sequences.

    Parameters
    ----------
    by_model, by_gold : ndarray, shape (n_rules,)
        Sequences whose prediction, in expectation, and whose gold labels break each rule.
    sequences : int
        Sequences looked at.
    errors : ndarray, shape (n_rules,)
        Standard error of ``by_model - by_gold``.
    """

    by_model: np.ndarray
    by_gold: np.ndarray
    sequences: int
    errors: np.ndarray

    @property
    def prices(self) -> np.ndarray:
        """Residual prices, (n_rules,)."""
        return residual_price(self.by_model, self.by_gold, self.sequences)

    @property
    def contradicted(self) -> np.ndarray:
        """Rules that gold labels break as often as the model, within a standard error, or in a third of the sequences."""
        as_often = (self.by_gold > 0) & (self.by_model - self.by_gold <= self.errors + 1e-9)
        return as_often | (self.by_gold > MAX_BROKEN_SHARE * self.sequences)


def residual_price(by_model: np.ndarray, by_gold: np.ndarray, sequences: int, smoothing: float = 0.5) -> np.ndarray:
    """Price at which a model that breaks a rule in ``by_model`` of the sequences does so in ``by_gold`` of them."""

    def logit(broken: np.ndarray) -> np.ndarray:
        return np.log(broken + smoothing) - np.log(np.maximum(sequences - broken, 0.0) + smoothing)

    return np.maximum(0.0, logit(by_model) - logit(by_gold))


def broken_shares(examples: Examples, lists: Lists) -> BrokenShares:
    """Count how often held-out predictions and gold labels break each rule.

    Predictions are the labelings of ``lists``, as probable as their scores less what rules with a price cost them. Costs the
    rules' amounts for each labeling.
    """
    units = examples.units(lists.labelings, lists.owner)
    worth = lists.score - examples.fixed_costs(units)
    top = np.maximum.reduceat(worth, lists.first) if len(worth) else worth
    worth = np.where(top[lists.owner] > -np.inf, worth, lists.score)  # hard rules forbid all of these
    return shares_in(expected_broken(lists, units, worth), examples.gold)


def expected_broken(lists: Lists, units: csr_matrix, worth: np.ndarray) -> csr_matrix:
    """Probability that predictions break each rule, (n_sequences, n_rules); labelings are as probable as ``worth`` says."""
    n = len(lists.examples)
    if not len(worth):
        return csr_matrix((n, units.shape[1]))
    shares = np.exp(worth - np.maximum.reduceat(worth, lists.first)[lists.owner])
    shares /= np.add.reduceat(shares, lists.first)[lists.owner]
    return csr_matrix((shares, (lists.owner, np.arange(len(shares)))), shape=(n, len(shares))) @ (units > 0)


def shares_in(broken: csr_matrix, gold: csr_matrix) -> BrokenShares:
    """Count over sequences: probabilities that predictions break rules, and units of gold labels, (n_sequences, n_rules)."""
    by_gold = gold > 0
    model, people = (np.asarray(table.sum(axis=0), dtype=float).ravel() for table in (broken, by_gold))
    change = broken - by_gold
    squares = np.asarray(change.multiply(change).sum(axis=0)).ravel()
    return BrokenShares(model, people, broken.shape[0], np.sqrt(squares))
