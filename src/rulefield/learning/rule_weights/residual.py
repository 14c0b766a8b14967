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

from rulefield.learning.rule_weights.lists import MeasuredLists

MAX_BROKEN_SHARE = 1 / 3
"""A rule that gold labels break in a larger share of the sequences is none."""


@dataclass(frozen=True)
class BrokenShares:
    """In how many of the ``sequences`` the model, in expectation, and gold labels break each rule, (n_rules,).

    ``errors`` are standard errors of the difference.
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


def broken_shares(measured: MeasuredLists) -> BrokenShares:
    """Count how often held-out predictions and gold labels break each rule, as if it were the only open one."""
    return shares_in(expected_broken(measured), measured.gold)


def expected_broken(measured: MeasuredLists) -> csr_matrix:
    """Probability that predictions break each rule, (n_sequences, n_rules).

    Predictions are the labelings of the lists, as probable as they are worth.
    """
    lists, worth, n = measured.lists, measured.worth, len(measured.lists.examples)
    if not len(worth):
        return csr_matrix((n, measured.units.shape[1]))
    shares = np.exp(worth - np.maximum.reduceat(worth, lists.first)[lists.owner])
    shares /= np.add.reduceat(shares, lists.first)[lists.owner]
    return csr_matrix((shares, (lists.owner, np.arange(len(shares)))), shape=(n, len(shares))) @ (measured.units > 0)


def shares_in(broken: csr_matrix, gold: csr_matrix) -> BrokenShares:
    """Count over sequences: probabilities that predictions break rules, and units of gold labels, (n_sequences, n_rules)."""
    by_gold = gold > 0
    model, people = (np.asarray(table.sum(axis=0), dtype=float).ravel() for table in (broken, by_gold))
    change = broken - by_gold
    squares = np.asarray(change.multiply(change).sum(axis=0)).ravel()
    return BrokenShares(model, people, broken.shape[0], np.sqrt(squares))


def in_errors(gains: np.ndarray) -> float:
    """Return a sum over sequences in its standard errors, 0 if nothing changes; what one sequence says is never above 1."""
    size = float(np.sqrt((gains**2).sum()))
    return float(gains.sum()) / size if size else 0.0
