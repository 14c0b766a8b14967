"""Penalties that are chosen, not guessed: a few values, each judged by the likelihood of held-out sequences."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.learning.chain.fit import fit_likelihood, pays
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.models.chain import ChainModel

AUTO: Literal["auto"] = "auto"
Penalty = float | Literal["auto"]
Build = Callable[[Sequences, Labels], ChainModel]

USUAL_L1, USUAL_L2 = 0.0, 0.3
"""What is taken where there are too few sequences to hold some out, and where the search begins."""
LEAST_SEQUENCES = 6
FOLDS, ROUNDS = 3, 2
WEAKER_L2, STRONGER_L2 = (0.1, 0.03), (1.0, 3.0, 10.0)
TRIED_L1 = (0.1, 0.3, 1.0)
# The likelihood of held-out sequences settles long before the weights do.
COARSE = 5e-3
MOST_ITERATIONS, MOST_FROM_NEAR, MOST_SPARSE = 30, 12, 24
# All trials together, in units of the first one's evaluations: below two whole fits, which evaluate more often.
MOST_WORK = 4.0
# Fits that are stopped early flatter weak penalties, and weak penalties make too sure: they must win clearly.
LEAST_GAIN_WEAKER = 0.05
# Sparse weights take several times as long to find, and stopped early they look better than they are: they must win clearly.
LEAST_GAIN_L1 = 0.1


@dataclass(frozen=True)
class Penalties:
    """What was chosen, and the evaluations of the objective that it took, in passes over all sequences."""

    l1: float
    l2: float
    passes: float = 0.0


def choose_penalties(
    build: Build,
    data: Sequences,
    labels: Labels,
    weight: np.ndarray | None,
    l1: Penalty,
    l2: Penalty,
    *,
    seed: int = 0,
    n_jobs: int | None = 1,
) -> Penalties:
    """Replace each ``"auto"`` by the value under which sequences held out are most likely.

    Two of three folds (one where data are large) are held out in turn; on each, a path of fits, every one begun at the
    last one's weights and stopped early. l2 goes from 0.3 down by factors of about three as long as that helps, or else
    up; then, where the work so far allows it, l1 goes up from 0, judged on the first fold. The work is limited: with the
    fit that follows, about three times that of one fit.

    Parameters
    ----------
    build : callable
        From sequences and labels to the structure of the model: what the held-out part alone has seen has no weights.
    data, labels, weight : training data
    l1, l2 : float or "auto"
    seed : int
        Of the folds.
    n_jobs : int, optional
        Threads. The choice is the same for any number.
    """
    given = Penalties(USUAL_L1 if l1 == AUTO else l1, USUAL_L2 if l2 == AUTO else l2)
    if AUTO not in (l1, l2) or len(data) < LEAST_SEQUENCES:
        return given
    folds = _Folds(build, data, labels, weight, seed, n_jobs)
    best = begun = folds.trial(given.l1, given.l2)
    if l2 == AUTO:
        best = folds.follow(begun, [(given.l1, value) for value in WEAKER_L2])
        if best is begun:
            best = folds.follow(begun, [(given.l1, value) for value in STRONGER_L2])
    if l1 == AUTO:
        best = folds.sparser(best)
    return Penalties(best.l1, best.l2, folds.passes)


@dataclass(frozen=True)
class _Trial:
    """Penalties, and for each fold the weights that they gave and the loss of the held-out part."""

    l1: float
    l2: float
    weights: list[np.ndarray]
    losses: list[float]


class _Folds:
    """Parts of the data to fit and to judge by."""

    def __init__(
        self,
        build: Build,
        data: Sequences,
        labels: Labels,
        weight: np.ndarray | None,
        seed: int,
        n_jobs: int | None,
    ):
        self.pairs: list[tuple[ChainLikelihood, ChainLikelihood]] = []
        self.n_jobs, self.seed, self.passes, self.limit = n_jobs, seed, 0.0, 0.0
        self.n_tokens = data.n_tokens
        order = np.random.default_rng(seed).permutation(len(data))
        for fold in range(ROUNDS):
            held, rest = np.sort(order[fold::FOLDS]), np.sort(np.delete(order, np.s_[fold::FOLDS]))
            model = build(data[rest], labels[rest])
            fit, judge = (
                ChainLikelihood(
                    model,
                    data[rows],
                    labels[rows],
                    sample_weight=None if weight is None else weight[rows],
                    n_jobs=n_jobs,
                )
                for rows in (rest, held)
            )
            self.pairs.append((fit, judge))
            if pays(fit):
                return

    def trial(self, l1: float, l2: float, near: _Trial | None = None, most: int = MOST_ITERATIONS) -> _Trial:
        """Fit and judge every fold (those that ``near`` has), from the weights of ``near``."""
        made = _Trial(l1, l2, [], [])
        for i, (fit, judge) in enumerate(self.pairs if near is None else self.pairs[: len(near.weights)]):
            fit.l2 = l2
            start = None if near is None else near.weights[i]
            done = fit_likelihood(fit, start, l1=l1, max_iter=most, tol=COARSE, n_jobs=self.n_jobs, seed=self.seed)
            evaluations = done.log[-1].evaluations if done.log else 1
            self.limit = self.limit or MOST_WORK * evaluations
            self.passes += (evaluations * fit.n_tokens + judge.n_tokens) / self.n_tokens
            made.weights.append(done.theta)
            made.losses.append(judge.value(done.theta))
        return made

    def follow(self, best: _Trial, values: Iterable[tuple[float, float]], most: int = MOST_FROM_NEAR) -> _Trial:
        """Try one pair after the other, as long as each is better than the last and the work allows it."""
        for l1, l2 in values:
            share = len(best.weights) * (FOLDS - 1) / FOLDS
            if self.passes + most * share > self.limit:
                return best
            here = self.trial(l1, l2, best, most)
            margin = LEAST_GAIN_WEAKER if l2 < best.l2 else 0.0
            if not sum(here.losses) < (1.0 - margin) * sum(best.losses):
                return best
            best = here
        return best

    def sparser(self, best: _Trial) -> _Trial:
        """Try L1 penalties on the first fold, against as many iterations more without: they must win by a margin."""
        one = _Trial(best.l1, best.l2, best.weights[:1], best.losses[:1])
        if self.passes + 2 * MOST_SPARSE * (FOLDS - 1) / FOLDS > self.limit:
            return best
        dense = self.trial(best.l1, best.l2, one, MOST_SPARSE)
        found = self.follow(dense, [(value, best.l2) for value in TRIED_L1], MOST_SPARSE)
        return found if sum(found.losses) < (1.0 - LEAST_GAIN_L1) * sum(dense.losses) else best
