"""The negative log-likelihood of labeled chains, with partial labels, weights of sequences and an L2 penalty.

:func:`fit_likelihood` finds its least value: stochastic steps to come near, then L-BFGS (or OWL-QN) to the end.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rulefield.data.sequences import Labels, Sequences, SparseRows
from rulefield.exceptions import ClusterError, InputError, LabelError
from rulefield.inference.sequences.exact import clamp, forward_backward
from rulefield.interrupts import check, deferred
from rulefield.kernels.chain.train import Ends, Gradient, train_shard
from rulefield.kernels.chain.train_steps import DenseSteps, SparseSteps
from rulefield.kernels.quasi_newton import dot
from rulefield.learning.chain.packing import TransitionFactors, pack, padded
from rulefield.learning.fit_log import Callback, Ending, FitResult
from rulefield.learning.lbfgs import minimize_owlqn
from rulefield.models.chain import ChainModel
from rulefield.parallel import Threads, give_back, shard_bounds

if TYPE_CHECKING:
    from rulefield.learning.chain.parts import CorpusLikelihood, CorpusWalk
    from rulefield.learning.chain.stochastic import StochasticLikelihood


class _Part(NamedTuple):
    """What a shard answers: its value, its expected counts, the sequences that need log space."""

    value: float
    counts: Gradient
    odd: np.ndarray


class ChainLikelihood:
    r"""Negative conditional log-likelihood of a data set as a function of theta.

    .. math:: f(\theta) = -\sum_i \omega_i \log \sum_{y \in Y_i} p_\theta(y \mid x_i) + \tfrac{1}{2} l_2 |\theta|^2

    where :math:`Y_i` are the labelings that the annotation of sequence i allows. Its gradient is the expected
    number of uses of each weight under the model, minus that under the model given :math:`Y_i` (``math`` of clamped
    chains).

    Parameters
    ----------
    sequences : Sequences
        Packed, and not kept: evaluations read what was packed.
    labels : Labels or None
        None: nothing is observed, and the value is the sum of log partition functions alone.
    n_jobs : int, optional
        Threads. The value and the gradient are the same, to the last bit, for any number.
    bounds : ndarray of uint64, shape (n_shards + 1,), optional
        See :func:`rulefield.parallel.shard_bounds`.

    Notes
    -----
    An evaluation costs O(weights touched + n_tokens * n_labels**2), less where few transitions have weights.
    Sequences whose sums would underflow in probability space are taken in log space, one by one, which is slower.
    """

    def __init__(
        self,
        model: ChainModel,
        sequences: Sequences,
        labels: Labels | None,
        *,
        l2: float = 0.0,
        sample_weight: np.ndarray | None = None,
        n_jobs: int | None = 1,
        bounds: np.ndarray | None = None,
    ):
        if labels is not None:
            _check(model, sequences, labels)
        self.model, self.labels = model, labels
        self.l2 = float(l2)
        self.weight = as_rates(sample_weight, len(sequences))
        self.threads = Threads(n_jobs)
        self.offsets = sequences.offsets.astype(np.uint64)
        self._bounds = shard_bounds(sequences.lengths, model.n_labels) if bounds is None else bounds
        self.partial = _partial_sequences(model, labels) if labels is not None else np.zeros(len(sequences), np.uint8)
        none = np.zeros((0, model.n_labels), np.uint8)
        self.allowed = none if labels is None or labels.allowed is None else labels.allowed
        self._observed = self._observed_counts(sequences)
        self._given = self._given_scores(sequences)
        self.factors = TransitionFactors(model)
        shard_tokens = self.offsets[self._bounds.astype(np.int64)]
        self.packing = pack(model.rows(sequences), model.pairs, shard_tokens, sequences.scores)

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.model.size

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.offsets[-1])

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient (size,) at ``theta``, which must be finite."""
        steps = self.factors.steps(theta)
        value = 0.5 * self.l2 * dot(theta, theta) - dot(theta, self._observed) - float(self._given.sum())
        if steps is None:
            odd, gradient = np.ones(len(self.weight), np.uint8), self._constant_gradient(theta)
        else:
            summed, odd, gradient = self._in_probability_space(theta, steps)
            value += summed
        if odd.any():
            value += self._in_log_space(theta, np.flatnonzero(odd), gradient)
        return value, gradient

    def _constant_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient of the penalty, minus what was observed: it does not depend on sums over labelings."""
        gradient = self.l2 * theta
        gradient -= self._observed
        return gradient

    def value(self, theta: np.ndarray) -> float:
        """Value at ``theta``."""
        return self.value_and_gradient(theta)[0]

    @property
    def labeled(self) -> bool:
        """Whether anything is observed."""
        return self.labels is not None

    def walk(self, seed: int) -> "StochasticLikelihood":
        """Return a walk through the data by stochastic steps."""
        from rulefield.learning.chain.stochastic import StochasticLikelihood

        return StochasticLikelihood(self, seed=seed)

    def of_sequence(self, theta: np.ndarray, i: int) -> tuple[float, np.ndarray]:
        """Value and gradient of the weighted loss of sequence ``i`` alone, without the penalty, in log space."""
        gradient = self.model.zeros()
        value = self._in_log_space(theta, np.array([i]), gradient)
        if self.labels is not None and not self.partial[i]:
            first, last = self._span(i)
            known = self.model.zeros()
            self.model.add_features(known, self.sequence(i), 0, self.labels.ids[first:last], self.weight[i])
            value -= float(theta @ known) + float(self._given[i])
            gradient -= known
        return value, gradient

    def sequence(self, i: int) -> Sequences:
        """Features of sequence ``i`` alone, from what was packed: those without weights are lost."""
        (first, last), given = self._span(i), self.packing.packed.given
        indptr, indices, values = self.packing.rows(first, last, self.model.pairs)
        shape = last - first, self.model.n_features
        rows = SparseRows(values, indices.view(np.int32), indptr.astype(np.int32), shape)
        return Sequences(rows, np.array([last - first]), given[first:last] if len(given) else None)

    def _span(self, i: int) -> tuple[int, int]:
        return int(self.offsets[i]), int(self.offsets[i + 1])

    # --- probability space ------------------------------------------------------------------------

    def _in_probability_space(
        self, theta: np.ndarray, steps: DenseSteps | SparseSteps
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Sum of log partition functions, the sequences that are left to log space (uint8), and the gradient."""
        odd = np.zeros(len(self.weight), np.uint8)
        with self._work_spaces() as (work, shared):
            value, sums = self._summed(theta, steps, odd, work, shared)
            gradient = self._constant_gradient(theta)  # not before: it is as large as all weights
            self._add_expected(theta, sums, gradient)
        return value, odd, gradient

    def _work_spaces(self) -> AbstractContextManager[tuple[np.ndarray, np.ndarray]]:
        """Give two work spaces of zeros: of weights, and of their expected counts."""
        return nullcontext((np.zeros(self.packing.n_work + 1), np.zeros(self.packing.n_work + 1)))

    def _summed(
        self,
        theta: np.ndarray,
        steps: DenseSteps | SparseSteps,
        odd: np.ndarray,
        work: np.ndarray,
        shared: np.ndarray,
    ) -> tuple[float, Gradient]:
        """Sum of log partition functions and expected counts of all shards; ``odd`` marks sequences that are left out."""
        model = self.model
        weights, ends = self.packing.weights(model.layout.state(theta), work), self._ends(theta)
        sums = Gradient(
            state=shared,
            n_shared=np.uint64(self.packing.n_shared),
            gap=np.uint64(0),
            steps=np.zeros(self.factors.buffer_size),
            start=np.zeros(padded(model.n_labels)),
            end=np.zeros(padded(model.n_labels)),
        )
        value, n_shards = 0.0, len(self._bounds) - 1
        alone = sums.state if n_shards == 1 else None
        shards = ((s, self._no_counts(s, alone)) for s in range(n_shards))  # memory of threads would stay theirs
        for s, part in enumerate(self.threads.stream(self._part, shards, weights, ends, steps)):
            value += part.value
            odd[part.odd] = 1
            if alone is None:
                self._add(sums, part.counts, s)
            for total, own in zip(sums[3:], part.counts[3:]):  # steps, start, end
                total += own
        return value, sums

    def _add_expected(self, theta: np.ndarray, sums: Gradient, gradient: np.ndarray) -> None:
        """Add expected counts to the gradient, each weight's to its place."""
        model, layout = self.model, self.model.layout
        layout.state(gradient)[:] += self.packing.state(sums.state)
        layout.transition(gradient)[:] += self.factors.expected_counts(theta, sums.steps)
        layout.start(gradient)[:] += sums.start[model.start_label]
        layout.end(gradient)[:] += sums.end[model.end_label]

    def _no_counts(self, s: int, into: np.ndarray | None) -> Gradient:
        """Return zeros for the expected counts of shard ``s``; the only shard counts ``into`` the sums."""
        packing, width = self.packing, padded(self.model.n_labels)
        first, last = int(packing.own_from[s]), int(packing.own_from[s + 1])
        return Gradient(
            state=np.zeros(packing.n_shared + last - first) if into is None else into,
            n_shared=np.uint64(packing.n_shared),
            gap=np.uint64(first - packing.n_shared),
            steps=np.zeros(self.factors.buffer_size),
            start=np.zeros(width),
            end=np.zeros(width),
        )

    def _part(
        self, shard: tuple[int, Gradient], weights: np.ndarray, ends: Ends, steps: DenseSteps | SparseSteps
    ) -> "_Part":
        """Work through a shard, given by its number and zeros for its counts: reads what is shared, adds to its own."""
        s, counts = shard
        odd = np.zeros(len(self.weight), np.uint8)
        value = train_shard(
            self._bounds[s],
            self._bounds[s + 1],
            np.uint64(self.model.n_labels),
            self.offsets,
            self.weight,
            self.partial,
            self.allowed,
            self.packing.packed,
            weights,
            ends,
            steps,
            counts,
            odd,
        )
        return _Part(value, counts, np.flatnonzero(odd))

    def _add(self, sums: Gradient, counts: Gradient, s: int) -> None:
        """Add the state counts of shard ``s``, which come in the order of shards; ``sums.state`` has all places."""
        n_shared, own_from = self.packing.n_shared, self.packing.own_from
        sums.state[:n_shared] += counts.state[:n_shared]
        sums.state[int(own_from[s]) : int(own_from[s + 1])] = counts.state[n_shared:]

    def _ends(self, theta: np.ndarray) -> Ends:
        model, layout = self.model, self.model.layout
        start, end, may_start, may_end = (np.zeros(padded(model.n_labels)) for _ in range(4))
        start[model.start_label] = layout.start(theta)
        end[model.end_label] = layout.end(theta)
        may_start[: model.n_labels], may_end[: model.n_labels] = model.allowed_start, model.allowed_end
        return Ends(start, end, may_start, may_end)

    # --- log space --------------------------------------------------------------------------------

    def _in_log_space(self, theta: np.ndarray, members: np.ndarray, gradient: np.ndarray) -> float:
        pairwise = self.model.pairwise(theta)
        value = 0.0
        for i in members:
            if self.offsets[i + 1] > self.offsets[i] and self.weight[i] > 0:
                value += self.weight[i] * self._one_in_log_space(theta, int(i), pairwise, gradient)
        return float(value)

    def _one_in_log_space(self, theta: np.ndarray, i: int, pairwise: np.ndarray, gradient: np.ndarray) -> float:
        own = self.sequence(i)
        potentials = self.model.potentials(theta, own, 0, pairwise)
        free = forward_backward(potentials, edges=True)
        self.model.pullback(own, 0, free.node, free.edge, gradient, self.weight[i])
        if not self.partial[i]:
            return free.log_partition
        first, last = self._span(i)
        known = forward_backward(clamp(potentials, self.allowed[first:last]), edges=True)
        if known.log_partition == -np.inf:
            raise LabelError(
                f"the labels of sequence {i} allow no labeling that the label scheme permits; correct them or "
                "choose another scheme."
            )
        self.model.pullback(own, 0, known.node, known.edge, gradient, -self.weight[i])
        return free.log_partition - known.log_partition

    # --- what was observed ------------------------------------------------------------------------

    def _observed_counts(self, sequences: Sequences) -> np.ndarray:
        """Weighted counts of the features of all fully labeled sequences: a constant part of the gradient."""
        model = self.model
        counts = model.zeros()
        if self.labels is None:
            return counts
        known = np.repeat(self.partial == 0, sequences.lengths)
        scale = np.repeat(self.weight, sequences.lengths)
        scale[~known] = 0.0
        y = np.where(known, self.labels.ids, 0)
        model.add_all_features(counts, sequences, y, scale)
        return counts

    def _given_scores(self, sequences: Sequences) -> np.ndarray:
        """Weighted scores from elsewhere of the labels of each fully labeled sequence: a constant part of the value."""
        n = len(sequences)
        if self.labels is None or sequences.scores is None:
            return np.zeros(n)
        counted = (self.partial == 0) & (self.weight > 0)
        tokens = np.flatnonzero(np.repeat(counted, sequences.lengths))
        scores = sequences.scores[tokens, self.labels.ids[tokens]]
        return self.weight * np.bincount(np.repeat(np.arange(n), sequences.lengths)[tokens], scores, n)


