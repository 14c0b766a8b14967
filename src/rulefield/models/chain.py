"""The linear chain: weights (theta) to potentials, and features of a labeling back to weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.exceptions import InputError
from rulefield.forms import flags, index
from rulefield.models.pairs import CsrRows, PairTable, Structure, csr_rows, structure_of
from rulefield.problem.chain import ChainPotentials


@dataclass(frozen=True)
class ThetaLayout:
    """Where each kind of weight stands in the one flat vector theta: state, transition, start, end."""

    n_state: int
    n_transition: int
    n_start: int
    n_end: int

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Boundaries of the four blocks, (5,)."""
        return (0, *np.cumsum((self.n_state, self.n_transition, self.n_start, self.n_end)).tolist())

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.bounds[-1]

    def _block(self, theta: np.ndarray, k: int) -> np.ndarray:
        return theta[self.bounds[k] : self.bounds[k + 1]]

    def state(self, theta: np.ndarray) -> np.ndarray:
        """View of the weights of (feature, label) pairs, in the order of ``ChainModel.pairs``."""
        return self._block(theta, 0)

    def transition(self, theta: np.ndarray) -> np.ndarray:
        """View of the weights of transitions ``transition_from[k] -> transition_to[k]``."""
        return self._block(theta, 1)

    def start(self, theta: np.ndarray) -> np.ndarray:
        """View of the weights of beginning with ``start_label[k]``."""
        return self._block(theta, 2)

    def end(self, theta: np.ndarray) -> np.ndarray:
        """View of the weights of ending with ``end_label[k]``."""
        return self._block(theta, 3)


