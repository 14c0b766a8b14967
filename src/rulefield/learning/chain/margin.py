"""What the perceptron and the structured SVM of chains share: checks, and the arrays that their kernels read."""

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.exceptions import InputError, LabelError
from rulefield.kernels.chain.margin import Data, State, Table, Work
from rulefield.learning.chain.packing import given_scores
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import every_value

MOST_LABELS = 2**16 - 1


def check_supervised(model: ChainModel, sequences: Sequences, labels: Labels) -> None:
    """Raise unless every label is known, fits its sequence and is permitted by the model's scheme."""
    if labels.is_partial:
        raise InputError(
            "this learner needs every label; unknown labels and label sets can be learned from with the likelihood "
            "(algorithm='likelihood')."
        )
    if not np.array_equal(labels.lengths, sequences.lengths):
        raise InputError("sequences and labels must have the same lengths.")
    if model.n_labels > MOST_LABELS:
        raise InputError(f"this learner takes at most {MOST_LABELS} labels; got {model.n_labels}.")
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


class DecodingLearner:
    """Data and state of a learner that decodes one sequence after the other.

    Parameters
    ----------
    model : ChainModel
    sequences, labels : training data; every label must be known
    seed : int, or several
        Of the order in which sequences are visited, new in every epoch.
    start : ndarray of float64, shape (model.size,), optional
        Where theta begins; zeros by default.

    Attributes
    ----------
    arrays : (Data, Table, State, Work)
        What the kernels read and change.
    gold : ndarray of uint16, shape (1, n_tokens)
    seen : int
        Sequences visited, those of the present epoch included.
    """

    def __init__(
        self,
        model: ChainModel,
        sequences: Sequences,
        labels: Labels,
        *,
        seed: int | tuple[int, ...] = 0,
        start: np.ndarray | None = None,
    ):
        check_supervised(model, sequences, labels)
        theta = model.zeros() if start is None else model.check_theta(start).copy()
        data = kernel_data(model, sequences, labels)
        self.state = kernel_state(model, theta, data, planes=1)
        self.arrays = (data, kernel_table(model), self.state, kernel_work(model, sequences))
        self.gold = data.gold[None]
        self.seen = 0
        self._rng = np.random.default_rng(seed)

    def next_order(self) -> np.ndarray:
        """Order of the sequences in the epoch that begins, which count as seen from now on."""
        n = len(self.arrays[0].offsets) - 1
        self.seen += n
        return self._rng.permutation(n)


def kernel_data(model: ChainModel, sequences: Sequences, labels: Labels) -> Data:
    """Return the training data as the kernels read them."""
    indptr, indices, _ = rows = model.rows(sequences)
    given = given_scores(sequences.scores, model.n_labels)
    return Data(indptr, indices, every_value(rows), sequences.offsets, labels.ids.astype(np.uint16), given)


def kernel_table(model: ChainModel) -> Table:
    """Return the positions of the model's weights as the kernels read them."""
    m, bounds = model.n_labels, model.layout.bounds
    transition = np.full((m, m), -1, np.int64)
    transition[model.transition_from, model.transition_to] = np.arange(bounds[1], bounds[2])
    start, end = np.full(m, -1, np.int64), np.full(m, -1, np.int64)
    start[model.start_label] = np.arange(bounds[2], bounds[3])
    end[model.end_label] = np.arange(bounds[3], bounds[4])
    outside = np.full(model.size - bounds[1], m, np.uint32)
    source, target = outside, outside.copy()
    after = [b - bounds[1] for b in bounds]
    source[: after[2]], target[: after[2]] = model.transition_from, model.transition_to
    target[after[2] : after[3]] = model.start_label
    source[after[3] : after[4]] = model.end_label
    pairs, steps = model.pairs, model.step_pairs
    return Table(pairs.ptr, pairs.label, steps.ptr, steps.label, bounds[4], transition, start, end, source, target)


def kernel_state(model: ChainModel, theta: np.ndarray, data: Data, planes: int) -> State:
    """Return the mutable arrays of one run from a start ``theta``; ``planes`` bounds the labelings in one step."""
    most = _most_touched(data, planes, model.n_labels, model.conditioned)
    return State(
        theta=theta,
        memory=np.zeros(model.size),
        steps=np.ascontiguousarray(model.pairwise(theta)[None]),
        begin=model.start_scores(theta),
        finish=model.end_scores(theta),
        delta=np.zeros(model.size),
        touched=np.empty(most, np.int64),
        moved=np.empty(most),
    )


def kernel_work(model: ChainModel, sequences: Sequences) -> Work:
    """Return scratch space for the longest sequence."""
    longest, m = int(sequences.lengths.max(initial=0)), model.n_labels
    stack = np.empty((max(longest - 1, 0) if model.conditioned else 0, m, m))
    return Work(
        unary=np.empty((longest, m)),
        alpha=np.empty((longest, m)),
        path=np.zeros(longest, np.uint16),
        stack=stack,
        flat_stack=stack.reshape(len(stack), m * m),
        share=np.empty(m),
    )


def _most_touched(data: Data, planes: int, n_labels: int, conditioned: bool) -> int:
    """Return how many entries one step can list: those of the sequence with most features, times labelings."""
    lengths = np.diff(data.offsets)
    entries = np.diff(data.indptr[data.offsets].astype(np.int64))
    labelings = planes + 1
    of_states = entries * min(labelings, n_labels)
    of_steps = (entries if conditioned else 0) + lengths + 2
    return int((of_states + of_steps * labelings).max(initial=0))
