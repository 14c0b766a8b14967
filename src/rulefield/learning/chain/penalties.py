"""Penalties that are chosen, not guessed: a few values, each judged on held-out sequences."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.inference.sequences.exact import viterbi_batch
from rulefield.learning.chain.likelihood import ChainLikelihood, fit_likelihood
from rulefield.models.chain import ChainModel

AUTO: Literal["auto"] = "auto"
Penalty = float | Literal["auto"]
Build = Callable[[Sequences, Labels], ChainModel]

USUAL_L1, USUAL_L2 = 0.0, 1.0
"""What is taken if there are too few sequences to hold some out, and where the search begins."""
MIN_SEQUENCES = 6
FOLDS, BLOCKS = 3, 6
"""Parts of the data, one of which is held out; blocks of held-out sequences, whose spread gives errors."""
WEAKER_L2, STRONGER_L2 = (0.3, 0.1, 0.03), (3.0, 10.0)
TRIED_L1, L2_BESIDE_L1 = (0.03, 0.1, 0.3, 1.0), 0.03
WEAK_L2 = 0.1
"""If held-out sequences ask for an l2 no stronger than this, the labels follow from few cues: a sparse model is then taken
unless it loses clearly. On addresses, citations and company names it finds .2 to 1.6 % more spans than the dense one, which
a few held-out sequences cannot show."""
LOSS_OF_SPARSE, LOSS_IF_WEAK = -1.0, -4.0
"""What a first sparse trial may lose, in standard errors of likelihood and whole sequences together."""
TOL, MAX_ITERATIONS = 5e-3, 100
"""Every trial begins at 0 and ends by the same rule: the held-out likelihood settles long before the weights do."""
MAX_WORK = 5.0
"""All trials together, in units of the first one's evaluations: about two whole fits, which evaluate more often."""


@dataclass(frozen=True)
class Penalties:
    """What was chosen, the passes over all sequences that the choice took, and whether Ctrl-C ended it."""

    l1: float
    l2: float
    passes: float = 0.0
    interrupted: bool = False


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
    """Replace each ``"auto"`` by the value that serves sequences held out best.

    A third of the sequences is held out. Trials are fits that begin at 0 and converge to the same
    tolerance. l2 goes from 1 down or up by factors of about three, as long as that helps; then, if the work so far allows it,
    l1 goes up from 0.03 beside a weak l2. A trial is better if the likelihood of held-out labels and the number of whole
    sequences that are right gain more, each in its standard errors, than they lose; a sparse one also if it loses less than
    one standard error, or four if the chosen l2 is weak. The work is limited: with the fit that follows, at most four times
    that of one fit. Ctrl-C ends the search: the best values so far are taken.

    Parameters
    ----------
    build : callable
        From sequences and labels to the structure of the model: what the held-out part alone has seen has no weights.
    data, labels, weight : training data
    l1, l2 : float or "auto"
    seed : int
        Of the split.
    n_jobs : int, optional
        Threads. The choice is the same for any number.
    """
    given = Penalties(USUAL_L1 if l1 == AUTO else l1, USUAL_L2 if l2 == AUTO else l2)
    if AUTO not in (l1, l2) or len(data) < MIN_SEQUENCES:
        return given
    split = _Split(build, data, labels, weight, seed, n_jobs)
    best = begun = split.trial(given.l1, given.l2)
    if l2 == AUTO:
        weaker = [value for value in WEAKER_L2 if l1 != AUTO or value >= WEAK_L2]  # a sparse trial follows the others
        best = split.follow(begun, [(given.l1, value) for value in weaker])
        if best is begun:
            best = split.follow(begun, [(given.l1, value) for value in STRONGER_L2])
    if l1 == AUTO:
        beside = min(best.l2, L2_BESIDE_L1) if l2 == AUTO else best.l2
        margin = LOSS_IF_WEAK if best.l2 <= WEAK_L2 else LOSS_OF_SPARSE
        best = split.follow(best, [(value, beside) for value in TRIED_L1], margin=margin)
    return Penalties(best.l1, best.l2, split.passes, split.interrupted)


