"""A semi-Markov chain: a sequence is cut into labeled segments; its potentials, and rules over its token labels."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rulefield.exceptions import InputError
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule


class SegmentParts(NamedTuple):
    """Scores of the parts of segmentations of all sequences or, in the same shapes, how often parts are expected.

    token, first, last (n_tokens, m); length (max_length, m); pairwise (m, m); span (n_spans, m), where the spans that
    end at token e are ``span_ptr[e] : span_ptr[e + 1]`` and have ``span_length`` tokens.
    """

    token: np.ndarray
    first: np.ndarray
    last: np.ndarray
    length: np.ndarray
    pairwise: np.ndarray
    span: np.ndarray
    span_ptr: np.ndarray
    span_length: np.ndarray

    def zeros(self) -> "SegmentParts":
        """Return zeros in the same shapes, for expected counts."""
        names = "token", "first", "last", "length", "pairwise", "span"
        return self._replace(**{name: np.zeros_like(getattr(self, name)) for name in names})


@dataclass(frozen=True)
class Spans:
    """Scores of particular segments, such as whole-segment lexicon matches.

    Parameters
    ----------
    start, length : ndarray of int64, shape (n_spans,)
        Sorted by end (start + length). A segment may stand there several times; its scores add up.
    score : ndarray of float64, shape (n_spans, n_states)
        Added where a segment with that start and length has that label. ``-inf`` forbids.
    """

    start: np.ndarray
    length: np.ndarray
    score: np.ndarray

    @classmethod
    def none(cls, n_states: int) -> "Spans":
        """No span."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, n_states)))


@dataclass(frozen=True)
class SegmentPotentials:
    r"""Log-scores of one sequence cut into segments.

    A segmentation is a list of segments (first token b, last token e, label l) that cover the sequence. It scores

    .. math:: \sum_{(b,e,l)} \Big(\sum_{t=b}^{e} u_t(l) + f_b(l) + g_e(l) + h_{e-b+1}(l) + s_{b,e}(l)\Big)
              + \sum_{\text{neighbors}} p(l, l')

    Parameters
    ----------
    token, first, last : ndarray of float64, shape (n_steps, n_states)
        u, f and g. Scores of beginning and ending the sequence with a label are already added to the first row of
        ``first`` and the last row of ``last``. ``-inf`` forbids.
    length : ndarray of float64, shape (max_length, n_states)
        h: row d - 1 scores segments of d tokens; longer ones are impossible. ``-inf`` forbids.
    pairwise : ndarray of float64, shape (n_states, n_states)
        p, indexed [from, to]. ``-inf`` forbids.
    spans : Spans
        s.
    """

    token: np.ndarray
    first: np.ndarray
    last: np.ndarray
    length: np.ndarray
    pairwise: np.ndarray
    spans: Spans

    def __post_init__(self) -> None:
        n, m = self.token.shape
        for name, array, expected in (
            ("first", self.first, (n, m)),
            ("last", self.last, (n, m)),
            ("length", self.length, (len(self.length), m)),
            ("pairwise", self.pairwise, (m, m)),
            ("spans.score", self.spans.score, (len(self.spans.start), m)),
        ):
            if array.shape != expected:
                raise InputError(
                    f"{name} must have shape {expected} to fit token of shape {(n, m)}; got {array.shape}."
                )

    @property
    def n_steps(self) -> int:
        """Number of tokens."""
        return self.token.shape[0]

    @property
    def n_states(self) -> int:
        """Number of labels."""
        return self.token.shape[1]

    @property
    def max_length(self) -> int:
        """Most tokens in a segment."""
        return self.length.shape[0]

    def score(self, lengths: np.ndarray, labels: np.ndarray) -> float:
        """Score of the segmentation into segments of these lengths and labels, (n_segments,) each."""
        lengths, labels = np.asarray(lengths), np.asarray(labels)
        if len(lengths) and lengths.max() > self.max_length:
            return -np.inf
        starts = np.cumsum(lengths) - lengths
        total = self.token[np.arange(self.n_steps), np.repeat(labels, lengths)].sum()
        total += self.first[starts, labels].sum() + self.last[starts + lengths - 1, labels].sum()
        total += self.length[lengths - 1, labels].sum() + self.pairwise[labels[:-1], labels[1:]].sum()
        if len(self.spans.start):
            at = np.zeros((2, self.n_steps), np.int64)
            at[:, starts] = lengths, labels
            hit = self.spans.length == at[0, self.spans.start]
            total += self.spans.score[hit, at[1, self.spans.start[hit]]].sum()
        return float(total)


MIDDLE, OPENING, CLOSING, SINGLE = range(4)
"""Roles of a token in its segment; a role is (opens) + 2 x (closes)."""


