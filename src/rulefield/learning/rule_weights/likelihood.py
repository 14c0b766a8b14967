"""Weights of rules that were taken, by penalized likelihood over lists of labelings that grow until they hold every best one.

The objective is that of :mod:`rulefield.learning.rule_weights.path`. A list begins with the best labelings of the chain; what
the exact engine decodes under the weights so far joins it after each round.
"""

import numpy as np
from scipy.sparse import vstack

from rulefield.learning.fit_log import Callback, FitResult, Pass, run_passes
from rulefield.learning.rule_weights.learners import Examples
from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.learning.rule_weights.path import PathData, PathSettings, losses

MAX_SWEEPS = 200
"""Sweeps over weights that are kept."""


def learn_likelihood(
    examples: Examples,
    lists: MeasuredLists,
    taken: np.ndarray,
    prior: np.ndarray,
    *,
    l2: float = 1.0,
    rounds: int = 4,
    callback: Callback | None = None,
) -> FitResult:
    """Most likely weights of the rules that were ``taken``, drawn to their ``prior`` prices.

    The objective of a round is over the lists so far: a lower bound of the last one's, which holds them all.

    Parameters
    ----------
    examples : Examples
    lists : MeasuredLists
        The lists at the beginning, measured under the rules of ``examples``.
    taken : ndarray of int
        Numbers of rules; the others keep weight 0.
    prior : ndarray, shape (n_rules,)
    l2 : float
    rounds : int
        Decodings at most, of the examples whose lists might not hold the best labeling; it stops if they bring no new
        one.
    """
    learner = _Rounds(examples, lists, np.asarray(taken, dtype=np.int64), prior, l2)
    return run_passes(learner, rounds, -np.inf, callback)


class _Rounds:
    """Weights that are best over the lists, then lists that hold what these weights decode."""

    def __init__(self, examples: Examples, lists: MeasuredLists, taken: np.ndarray, prior: np.ndarray, l2: float):
        self.examples, self.lists, self.taken, self.prior, self.l2 = examples, lists, taken, prior, l2
        self.theta = np.zeros(len(prior))

    def learn(self) -> Pass:
        """One round; the last one brings no new labeling."""
        none = np.zeros(len(self.prior), dtype=bool)
        path = PathData(self.lists, self.examples.gold).follow(
            self.taken, self.prior, none, PathSettings(l2=self.l2, most=0, sweeps=MAX_SWEEPS)
        )
        self.theta = path.weights[-1]
        away = (self.theta - self.prior)[self.taken]
        value = float(losses(self.lists, self.theta[None]).sum() + 0.5 * self.l2 * away @ away)
        unsure = self.lists.unsure(self.theta).tolist()
        fresh = self._fresh(dict(zip(unsure, self.examples.best(unsure, self.theta))))
        if fresh:
            self._join(fresh)
        return Pass(value, done="" if fresh else "Decoding brought no new labeling.")

    def _fresh(self, decoded: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Return the labelings that are not in the lists, by sequence."""
        lists = self.lists.lists
        ends = np.append(lists.first, len(lists.owner)).tolist()
        fresh = {}
        for i, labels in decoded.items():
            if not any(np.array_equal(labels, lists.labelings[j]) for j in range(ends[i], ends[i + 1])):
                fresh[i] = np.ascontiguousarray(labels, dtype=np.int64)
        return fresh

    def _join(self, fresh: dict[int, np.ndarray]) -> None:
        lists, order = self.lists.lists.joined(fresh)
        units = self.examples.units(list(fresh.values()), np.array(list(fresh)))
        scores = np.array([self.examples.examples[i].score(labels) for i, labels in fresh.items()])
        worth = np.concatenate([self.lists.worth, scores - self.examples.fixed_costs(units)])[order]
        every = vstack([self.lists.units, units], format="csr")[order]
        self.lists = MeasuredLists(lists, every, worth)
