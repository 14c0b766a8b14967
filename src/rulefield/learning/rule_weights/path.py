r"""Weights of few rules by penalized likelihood: rules are taken one by one, and weighed anew after each.

A held-out sequence i has a list :math:`Y_i` of labelings. Rules of weights c make gold labels as likely as

.. math:: \min_{c \ge 0} \sum_i \Bigl[\log \sum_{y \in Y_i} e^{s(y) - c.v(y)} - (s(t_i) - c.v(t_i))\Bigr]
          + \frac{l_2}{2} |c - p|^2

The target :math:`t_i` is the labeling of the list that is nearest to the gold labels: these themselves are often out of the
chain's reach, and rules cannot fix that. p are residual prices (:mod:`rulefield.learning.rule_weights.residual`): if the data
say little, a rule keeps its price. Of many rules that say nearly the same, the first that is taken pays; what is left for the
others is measured anew, so twenty rules are worth as much as hundreds that are weighed at once.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix

from rulefield.kernels.rule_path import follow_path, mark_constant
from rulefield.learning.fit_log import FitResult
from rulefield.learning.rule_weights.lists import Lists, MeasuredLists

MIN_PRICE = 0.1
"""Found rules that are worth less, in nats, are left out: they are many, and hardly act."""
PRICE_SHARE = 0.5
"""Share of its residual price toward which the weight of a found rule is drawn: it was chosen because gold labels keep it."""
MIN_GAIN = 0.05
"""Log likelihood, in nats over all sequences, that a rule must be worth."""


@dataclass(frozen=True)
class PathSettings:
    """``l2`` draws weights to residual prices; ``most`` rules are taken beyond those that are forced.

    After each rule, all weights are improved in so many ``sweeps`` at most.
    """

    l2: float = 1.0
    most: int = 20
    min_price: float = MIN_PRICE
    min_gain: float = MIN_GAIN
    sweeps: int = 2


@dataclass(frozen=True)
class RulePath:
    """Rules in the order in which they were taken, and their weights after each.

    Parameters
    ----------
    order : ndarray of int64, shape (n_taken,)
        Forced rules first.
    weights : ndarray, shape (n_sizes, n_rules)
        Row k: weights if k rules are taken beyond the forced ones.
    prior : ndarray, shape (n_rules,)
        Prices toward which weights are drawn.
    result : FitResult, optional
        Of a learner that learns all weights at once.
    """

    order: np.ndarray
    weights: np.ndarray
    prior: np.ndarray
    result: FitResult | None = None


class PathData:
    """Lists under rules, laid out for the search: one sparse column per rule."""

    def __init__(self, measured: MeasuredLists, gold: csr_matrix):
        lists = measured.lists
        units = csc_matrix(measured.units)
        units.sort_indices()
        self.measured, self.gold = measured, gold
        self.owner = lists.owner.astype(np.int64)
        self.first = np.append(lists.first, len(lists.owner)).astype(np.int64)
        self.target = nearest(lists, measured.worth)
        keep, constant = np.zeros((2, units.nnz), dtype=np.bool_)
        columns, rows = units.indptr.astype(np.int64), units.indices.astype(np.int64)
        mark_constant(columns, rows, units.data, self.owner, self.first, keep, constant)
        self.columns = np.append(0, np.cumsum(keep))[columns]
        self.rows, self.units = rows[keep], units.data[keep]
        rule = np.repeat(np.arange(units.shape[1]), np.diff(columns))
        self._constant = rule[constant], self.owner[rows[constant]]

    def follow(
        self,
        forced: np.ndarray,
        prior: np.ndarray,
        free: np.ndarray,
        how: PathSettings,
        members: np.ndarray | None = None,
    ) -> RulePath:
        """Take rules that are ``free`` (a mask) after those that are ``forced`` (numbers, with ``prior`` prices).

        ``members`` are the sequences to learn from, by default all.
        """
        n, n_rules = self.gold.shape
        member = np.ones(n, dtype=np.bool_)
        if members is not None:
            member[:] = False
            member[members] = True
        rule, sequence = self._constant
        constant = np.bincount(rule[member[sequence]], minlength=n_rules).astype(np.float64)
        by_gold = np.bincount(self.gold[member].indices, minlength=n_rules).astype(np.float64)
        order = np.append(forced, np.full(min(how.most, int(free.sum())), -1)).astype(np.int64)
        prior = np.where(np.isin(np.arange(n_rules), forced), prior, 0.0)
        weights = np.zeros((len(order) - len(forced) + 1, n_rules))
        layout = (self.columns, self.rows, self.units, self.owner, self.first, member, self.target)
        counts = (self.measured.worth, constant, by_gold, int(member.sum()))
        settings = (how.l2, PRICE_SHARE, how.min_price, how.min_gain, how.sweeps)
        n_taken = follow_path(*layout, *counts, free, *settings, len(forced), prior, order, weights)
        return RulePath(order[:n_taken], weights[: n_taken - len(forced) + 1], prior)


def nearest(lists: Lists, worth: np.ndarray) -> np.ndarray:
    """Row of the labeling of each sequence that is nearest to the gold labels; of several, the one that is worth most."""
    if not len(worth):
        return np.zeros(0, dtype=np.int64)
    least = np.minimum.reduceat(lists.wrong, lists.first)
    return lists.best_of(np.where(lists.wrong == least[lists.owner], worth, -np.inf)).astype(np.int64)


def losses(measured: MeasuredLists, weights: np.ndarray) -> np.ndarray:
    """-log share of the target of each sequence, (n_sequences, n_sizes), under weights (n_sizes, n_rules)."""
    lists = measured.lists
    if not len(lists.owner):
        return np.zeros((0, len(weights)))
    worth = measured.worth[:, None] - costs(measured.units, weights)
    top = np.maximum.reduceat(worth, lists.first, axis=0)
    total = np.add.reduceat(np.exp(worth - top[lists.owner]), lists.first, axis=0)
    return top + np.log(total) - worth[nearest(lists, measured.worth)]


def costs(units: csr_matrix, weights: np.ndarray) -> np.ndarray:
    """Cost of each labeling, (n_labelings, n_sizes), under weights (n_sizes, n_rules), most of which are 0."""
    some = np.flatnonzero(weights.any(axis=0))
    return np.asarray(units[:, some] @ weights[:, some].T)