def _check(model: ChainModel, sequences: Sequences, labels: Labels) -> None:
    if not np.array_equal(labels.lengths, sequences.lengths):
        raise InputError("sequences and labels must have the same lengths.")
    if labels.n_labels != model.n_labels:
        raise InputError(f"the labels count {labels.n_labels} kinds, but the model was built for {model.n_labels}.")
    if not labels.is_partial:
        check_allowed(model, sequences, labels)


def _partial_sequences(model: ChainModel, labels: Labels) -> np.ndarray:
    """1 for every sequence whose labels need a clamped sum, uint8 (n_sequences,).

    Those are the ones with a label that is not exactly known; and all of them where some are and the scheme forbids
    anything, because the clamped sum also finds labelings that the scheme forbids.
    """
    permits_all = model.allowed.all() and model.allowed_start.all() and model.allowed_end.all()
    if labels.is_partial and not permits_all:
        return np.ones(len(labels), np.uint8)
    unknown = np.concatenate([[0], np.cumsum(labels.ids < 0)])
    return (np.diff(unknown[labels.offsets]) > 0).astype(np.uint8)


def check_allowed(model: ChainModel, sequences: Sequences, labels: Labels) -> None:
    """Raise unless the model's scheme permits all labels, every one of which is known."""
    first, last = sequences.offsets[:-1][sequences.lengths > 0], sequences.offsets[1:][sequences.lengths > 0] - 1
    inner = np.ones(len(labels.ids), bool)
    inner[first] = False
    arrive = np.flatnonzero(inner)
    ids = labels.ids
    for permitted, place in (
        (model.allowed_start[ids[first]], first),
        (model.allowed_end[ids[last]], last),
        (model.allowed[ids[arrive - 1], ids[arrive]], arrive),
    ):
        if not permitted.all():
            token = int(place[np.flatnonzero(~permitted)[0]])
            sequence = int(np.searchsorted(sequences.offsets, token, side="right")) - 1
            raise LabelError(
                f"the labels of sequence {sequence} break the label scheme at token "
                f"{token - int(sequences.offsets[sequence])}; correct them or choose another scheme."
            )


