r"""Weights of rules by penalized likelihood over sets of labelings that grow until they hold every best one.

A held-out sequence i has a set :math:`Y_i`: the ``k`` best labelings of the chain, joined after each round by what the
exact engine decodes under the weights found so far. Over these sets

.. math:: \min_{c \ge 0} \sum_i \Bigl[\log \sum_{y \in Y_i} e^{s(y) - c.v(y)} - (s(t_i) - c.v(t_i))\Bigr]
          + l_1 |c|_1 + \frac{l_2}{2} |c|^2

is convex (L-BFGS-B). A rule that has a prior price p instead pays :math:`\frac{l_2}{2} (c - p)^2`: where the data say
nothing it keeps its price. The target :math:`t_i` is the labeling of the set that is nearest to the gold labels: these
themselves are often out of the chain's reach, and rules cannot mend that. Where the perceptron only learns from what is
decoded wrongly, this sees how probable every wrong labeling is, so few sequences go further; l1 drops rules that say
the same.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import vstack

from rulefield.learning.fit_log import Callback, FitResult, Pass, run_passes
from rulefield.learning.rule_weights.distances import Distance, wrong_labels
from rulefield.learning.rule_weights.learners import Examples
from rulefield.learning.rule_weights.lists import MeasuredLists


def learn_likelihood(
    examples: Examples,
    lists: MeasuredLists,
    *,
    rounds: int = 4,
    l1: float = 1.0,
    l2: float = 0.3,
    prior: np.ndarray | None = None,
    distance: Distance = wrong_labels,
    callback: Callback | None = None,
) -> FitResult:
    """Most likely weights of rules, under a penalty.

    The objective of a round is over the sets so far: a lower bound of the last one's, which holds them all.

    Parameters
    ----------
    examples : Examples
    lists : MeasuredLists
        The sets at the beginning, measured under the rules of ``examples``.
    rounds : int
        Decodings at most, of the examples whose sets might not hold the best labeling; it stops where they bring no new
        one.
    l1, l2 : float
        Penalties, in nats over all examples together: a rule that does not gain more than ``l1`` per unit is dropped.
    prior : ndarray, shape (n_rules,), optional
        Weights toward which rules are drawn, in place of ``l1``; 0 for those that have to earn theirs.
    distance : callable
        What "nearest to the gold labels" means: that of ``lists``.
    """
    return run_passes(
        _Rounds(examples, lists, Penalty.of(l1, l2, prior, examples.learned), distance), rounds, -np.inf, callback
    )


class _Rounds:
    """Weights that are best over the sets of labelings, then sets that hold what these weights decode."""

    def __init__(self, examples: Examples, lists: MeasuredLists, penalty: "Penalty", distance: Distance):
        self.examples, self.lists, self.penalty, self.distance = examples, lists, penalty, distance
        self.theta = penalty.prior

    def learn(self) -> Pass:
        """One round; the last one brings no new labeling."""
        self.theta, value = most_likely(self.lists, self.penalty, self.theta)
        unsure = self.lists.unsure(self.theta).tolist()
        fresh = self._fresh(dict(zip(unsure, self.examples.best(unsure, self.theta))))
        if fresh:
            self._join(fresh)
        return Pass(value, done="" if fresh else "Decoding brought no new labeling.")

    def _fresh(self, decoded: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Return the labelings that are not in the sets, by sequence."""
        lists = self.lists.lists
        ends = np.append(lists.first, len(lists.owner)).tolist()
        fresh = {}
        for i, labels in decoded.items():
            if not any(np.array_equal(labels, lists.labelings[j]) for j in range(ends[i], ends[i + 1])):
                fresh[i] = np.ascontiguousarray(labels, dtype=np.int64)
        return fresh

    def _join(self, fresh: dict[int, np.ndarray]) -> None:
        lists, order = self.lists.lists.joined(fresh, self.distance)
        units = self.examples.units(list(fresh.values()), np.array(list(fresh)))
        scores = np.array([self.examples.examples[i].potentials.score(labels) for i, labels in fresh.items()])
        worth = np.concatenate([self.lists.worth, scores - self.examples.fixed_costs(units)])[order]
        every = vstack([self.lists.units, units], format="csr")[order]
        self.lists = MeasuredLists(lists, every, worth)


@dataclass(frozen=True)
class Penalty:
    """What weights c cost: l1 c + l2 c²/2, or l2 (c - p)²/2 for rules with a prior price p > 0."""

    l1: np.ndarray
    l2: float
    prior: np.ndarray
    learned: np.ndarray

    @classmethod
    def of(cls, l1: float, l2: float, prior: np.ndarray | None, learned: np.ndarray) -> "Penalty":
        """Penalties of rules, those that are not ``learned`` (their weight here stays 0) among them."""
        prior = np.zeros(len(learned)) if prior is None else np.asarray(prior, dtype=np.float64)
        return cls(np.where(prior > 0, 0.0, l1), l2, prior, learned)

    def __call__(self, c: np.ndarray) -> tuple[float, np.ndarray]:
        """Penalty and its gradient."""
        away = c - self.prior
        return float(self.l1 @ c + 0.5 * self.l2 * away @ away), self.l1 + self.l2 * away


def most_likely(lists: MeasuredLists, penalty: Penalty, start: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Weights of the least objective over sets of labelings, and its value (L-BFGS-B)."""
    from scipy.optimize import minimize

    start = penalty.prior if start is None else start
    done = minimize(
        Likelihood(lists).value,
        start,
        (penalty,),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None if learned else 0.0) for learned in penalty.learned],
        options={"maxiter": 300},
    )
    return np.maximum(done.x, 0.0), float(done.fun)


class Likelihood:
    """The objective over fixed sets, as flat arrays; sequences whose labelings all pay alike are left out."""

    def __init__(self, lists: MeasuredLists):
        differences, own = lists.differences, lists.lists
        pays = np.diff(differences.indptr) > 0
        live = np.zeros(len(own.examples), dtype=bool)
        live[own.owner[pays]] = True
        rows = np.flatnonzero(live[own.owner])
        self.owner = (np.cumsum(live) - 1)[own.owner[rows]]
        self.first = np.searchsorted(self.owner, np.arange(int(live.sum())))
        self.worth, self.units = lists.worth[rows], differences[rows]
        nearest = np.lexsort((-self.worth, own.wrong[rows], self.owner))
        self.target = nearest[self.first]
        self._units_by_rule = self.units.T.tocsr()
        self._paid_by_targets = np.asarray(self.units[self.target].sum(axis=0)).ravel()

    def losses(self, c: np.ndarray) -> np.ndarray:
        """-log share of the target of each sequence that is not left out."""
        return self._shares(c)[0]

    def value(self, c: np.ndarray, penalty: Penalty) -> tuple[float, np.ndarray]:
        """Objective and gradient."""
        cost, slope = penalty(c)
        if not len(self.first):
            return cost, slope
        losses, shares = self._shares(c)
        return float(losses.sum()) + cost, self._paid_by_targets - self._units_by_rule @ shares + slope

    def _shares(self, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-log share of the target of each sequence, and the share of each labeling among its sequence's."""
        if not len(self.first):
            return np.zeros(0), np.zeros(0)
        worth = self.worth - self.units @ c
        top = np.maximum.reduceat(worth, self.first)
        shares = np.exp(worth - top[self.owner])
        total = np.add.reduceat(shares, self.first)
        return top + np.log(total) - worth[self.target], shares / total[self.owner]