@dataclass(frozen=True)
class ChainModel:
    r"""Structure of a linear-chain CRF: which weights exist and what is forbidden. It holds no weights.

    A labeling y of a sequence x scores

    .. math:: s_{y_1} + e_{y_n} + \sum_t \sum_f x_{tf} w_{f,y_t} + \sum_{t>1} a_{y_{t-1},y_t}

    and :math:`-\infty` where the scheme forbids. Weights that do not exist count as 0. All weights are one
    flat float64 vector theta, cut by ``layout``.

    Parameters
    ----------
    n_labels, n_features : int
    pairs : PairTable
        (feature, label) pairs that have a state weight.
    transition_from, transition_to : ndarray of uint32, shape (n_transitions,)
        Transitions that have a weight, sorted by (from, to).
    start_label, end_label : ndarray of uint32
        Labels that have a start (end) weight, ascending.
    allowed : ndarray of bool, shape (n_labels, n_labels)
        [from, to]; False forbids.
    allowed_start, allowed_end : ndarray of bool, shape (n_labels,)
    """

    n_labels: int
    n_features: int
    pairs: PairTable
    transition_from: Annotated[np.ndarray, index("transitions", below="n_labels")]
    transition_to: Annotated[np.ndarray, index("transitions", below="n_labels")]
    start_label: Annotated[np.ndarray, index("starts", below="n_labels", ascending=True)]
    end_label: Annotated[np.ndarray, index("ends", below="n_labels", ascending=True)]
    allowed: Annotated[np.ndarray, flags("n_labels", "n_labels")]
    allowed_start: Annotated[np.ndarray, flags("n_labels")]
    allowed_end: Annotated[np.ndarray, flags("n_labels")]

    def __post_init__(self) -> None:
        if not self.pairs.fits(self.n_features, self.n_labels):
            raise InputError("the tables of a chain model must have its features and labels.")

    @classmethod
    def build(
        cls,
        sequences: Sequences,
        labels: Labels,
        *,
        allowed: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
        all_states: bool = False,
        all_transitions: bool = False,
        start_end: bool = True,
        min_count: int = 1,
    ) -> "ChainModel":
        """Choose the weights that a data set gives reason for.

        ``allowed`` are masks of the transitions, starts and ends that the label scheme permits (all by default). Pairs seen
        in fewer than ``min_count`` tokens get no weight. With ``all_states`` every (feature, label) pair has one, with
        ``all_transitions`` every permitted transition, start and end; without ``start_end`` no start and end has.

        Notes
        -----
        *Partial labels.* A token that allows several labels counts as having seen each of them. A token about
        which nothing is known says nothing about which pairs matter and counts for none, unless the data has no
        known token at all: then it counts for all labels. For transitions, starts and ends, which are few, such a
        token always counts for all labels.
        """
        structure = structure_of(
            sequences,
            labels,
            allowed=allowed,
            all_states=all_states,
            all_transitions=all_transitions,
            min_count=min_count,
        )
        return cls.of_structure(structure, labels.n_labels, sequences.n_features, start_end)

    @classmethod
    def of_structure(cls, s: Structure, n_labels: int, n_features: int, start_end: bool) -> "ChainModel":
        """Return the model with the weights of a structure."""
        none = np.zeros(0, np.uint32)
        source, target = np.nonzero(s.transitions)
        return cls(
            n_labels=n_labels,
            n_features=n_features,
            pairs=s.pairs,
            transition_from=source.astype(np.uint32),
            transition_to=target.astype(np.uint32),
            start_label=np.flatnonzero(s.start).astype(np.uint32) if start_end else none,
            end_label=np.flatnonzero(s.end).astype(np.uint32) if start_end else none,
            allowed=s.allowed[0],
            allowed_start=s.allowed[1],
            allowed_end=s.allowed[2],
        )

    @cached_property
    def layout(self) -> ThetaLayout:
        """Blocks of theta."""
        return ThetaLayout(self.pairs.n_pairs, len(self.transition_from), len(self.start_label), len(self.end_label))

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.layout.size

    def zeros(self) -> np.ndarray:
        """Theta of zeros, (size,)."""
        return np.zeros(self.size)

    def check_theta(self, theta: np.ndarray) -> np.ndarray:
        """Return ``theta`` as contiguous float64; raise where its length or a value cannot be used."""
        theta = np.ascontiguousarray(theta, dtype=np.float64)
        if theta.shape != (self.size,):
            raise InputError(f"theta must have shape ({self.size},) for this model; got {theta.shape}.")
        if not np.isfinite(theta).all():
            raise InputError("theta must be finite; it holds NaN or infinite weights.")
        return theta

    def rows(self, sequences: Sequences, i: int | None = None) -> CsrRows:
        """Feature rows of sequence ``i`` (all tokens by default), as :class:`PairTable` reads them."""
        self.pairs.check(sequences.n_features)
        first, last = (0, sequences.n_tokens) if i is None else span(sequences, i)
        return csr_rows(sequences.entries, first, last)

    def start_scores(self, theta: np.ndarray) -> np.ndarray:
        """Score of beginning with each label, (n_labels,), ``-inf`` where forbidden."""
        return self._edge_scores(self.allowed_start, self.start_label, self.layout.start(theta))

    def end_scores(self, theta: np.ndarray) -> np.ndarray:
        """Score of ending with each label, (n_labels,), ``-inf`` where forbidden."""
        return self._edge_scores(self.allowed_end, self.end_label, self.layout.end(theta))

    @staticmethod
    def _edge_scores(permitted: np.ndarray, label: np.ndarray, weight: np.ndarray) -> np.ndarray:
        scores = np.where(permitted, 0.0, -np.inf)
        scores[label] += weight
        return scores

    def state_scores(self, theta: np.ndarray, rows: CsrRows) -> np.ndarray:
        """Scores of labels from features alone, (n_rows, n_labels)."""
        return self.pairs.scores(rows, self.layout.state(theta))

    def unary(
        self, theta: np.ndarray, sequences: Sequences, edges: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """Scores of every label at every token, starts and ends included, (n_tokens, n_labels).

        Give ``edges``, the scores of starts and ends, if they are known.
        """
        scores = self.state_scores(theta, self.rows(sequences))
        if sequences.scores is not None:
            scores += sequences.scores
        offsets, filled = sequences.offsets, sequences.lengths > 0
        start, end = edges or (self.start_scores(theta), self.end_scores(theta))
        scores[offsets[:-1][filled]] += start
        scores[offsets[1:][filled] - 1] += end
        return scores

    def pairwise(self, theta: np.ndarray) -> np.ndarray:
        """Scores of transitions [from, to], (n_labels, n_labels), ``-inf`` forbids."""
        scores = np.where(self.allowed, 0.0, -np.inf)
        scores[self.transition_from, self.transition_to] += self.layout.transition(theta)
        return scores

    def potentials(
        self, theta: np.ndarray, sequences: Sequences, i: int, pairwise: np.ndarray | None = None
    ) -> ChainPotentials:
        """Potentials of sequence ``i``; give ``pairwise(theta)`` where many sequences share it."""
        unary = self.unary(theta, sequences[i])
        return ChainPotentials(unary, self.pairwise(theta) if pairwise is None else pairwise)

    def pullback(
        self,
        sequences: Sequences,
        i: int,
        node: np.ndarray,
        edge: np.ndarray | None,
        gradient: np.ndarray,
        scale: float = 1.0,
    ) -> None:
        """Add ``scale`` x the expected features of sequence ``i`` to ``gradient`` (size,), in place.

        ``node`` (n, n_labels) and ``edge`` (n - 1, n_labels, n_labels) are derivatives of a value by the potentials:
        marginals, say.
        """
        layout = self.layout
        self.pairs.add_gradient(self.rows(sequences, i), scale * node, layout.state(gradient))
        layout.start(gradient)[:] += scale * node[0, self.start_label]
        layout.end(gradient)[:] += scale * node[-1, self.end_label]
        if edge is not None and len(edge):
            layout.transition(gradient)[:] += scale * edge.sum(axis=0)[self.transition_from, self.transition_to]

    def add_features(
        self, theta: np.ndarray, sequences: Sequences, i: int, labeling: np.ndarray, scale: float = 1.0
    ) -> None:
        """Add ``scale`` x the features of sequence ``i`` under ``labeling`` (n,) to ``theta``, in place.

        Costs O(entries of the sequence), whatever the length of theta. ``theta @ features == score`` for permitted labelings.
        """
        self.add_all_features(theta, sequences[i], labeling, np.full(len(labeling), scale))

    def joint_features(self, sequences: Sequences, labelings: np.ndarray) -> np.ndarray:
        """Sum over all sequences of the features under ``labelings`` (n_tokens,): theta-shaped counts."""
        counts = self.zeros()
        self.add_all_features(counts, sequences, labelings, np.ones(sequences.n_tokens))
        return counts

    def add_all_features(
        self, theta: np.ndarray, sequences: Sequences, labelings: np.ndarray, scale: np.ndarray
    ) -> None:
        """Add the features of all sequences under ``labelings`` (n_tokens,) to ``theta``, in place.

        Those of token t count ``scale[t]`` times; a transition counts with the token that it arrives at.
        """
        y, scale = np.asarray(labelings), np.asarray(scale, np.float64)
        layout, rows = self.layout, self.rows(sequences)
        filled = sequences.lengths > 0
        first, last = sequences.offsets[:-1][filled], sequences.offsets[1:][filled] - 1
        arrive = np.delete(np.arange(len(y)), first)
        self.pairs.add_counts(rows, y, scale, layout.state(theta))
        _add_known(layout.transition(theta), self._transition_position[y[arrive - 1], y[arrive]], scale[arrive])
        _add_known(layout.start(theta), self._start_position[y[first]], scale[first])
        _add_known(layout.end(theta), self._end_position[y[last]], scale[last])

    @cached_property
    def _transition_position(self) -> np.ndarray:
        position = np.full((self.n_labels, self.n_labels), -1, np.int64)
        position[self.transition_from, self.transition_to] = np.arange(len(self.transition_from))
        return position

    @cached_property
    def _start_position(self) -> np.ndarray:
        return _positions(self.start_label, self.n_labels)

    @cached_property
    def _end_position(self) -> np.ndarray:
        return _positions(self.end_label, self.n_labels)


def span(sequences: Sequences, i: int) -> tuple[int, int]:
    """First token of sequence ``i`` and the one after its last."""
    return int(sequences.offsets[i]), int(sequences.offsets[i + 1])


def _positions(label: np.ndarray, n_labels: int) -> np.ndarray:
    position = np.full(n_labels, -1, np.int64)
    position[label] = np.arange(len(label))
    return position


def _add_known(weights: np.ndarray, position: np.ndarray, scale: np.ndarray) -> None:
    np.add.at(weights, position[position >= 0], scale[position >= 0])
