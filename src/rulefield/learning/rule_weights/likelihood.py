r"""Weights of rules by penalised likelihood over sets of labellings that grow until they hold every best one.

A held-out sequence i has a set :math:`Y_i`: the ``k`` best labellings of the chain, joined after each round by what the
exact engine decodes under the weights found so far. Over these sets

.. math:: \min_{c \ge 0} \sum_i \Bigl[\log \sum_{y \in Y_i} e^{s(y) - c.v(y)} - (s(t_i) - c.v(t_i))\Bigr]
          + l_1 |c|_1 + \frac{l_2}{2} |c|^2

is convex (L-BFGS-B). A rule that has a prior price p instead pays :math:`\frac{l_2}{2} (c - p)^2`: where the data say
nothing it keeps its price. The target :math:`t_i` is the labelling of the set that is nearest to the gold labels: these
themselves are often out of the chain's reach, and rules cannot mend that. Where the perceptron only learns from what is
decoded wrongly, this sees how probable every wrong labelling is, so few sequences go further; l1 drops rules that say
the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, vstack

from rulefield.encode.spans import SegmentTable
from rulefield.inference.chain.exact import kbest
from rulefield.learning.fit_log import Callback, FitResult, Pass, run_passes
from rulefield.learning.rule_weights.learners import Examples

Distance = Callable[[np.ndarray, Sequence[np.ndarray]], np.ndarray]
"""How far labellings are from the gold labels (n,): one number each."""


def wrong_labels(gold: np.ndarray, labellings: Sequence[np.ndarray]) -> np.ndarray:
    """Tokens whose label is wrong."""
    return np.array([float((labels != gold).sum()) for labels in labellings])


class WrongSpans:
    """Segments, at every level, that are found but not gold or gold but not found.

    Parameters
    ----------
    table : SegmentTable
    """

    def __init__(self, table: SegmentTable):
        self.table = table

    def __call__(self, gold: np.ndarray, labellings: Sequence[np.ndarray]) -> np.ndarray:
        """Distances of labellings (n,) from the gold labels."""
        k, n = len(labellings), len(gold)
        ids, lengths = np.concatenate([gold, *labellings]), np.full(k + 1, n, dtype=np.int64)
        wrong = np.zeros(k)
        for level in range(self.table.depth):
            first, last, kind = self.table.find(ids, lengths, level)
            stop, kinds = np.full((2, (k + 1) * n), -1, dtype=np.int64)
            stop[first], kinds[first] = last % n, kind
            stop, kinds = stop.reshape(k + 1, n), kinds.reshape(k + 1, n)
            found = stop >= 0
            right = found[0] & found[1:] & (stop[1:] == stop[0]) & (kinds[1:] == kinds[0])
            wrong += found[1:].sum(axis=1) + found[0].sum() - 2 * right.sum(axis=1)
        return wrong


def learn_likelihood(
    examples: Examples,
    *,
    rounds: int = 4,
    k: int = 40,
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
    rounds : int
        Decodings of all examples at most; it stops before where they bring no new labelling.
    k : int
        Best labellings of the chain that every set starts from.
    l1, l2 : float
        Penalties, in nats over all examples together: a rule that does not gain more than ``l1`` a unit is dropped.
    prior : ndarray, shape (n_rules,), optional
        Weights toward which rules are drawn, in place of ``l1``; 0 for those that have to earn theirs.
    distance : callable
        What "nearest to the gold labels" means: :func:`wrong_labels` or :class:`WrongSpans`.
    """
    return run_passes(
        _Rounds(examples, k, _Penalty.of(l1, l2, prior, len(examples.learned)), distance), rounds, -np.inf, callback
    )


class _Rounds:
    """Weights that are best over the sets of labellings, then sets that hold what these weights decode."""

    def __init__(self, examples: Examples, k: int, penalty: "_Penalty", distance: Distance):
        self.examples, self.penalty, self.distance = examples, penalty, distance
        self.sets = [_start(examples, i, k, distance) for i in range(len(examples))]
        self.theta = np.where(examples.learned, penalty.prior, 0.0)

    def learn(self) -> Pass:
        """One round; the last one brings no new labelling."""
        self.theta, value = _Likelihood(self.examples, self.sets).minimize(self.theta, self.penalty)
        every = range(len(self.examples))
        decoded = self.examples.decode(every, self.theta)
        fresh = [
            _join(self.examples, i, self.sets[i], labels, self.distance) for i, (labels, _) in zip(every, decoded)
        ]
        return Pass(value, done="" if any(fresh) else "Decoding brought no new labelling.")