def as_rates(sample_weight: np.ndarray | None, n: int) -> np.ndarray:
    """Return one weight for each sequence, 1 by default; raise on negative or missing ones."""
    if sample_weight is None:
        return np.ones(n)
    rates = np.ascontiguousarray(sample_weight, np.float64)
    if rates.shape != (n,) or not np.isfinite(rates).all() or (rates < 0).any():
        raise InputError(f"sample_weight must be {n} finite numbers >= 0, one for each sequence.")
    return rates


# --- the search for its least value --------------------------------------------------------------------

# Fewer label scores than this are fitted before stochastic steps would pay for their compilation.
LEAST_SCORES = 1_000_000
MOST_EPOCHS = 16
# An epoch costs about half an iteration of L-BFGS; once it gains less than this share, L-BFGS gains more.
LEAST_GAIN = 0.006


def fit_likelihood(
    likelihood: "ChainLikelihood | CorpusLikelihood",
    theta: np.ndarray | None = None,
    *,
    l1: float = 0.0,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
    n_jobs: int | None = 1,
    seed: int = 0,
    gtol: float = 1e-6,
    memory: int = 10,
) -> FitResult:
    """Minimize ``likelihood`` (with its L2 penalty) plus l1 x the sum of absolute weights.

    Without a ``theta`` to begin from, larger data are first walked through a few times one sequence at a time,
    which reaches within a few per cent of the optimum (on CoNLL-2000, fourteen epochs save 76 of the 123 evaluations
    that reach 0.1 %). The end is always that of L-BFGS or OWL-QN with their stopping
    rules, so the optimum does not depend on it. Log and callback see the iterations of L-BFGS or OWL-QN.
    ``seed`` is that of the order of sequences; other parameters are those of :func:`rulefield.learning.lbfgs.minimize_owlqn`.
    """
    if theta is None:
        theta = likelihood.model.zeros()
        if l1 == 0.0 and pays(likelihood):
            walk = likelihood.walk(seed)
            try:
                with deferred():
                    come_near(walk)
            except KeyboardInterrupt:
                message = "Interrupted during the first, stochastic steps; the weights so far are kept."
                return FitResult(walk.theta, likelihood.value(walk.theta), Ending.interrupted, message, ())
            except ClusterError as lost:
                if walk.objective == np.inf:
                    raise
                return FitResult(walk.theta, walk.objective, Ending.lost, f"{lost} The weights so far are kept.", ())
            theta = walk.theta
            del walk  # what it holds is as large as the data's part of a step
        give_back()
    return minimize_owlqn(likelihood, theta, l1, max_iter, tol, callback, gtol=gtol, memory=memory, n_jobs=n_jobs)


def pays(likelihood: "ChainLikelihood | CorpusLikelihood") -> bool:
    """Whether stochastic steps are worth their while on this data.

    Not where few of many transitions have weights: L-BFGS uses that, a stochastic step cannot.
    """
    model = likelihood.model
    large = likelihood.n_tokens * model.n_labels >= LEAST_SCORES
    return likelihood.labeled and large and not likelihood.factors.sparse


def come_near(walk: "StochasticLikelihood | CorpusWalk") -> None:
    """Take epochs as long as each gains more than an iteration of L-BFGS would."""
    before = np.inf
    for _ in range(MOST_EPOCHS):
        value = walk.epoch()
        if not value < (1.0 - LEAST_GAIN) * before:
            return
        before = value
        check()
