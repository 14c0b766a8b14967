r"""Weights of few rules by penalized likelihood: rules are taken one by one, and weighed anew after each.

A held-out sequence i has a list :math:`Y_i` of labelings. Rules of weights c make gold labels as likely as

.. math:: \min_{c \ge 0} \sum_i \Bigl[\log \sum_{y \in Y_i} e^{s(y) - c.v(y)} - (s(t_i) - c.v(t_i))\Bigr]
          + \frac{l_2}{2} |c - p|^2

The target :math:`t_i` is the labeling of the list that is nearest to the gold labels: these themselves are often out of the
chain's reach, and rules cannot fix that. p are residual prices (:mod:`rulefield.learning.rule_weights.residual`): if the data
say little, a rule keeps its price. Of many rules that say nearly the same, the first that is taken pays; what is left for the
others is measured anew, so a few rules are worth nearly as much as hundreds that are weighed at once.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix

from rulefield.kernels.rule_path import follow_path, mark_constant, shorten_path
from rulefield.learning.rule_weights.lists import MeasuredLists

MIN_PRICE = 0.1
"""Found rules that are worth less, in nats, are left out: they are many, and hardly act."""
PRICE_SHARE = 0.5
"""Share of its residual price toward which the weight of a found rule is drawn: it was chosen because gold labels keep it."""
MIN_GAIN = 0.05
"""What a rule must raise the log likelihood of all sequences by, in nats, to be taken."""
MIN_LOSS, STATE_SHARE = 0.15, 0.5
"""What the log likelihood must fall by, in nats, if a rule is dropped, for it to be kept; and the share of this that each
doubling of its states adds: sums under rules take time and memory in proportion to states."""
TAKEN = 2
"""Rules that are taken for each that may be kept: on held-out citations, the best twenty of forty were worth more than the
first twenty that were taken."""


@dataclass(frozen=True)
class PathSettings:
    """How rules are taken and kept: ``most`` beyond those that are forced (None: as many as are worth it).

    ``l2`` draws weights to residual prices; all weights are improved ``sweeps`` times after each rule, at most.
    """

    l2: float = 3.0
    most: int | None = None
    min_price: float = MIN_PRICE
    min_gain: float = MIN_GAIN
    sweeps: int = 2


@dataclass(frozen=True)
class RulePath:
    """Rules in the order in which they were taken, forced ones first, and the prices (n_rules,) to which weights are drawn.

    Row k of ``weights`` (n_sizes, n_rules) holds the weights if k rules are taken beyond the forced ones.
    """

    order: np.ndarray
    weights: np.ndarray
    prior: np.ndarray
    n_forced: int


class PathData:
    """Lists under rules, laid out for the search: one sparse column per rule."""

    def __init__(self, measured: MeasuredLists):
        lists = measured.lists
        units = csc_matrix(measured.units)
        units.sort_indices()
        self.measured = measured
        self.owner = lists.owner.astype(np.int64)
        self.first = np.append(lists.first, len(lists.owner)).astype(np.int64)
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

        ``members`` (a mask) are the sequences to learn from, by default all.
        """
        gold = self.measured.gold
        n, n_rules = gold.shape
        member = np.ones(n, dtype=np.bool_) if members is None else members
        rule, sequence = self._constant
        constant = np.bincount(rule[member[sequence]], minlength=n_rules).astype(np.float64)
        by_gold = np.bincount(gold[member].indices, minlength=n_rules).astype(np.float64)
        most = int(free.sum()) if how.most is None else min(how.most, int(free.sum()))
        order = np.append(forced, np.full(most, -1)).astype(np.int64)
        prior = np.where(np.isin(np.arange(n_rules), forced), prior, 0.0)
        weights = np.zeros((len(order) - len(forced) + 1, n_rules))
        counts = (constant, by_gold, int(member.sum()))
        settings = (how.l2, PRICE_SHARE, how.min_price, how.min_gain, how.sweeps)
        n_taken = follow_path(*self._layout(member), *counts, free, *settings, len(forced), prior, order, weights)
        return RulePath(order[:n_taken], weights[: n_taken - len(forced) + 1], prior, len(forced))

    def shorten(self, path: RulePath, how: PathSettings, members: np.ndarray | None = None) -> RulePath:
        """Drop rules of a path one by one, and keep the largest sets in which each rule is worth its place.

        Rules that were taken early are often worth little beside those that came later.
        """
        member = np.ones(len(self.first) - 1, dtype=np.bool_) if members is None else members
        order, weights = path.order.copy(), path.weights.copy()
        drops, expense = np.zeros(len(weights)), 1.0 + STATE_SHARE * np.log2(self.measured.states)
        settings = (how.l2, how.sweeps, path.n_forced, expense, path.prior)
        shorten_path(*self._layout(member), *settings, drops, order, weights)
        good = drops >= MIN_LOSS
        good[len(drops) if how.most is None else how.most + 1 :] = False
        size = int(np.flatnonzero(good).max(initial=0))
        return RulePath(order[: path.n_forced + size], weights[: size + 1], path.prior, path.n_forced)

    def _layout(self, member: np.ndarray) -> tuple[np.ndarray, ...]:
        measured = self.measured
        sparse = (self.columns, self.rows, self.units, self.owner, self.first)
        return (*sparse, member, measured.target, measured.worth)


def worth_under(worth: np.ndarray, units: csr_matrix, weights: np.ndarray) -> np.ndarray:
    """Worth of each labeling, (n_labelings, n_sizes), under weights (n_sizes, n_rules), most of which are 0."""
    some = np.flatnonzero(weights.any(axis=0))
    return worth[:, None] - np.asarray(units[:, some] @ weights[:, some].T)


def losses(measured: MeasuredLists, worth: np.ndarray) -> np.ndarray:
    """-log share of the target of each sequence, (n_sequences, n_sizes); labelings are worth (n_labelings, n_sizes)."""
    lists = measured.lists
    if not len(lists.owner):
        return np.zeros((0, worth.shape[1]))
    top = np.maximum.reduceat(worth, lists.first, axis=0)
    total = np.add.reduceat(np.exp(worth - top[lists.owner]), lists.first, axis=0)
    return top + np.log(total) - worth[measured.target]