@dataclass(frozen=True)
class _Trial:
    """Penalties, and for each block of held-out sequences its loss and the number of whole sequences that are right."""

    l1: float
    l2: float
    losses: np.ndarray
    right: np.ndarray

    def gain_over(self, other: "_Trial") -> float:
        """Gains in likelihood and in whole sequences, each in its standard errors."""
        return in_errors(other.losses - self.losses) + in_errors(self.right - other.right)


def in_errors(gains: np.ndarray) -> float:
    """Return a sum in its standard errors, 0 if nothing changes."""
    size = float(np.sqrt((gains**2).sum()))
    return float(gains.sum()) / size if size else 0.0


@dataclass(frozen=True)
class _Block:
    """Held-out sequences that are judged together."""

    data: Sequences
    labels: Labels
    loss: ChainLikelihood

    def right(self, theta: np.ndarray) -> float:
        """Weight of the whole sequences that the best labels have right."""
        model = self.loss.model
        found, _ = viterbi_batch(model.unary(theta, self.data), model.pairwise(theta), self.data.offsets)
        ids, allowed = self.labels.ids, self.labels.allowed
        good = found == ids if allowed is None else allowed[np.arange(len(found)), found] > 0
        whole = np.logical_and.reduceat(good, self.data.offsets[:-1])
        return float(self.loss.weight @ whole)


class _Split:
    """A part of the data to fit, and blocks of the others to judge by."""

    def __init__(
        self,
        build: Build,
        data: Sequences,
        labels: Labels,
        weight: np.ndarray | None,
        seed: int,
        n_jobs: int | None,
    ):
        self.n_jobs, self.seed, self.passes, self.limit = n_jobs, seed, 0.0, 0.0
        self.interrupted = False
        self.n_tokens = data.n_tokens
        order = np.random.default_rng(seed).permutation(len(data))
        held, rest = np.sort(order[::FOLDS]), np.sort(np.delete(order, np.s_[::FOLDS]))
        model = build(data[rest], labels[rest])

        def loss(rows: np.ndarray) -> ChainLikelihood:
            share = None if weight is None else weight[rows]
            return ChainLikelihood(model, data[rows], labels[rows], sample_weight=share, n_jobs=n_jobs)

        blocks = [rows for rows in np.array_split(held, BLOCKS) if len(rows)]
        self.blocks = [_Block(data[rows], labels[rows], loss(rows)) for rows in blocks]
        self.fit = loss(rest)

    def trial(self, l1: float, l2: float) -> _Trial:
        """Fit and judge."""
        self.fit.l2 = l2
        done = fit_likelihood(self.fit, l1=l1, max_iter=MAX_ITERATIONS, tol=TOL, n_jobs=self.n_jobs, seed=self.seed)
        self.interrupted = done.interrupted
        evaluations = done.log[-1].evaluations if done.log else 1
        self.passes += (evaluations * self.fit.n_tokens + self.n_tokens / FOLDS) / self.n_tokens
        self.limit = self.limit or MAX_WORK * self.passes
        losses = np.array([block.loss.value(done.theta) for block in self.blocks])
        return _Trial(l1, l2, losses, np.array([block.right(done.theta) for block in self.blocks]))

    def follow(self, best: _Trial, values: Iterable[tuple[float, float]], margin: float = 0.0) -> _Trial:
        """Try one pair after the other, as long as each gains more than the margin over the last and the work allows it."""
        for l1, l2 in values:
            if self.interrupted or self.passes + self.limit / MAX_WORK > 1.1 * self.limit:
                return best
            try:
                trial = self.trial(l1, l2)
            except KeyboardInterrupt:  # before the trial had weights to keep
                self.interrupted = True
                return best
            if self.interrupted or not trial.gain_over(best) > margin:
                return best
            best, margin = trial, 0.0
        return best