@dataclass(frozen=True)
class Spelling:
    """The token label of every token of a segment: how rules about token labels read a segmentation.

    A segmentation and its spelling determine each other, so that engines may work with either. A type that has one label
    in all roles (``O``) is read as segments of one token: the potentials must forbid longer ones.

    Parameters
    ----------
    label : ndarray of int64, shape (4, n_types, 2, 2)
        Entry [role, type, before, after]; ``before`` (``after``) is 1 where the token opens (closes) its segment and
        the neighboring segment on that side has the same type. Where a token does not open (close) it is 0.
    n_labels : int
    """

    label: np.ndarray
    n_labels: int

    @classmethod
    def of_types(cls, n_types: int) -> "Spelling":
        """Spell without a scheme: type y is label y where a segment begins and label n_types + y where it goes on."""
        label = np.empty((4, n_types, 2, 2), np.int64)
        for role in (MIDDLE, OPENING, CLOSING, SINGLE):
            label[role] = np.arange(n_types)[:, None, None] + (0 if role & OPENING else n_types)
        return cls(label, 2 * n_types)

    @property
    def n_types(self) -> int:
        """Number of types of segments."""
        return self.label.shape[1]

    @cached_property
    def depends_on_neighbors(self) -> bool:
        """Whether some role's label depends on the segments beside it."""
        return bool((self.label != self.label[:, :, :1, :1]).any())

    @cached_property
    def type_of(self) -> np.ndarray:
        """Type that each label belongs to, (n_labels,)."""
        types = np.zeros(self.n_labels, np.int64)
        for y in range(self.n_types):
            types[self.label[:, y]] = y
        return types

    @cached_property
    def goes_on(self) -> np.ndarray:
        """Entry [i, j]: a token labeled j after one labeled i lies in the same segment, (n_labels, n_labels)."""
        together, apart = (np.zeros((self.n_labels, self.n_labels), bool) for _ in range(2))
        for here in (OPENING, MIDDLE):
            for following in (MIDDLE, CLOSING):
                before, after = self.label[here, :, :, 0], self.label[following, :, 0, :]
                together[before[:, :, None], after[:, None, :]] = True
        for here in (CLOSING, SINGLE):
            for following in (OPENING, SINGLE):
                before, after = self.label[here, :, :, 1], self.label[following, :, 1, :]
                apart[before[:, :, None], after[:, None, :]] = True
        return together & ~apart

    def write(self, opens: np.ndarray, types: np.ndarray) -> np.ndarray:
        """Token labels (..., n) of segmentations: where segments open (..., n), and the type at each token (..., n)."""
        opens = np.asarray(opens, bool)
        same, closes = np.zeros((2, *opens.shape), bool)
        closes[..., :-1], closes[..., -1:] = opens[..., 1:], True
        same[..., 1:] = types[..., 1:] == types[..., :-1]
        before, after = opens & same, np.zeros_like(same)
        after[..., :-1] = closes[..., :-1] & same[..., 1:]
        return self.label[opens + 2 * closes, types, before.astype(np.int64), after.astype(np.int64)]

    def read(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Undo :meth:`write`: where segments open (n,), and the type at each token (n,)."""
        opens = np.ones(len(labels), bool)
        opens[1:] = ~self.goes_on[labels[:-1], labels[1:]]
        return opens, self.type_of[labels]


@dataclass(frozen=True)
class SegmentProblem:
    """Potentials and rules of one sequence that is cut into segments: what a segment engine is given.

    Parameters
    ----------
    potentials : SegmentPotentials
    spelling : Spelling
    rules : tuple of CompiledRule
        Compiled over the token labels of ``spelling``.
    allowed : ndarray of bool, shape (n_steps, n_labels), or None
        Token labels that are possible (what is known of them); None for all.
    """

    potentials: SegmentPotentials
    spelling: Spelling
    rules: tuple[CompiledRule, ...] = ()
    allowed: np.ndarray | None = None

    @property
    def chain_of_nothing(self) -> ChainProblem:
        """The same rules on a chain without tokens, for a sequence that has none."""
        m = self.spelling.n_labels
        return ChainProblem(ChainPotentials(np.zeros((0, m)), np.zeros((m, m))), self.rules)

    def score(self, labels: np.ndarray) -> float:
        """Score of the segmentation that token labels (n_steps,) spell; ``-inf`` if it is forbidden."""
        opens, types = self.spelling.read(labels)
        starts = np.flatnonzero(opens)
        lengths = np.diff(np.append(starts, len(labels)))
        if self.allowed is not None and not self.allowed[np.arange(len(labels)), labels].all():
            return -np.inf
        return self.potentials.score(lengths, types[starts])
