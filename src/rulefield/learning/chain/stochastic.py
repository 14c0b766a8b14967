"""Stochastic gradient descent on the likelihood of chains: for large data, and to begin a search near its end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError
from rulefield.kernels.chain.train_stochastic import Schedule, Walk, walk_sequences
from rulefield.kernels.quasi_newton import dot
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.packing import padded

SAMPLE = 300
FIRST_RATE = 0.1
LEAST_DECAY = 0.1
SMALLEST_SCALE = 1e-6


@dataclass(frozen=True)
class Stream:
    """Where a walk through the parts of a corpus stands, so that all of them are one pass."""

    seen: int = 0
    """Sequences of other parts: the penalty is spread over all of them and those of the part."""
    steps: float = 0.0
    """Steps taken: the rate goes on from there."""
    rate: float | None = None
    """First rate; None if it is still to be tried out."""


class StochasticLikelihood:
    r"""Minimizes the objective of :class:`ChainLikelihood` one sequence at a time.

    Step t moves theta against the gradient of one sequence by :math:`\eta_t = \eta_0 / (1 + \eta_0 \lambda t)`,
    where :math:`\lambda = l_2 / n`. The first rate is tried out on a sample; sequences are visited in a new random
    order in every epoch. Deterministic for a seed. An epoch costs about as much as an evaluation of the likelihood:
    the decay of weights that a sequence does not touch is one multiplication.

    ``start`` is where theta begins (zeros by default), ``stream`` where the parts before this one ended;
    ``objective`` is that met in the last whole epoch.

    References
    ----------
    [Bottou12], sections 5.1 (scale) and 5.2 (rates)
    """

    def __init__(
        self,
        likelihood: ChainLikelihood,
        *,
        seed: int | Sequence[int] = 0,
        start: np.ndarray | None = None,
        stream: Stream | None = None,
    ):
        model = likelihood.model
        if likelihood.labels is None:
            raise InputError("stochastic steps need labels; this likelihood has none.")
        self.model, self.labels, self.likelihood = model, likelihood.labels, likelihood
        self._rng = np.random.default_rng(seed)
        lengths = np.diff(likelihood.offsets.astype(np.int64))
        self._members = np.flatnonzero((lengths > 0) & (likelihood.weight > 0)).astype(np.uint64)
        self._before = stream or Stream()
        self._scale, self._shrunk, self._count = 1.0, 1.0, self._before.steps
        self._set(model.zeros() if start is None else model.check_theta(start))
        self._rate = self._before.rate
        self.objective = np.inf

    @property
    def theta(self) -> np.ndarray:
        """The weights learned so far, (model.size,)."""
        model, layout = self.model, self.model.layout
        theta = model.zeros()
        layout.state(theta)[:] = self.likelihood.packing.state(self._walk.state)
        layout.state(theta)[self._untouched] = self._far
        width = padded(model.n_labels)
        layout.transition(theta)[:] = self._walk.step.reshape(-1, width)[model.transition_from, model.transition_to]
        layout.start(theta)[:] = self._walk.start[model.start_label]
        layout.end(theta)[:] = self._walk.end[model.end_label]
        return theta * self._scale

    def epoch(self) -> float:
        """Visit every sequence once; return the objective as met on the way (each loss before its step)."""
        if self._rate is None:
            self._rate = self._try_rates()
        loss = self._visit(self._rng.permutation(self._members), self._rate)
        theta = self.theta
        self.objective = loss + 0.5 * self.likelihood.l2 * dot(theta, theta)
        return self.objective

    @property
    def stream(self) -> Stream:
        """Where the walk stands."""
        return Stream(self._before.seen + len(self._members), self._count, self._rate)

    @property
    def shrunk(self) -> float:
        """What is left of a weight that no sequence touches: the penalty shrinks it all the same."""
        return self._shrunk * self._scale

    def _set(self, theta: np.ndarray, shrunk: float = 1.0) -> None:
        """Take ``theta`` as the weights, with scale 1; untouched ones have shrunk to ``shrunk`` of what they were."""
        model, layout, m = self.model, self.model.layout, self.model.n_labels
        packing, width = self.likelihood.packing, padded(m)
        state = layout.state(theta)
        self._untouched = packing.position == packing.n_work
        self._far = state[self._untouched]
        step, step_mask, step_allowed = (np.zeros((m, width)) for _ in range(3))
        step[model.transition_from, model.transition_to] = layout.transition(theta)
        step_mask[model.transition_from, model.transition_to] = 1.0
        step_allowed[:, :m] = model.allowed
        start, end = (_padded_row(v, m, width) for v in (0.0, 0.0))
        start[model.start_label], end[model.end_label] = layout.start(theta), layout.end(theta)
        self._walk = Walk(
            state=packing.weights(state),
            state_mask=packing.weights(np.ones(len(state))),
            step=step.ravel(),
            step_mask=step_mask.ravel(),
            step_allowed=step_allowed.ravel(),
            start=start,
            start_mask=_indicator(model.start_label, width),
            may_start=_padded_row(model.allowed_start, m, width),
            end=end,
            end_mask=_indicator(model.end_label, width),
            may_end=_padded_row(model.allowed_end, m, width),
        )
        self._scale, self._shrunk = 1.0, shrunk

    def _schedule(self, rate: float) -> Schedule:
        n, l2 = max(1, self._before.seen + len(self._members)), self.likelihood.l2
        return Schedule(rate, max(l2, LEAST_DECAY) / n, l2 / n)

    def _visit(self, order: np.ndarray, rate: float) -> float:
        """Take a step for each sequence of ``order``; return the sum of their losses."""
        f = self.likelihood
        position, total = np.uint64(0), 0.0
        while position < len(order):
            position, self._scale, self._count, loss = walk_sequences(
                order,
                position,
                np.uint64(self.model.n_labels),
                f.offsets,
                f.weight,
                f.partial,
                f.allowed,
                self.labels.ids,
                f.packing.packed,
                self._walk,
                self._scale,
                self._count,
                self._schedule(rate),
            )
            total += loss
            if position < len(order):
                total += self._step_in_log_space(int(order[int(position)]), rate)
                position += np.uint64(1)
            if self._scale < SMALLEST_SCALE:
                self._set(self.theta, self.shrunk)
        return total

    def _step_in_log_space(self, i: int, rate: float) -> float:
        schedule, theta = self._schedule(rate), self.theta
        value, gradient = self.likelihood.of_sequence(theta, i)
        length = schedule.rate / (1.0 + schedule.rate * schedule.decay * self._count)
        left = 1.0 - length * schedule.shrink
        self._set(left * theta - length * gradient, left * self.shrunk)
        self._count += 1.0
        return value

    def _try_rates(self) -> float:
        """Double (or halve) the first rate as long as that lowers the objective of a sample after one pass."""
        sample = self._rng.permutation(self._members)[:SAMPLE]
        rate = FIRST_RATE
        best = self._outcome(sample, rate)
        for factor in (2.0, 0.5):
            value = self._outcome(sample, rate * factor)
            if value < best:
                while value < best:
                    rate, best = rate * factor, value
                    value = self._outcome(sample, rate * factor)
                break
        return rate

    def _outcome(self, sample: np.ndarray, rate: float) -> float:
        """Objective of the sample after a pass over it with this rate; the weights are put back."""
        kept = self._walk, self._scale, self._shrunk, self._count, self._far
        self._walk = Walk(*(part.copy() for part in self._walk))
        self._visit(sample, rate)
        theta = self.theta
        share = len(sample) / max(1, self._before.seen + len(self._members))
        value = self._visit(sample, 0.0) + 0.5 * share * self.likelihood.l2 * dot(theta, theta)
        self._walk, self._scale, self._shrunk, self._count, self._far = kept
        return value if np.isfinite(value) else np.inf


def _padded_row(values: np.ndarray | float, m: int, width: int) -> np.ndarray:
    row = np.zeros(width)
    row[:m] = values
    return row


def _indicator(label: np.ndarray, width: int) -> np.ndarray:
    row = np.zeros(width)
    row[label] = 1.0
    return row