@dataclass(frozen=True)
class _Penalty:
    """What weights c cost: l1 c + l2 c²/2, or l2 (c - p)²/2 for rules with a prior price p > 0."""

    l1: np.ndarray
    l2: float
    prior: np.ndarray

    @classmethod
    def of(cls, l1: float, l2: float, prior: np.ndarray | None, n_rules: int) -> "_Penalty":
        prior = np.zeros(n_rules) if prior is None else np.asarray(prior, dtype=np.float64)
        return cls(np.where(prior > 0, 0.0, l1), l2, prior)

    def __call__(self, c: np.ndarray) -> tuple[float, np.ndarray]:
        """Penalty and its gradient."""
        away = c - self.prior
        return float(self.l1 @ c + 0.5 * self.l2 * away @ away), self.l1 + self.l2 * away


@dataclass
class _Set:
    """Labellings of one sequence: labels as bytes, scores (fixed rules paid), distances from gold."""

    known: set[bytes]
    worth: list[float]
    wrong: list[float]
    first: np.ndarray
    """Units of the first labelling, (n_rules,)."""
    units: csr_matrix
    """Units of each labelling beyond those of the first, a row each: few, and the likelihood only sees differences."""

    @property
    def target(self) -> int:
        return min(range(len(self.worth)), key=lambda j: (self.worth[j] == -np.inf, self.wrong[j], -self.worth[j]))


def _start(examples: Examples, i: int, k: int, distance: Distance) -> _Set:
    best = kbest(examples.examples[i].potentials, k)
    found = [result.labels for result in best]
    worth, wrong, units = _described(examples, i, found, distance, [result.score for result in best])
    keep = np.flatnonzero(worth > -np.inf).tolist()
    if not keep:
        found, keep = [examples.examples[i].gold], [0]
        worth, wrong, units = _described(examples, i, found, distance)
    known = {found[j].tobytes() for j in keep}
    first = units[keep[0]]
    return _Set(known, worth[keep].tolist(), wrong[keep].tolist(), first, csr_matrix(units[keep] - first))


def _join(examples: Examples, i: int, own: _Set, labels: np.ndarray, distance: Distance) -> bool:
    """Add a labelling to a set; return whether it was new."""
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    if labels.tobytes() in own.known:
        return False
    worth, wrong, units = _described(examples, i, [labels], distance)
    own.known.add(labels.tobytes())
    own.worth += worth.tolist()
    own.wrong += wrong.tolist()
    own.units = vstack([own.units, csr_matrix(units - own.first)], format="csr")
    return True


def _described(
    examples: Examples, i: int, found: list[np.ndarray], distance: Distance, scores: list[float] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score minus what fixed rules cost, distance from gold, units of learned rules, of each labelling."""
    example = examples.examples[i]
    units = examples.paid_by_all([example.tokens] * len(found), found)
    if scores is None:
        scores = [example.potentials.score(labels) for labels in found]
    return (
        np.array(scores) - examples.fixed_costs(units),
        distance(example.gold, found),
        np.where(examples.learned, units, 0.0),
    )


class _Likelihood:
    """The objective over fixed sets, as flat arrays; sequences whose labellings all pay alike are left out."""

    def __init__(self, examples: Examples, sets: list[_Set]):
        live = [own for own in sets if own.units.nnz]
        self.n_rules = len(examples.learned)
        self.learned = examples.learned
        sizes = np.array([len(own.worth) for own in live], dtype=np.int64)
        self.first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if live else np.zeros(0, np.int64)
        self.owner = np.repeat(np.arange(len(live)), sizes)
        self.worth = np.array([w for own in live for w in own.worth])
        self.target = self.first + np.array([own.target for own in live], dtype=np.int64)
        empty = csr_matrix((0, self.n_rules))
        self.units = vstack([own.units for own in live], format="csr") if live else empty
        self._units_by_rule = self.units.T.tocsr()
        self._paid_by_targets = np.asarray(self.units[self.target].sum(axis=0)).ravel()

    def minimize(self, c: np.ndarray, penalty: _Penalty) -> tuple[np.ndarray, float]:
        """Weights of the least objective, and its value."""
        bounds = [(0.0, None) if learned else (0.0, 0.0) for learned in self.learned]
        done = minimize(
            self.value, c, (penalty,), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 300}
        )
        return np.maximum(done.x, 0.0), float(done.fun)

    def value(self, c: np.ndarray, penalty: _Penalty) -> tuple[float, np.ndarray]:
        """Objective and gradient."""
        cost, slope = penalty(c)
        if not len(self.first):
            return cost, slope
        worth = self.worth - self.units @ c
        top = np.maximum.reduceat(worth, self.first)
        shares = np.exp(worth - top[self.owner])
        total = np.add.reduceat(shares, self.first)
        loss = float((top + np.log(total) - worth[self.target]).sum())
        expected = self._units_by_rule @ (shares / total[self.owner])
        return loss + cost, self._paid_by_targets - expected + slope
