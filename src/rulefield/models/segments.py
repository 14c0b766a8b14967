"""The semi-Markov chain: weights (theta) to scores of segments, and expected parts back to weights."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Annotated

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.exceptions import InputError
from rulefield.forms import Form, flags, index
from rulefield.models.pairs import CsrRows, PairTable, csr_rows
from rulefield.problem.segments import SegmentParts, SegmentPotentials, Spans


@dataclass(frozen=True)
class Segmentation:
    """Segments of many sequences, token by token.

    Parameters
    ----------
    opens : ndarray of uint8, shape (n_tokens,)
        1 where a segment begins (so at the first token of every sequence).
    labels : ndarray of int64, shape (n_tokens,)
        Label of the segment that holds the token.
    """

    opens: np.ndarray
    labels: np.ndarray

    @cached_property
    def starts(self) -> np.ndarray:
        """First token of every segment, (n_segments,)."""
        return np.flatnonzero(self.opens)

    @cached_property
    def ends(self) -> np.ndarray:
        """Last token of every segment, (n_segments,)."""
        return np.append(self.starts[1:], len(self.opens)) - 1 if len(self.opens) else self.starts

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in every segment, (n_segments,)."""
        return self.ends - self.starts + 1


@dataclass(frozen=True)
class SpanMatches:
    """Spans of tokens that have features of their own, such as whole-segment lexicon matches.

    Parameters
    ----------
    end, length, feature : ndarray of int64, shape (n_matches,)
        Last token (counted over all sequences), number of tokens, number of the span feature; sorted by ``end``.
    """

    end: np.ndarray
    length: np.ndarray
    feature: np.ndarray

    @classmethod
    def none(cls) -> "SpanMatches":
        """No match."""
        return cls(*(np.zeros(0, np.int64) for _ in range(3)))

    def within(self, first: int, last: int) -> "SpanMatches":
        """Return the matches in tokens ``first`` to ``last`` (not included), counted from ``first``."""
        here = slice(*np.searchsorted(self.end, [first, last]))
        return SpanMatches(self.end[here] - first, self.length[here], self.feature[here])


BLOCKS = ("token", "first", "last", "length", "transition", "start", "end", "span")


@dataclass(frozen=True)
class SegmentModel:
    r"""Structure of a semi-Markov CRF: which weights exist and what is forbidden. It holds no weights.

    A segment (b, e, l) of sequence x scores

    .. math:: \sum_{t=b}^{e} x_t \cdot w_l + x_b \cdot v_l + x_e \cdot z_l + h_{l, e-b+1}
              + \sum_{k \in m(b,e)} s_{k,l}

    where m(b, e) are the span features that match it whole; neighbors score :math:`a_{l,l'}`, and the first and last
    segment of a sequence have weights too. Theta is one flat vector, cut by ``blocks``.

    Parameters
    ----------
    n_labels, n_features, n_span_features : int
    token_pairs, first_pairs, last_pairs : PairTable
        (feature, label) pairs with a weight for tokens in a segment, its first token, its last token.
    longest : ndarray of int64, shape (n_labels,)
        Most tokens in a segment of each label; longer ones are impossible. Every possible length has a weight.
    transition_from, transition_to : ndarray of uint32, shape (n_transitions,)
    start_label, end_label : ndarray of uint32
    allowed : ndarray of bool, shape (n_labels, n_labels)
        [left, right]; False forbids neighbors.
    """

    n_labels: int
    n_features: int
    n_span_features: int
    token_pairs: PairTable = field(repr=False)
    first_pairs: PairTable = field(repr=False)
    last_pairs: PairTable = field(repr=False)
    longest: Annotated[np.ndarray, Form(("int64",), ("n_labels",), least=1)]
    transition_from: Annotated[np.ndarray, index("transitions", below="n_labels")] = field(repr=False)
    transition_to: Annotated[np.ndarray, index("transitions", below="n_labels")] = field(repr=False)
    start_label: Annotated[np.ndarray, index("starts", below="n_labels", ascending=True)] = field(repr=False)
    end_label: Annotated[np.ndarray, index("ends", below="n_labels", ascending=True)] = field(repr=False)
    allowed: Annotated[np.ndarray, flags("n_labels", "n_labels")] = field(repr=False)

    def __post_init__(self) -> None:
        tables = self.token_pairs, self.first_pairs, self.last_pairs
        if not all(table.fits(self.n_features, self.n_labels) for table in tables):
            raise InputError("the tables of a model of segments must have its features and labels.")

    @classmethod
    def build(
        cls,
        sequences: Sequences,
        gold: Segmentation,
        n_labels: int,
        *,
        longest: np.ndarray,
        allowed: np.ndarray,
        n_span_features: int = 0,
        boundary_features: bool = True,
        all_states: bool = False,
        all_transitions: bool = False,
        min_count: int = 1,
    ) -> "SegmentModel":
        """Choose the weights that a data set gives reason for.

        ``boundary_features``: whether features of the first and last token of a segment have weights of their own. The other
        choices are those of :meth:`rulefield.models.chain.ChainModel.build`.
        """

        def table(tokens: np.ndarray | slice) -> PairTable:
            if all_states:
                return PairTable.full(sequences.n_features, n_labels)
            rows, chosen = sequences.matrix[tokens], gold.labels[tokens]
            sets = np.arange(len(chosen) + 1, dtype=np.uint64), chosen.astype(np.uint32)
            read = csr_rows(rows, 0, len(chosen))
            return PairTable.seen(read, sequences.n_features, sets, n_labels, min_count)

        none = PairTable.empty(sequences.n_features, n_labels)
        source, target, start, end = _seen_steps(sequences, gold, n_labels, allowed, all_transitions)
        return cls(
            n_labels=n_labels,
            n_features=sequences.n_features,
            n_span_features=n_span_features,
            token_pairs=table(slice(None)),
            first_pairs=table(gold.starts) if boundary_features else none,
            last_pairs=table(gold.ends) if boundary_features else none,
            longest=np.asarray(longest, np.int64),
            transition_from=source,
            transition_to=target,
            start_label=start,
            end_label=end,
            allowed=allowed,
        )

    @cached_property
    def blocks(self) -> dict[str, slice]:
        """Where each kind of weight stands in theta."""
        sizes = (
            self.token_pairs.n_pairs,
            self.first_pairs.n_pairs,
            self.last_pairs.n_pairs,
            int(self.longest.sum()),
            len(self.transition_from),
            len(self.start_label),
            len(self.end_label),
            self.n_span_features * self.n_labels,
        )
        stops = np.cumsum(sizes).tolist()
        return {name: slice(stop - size, stop) for name, size, stop in zip(BLOCKS, sizes, stops)}

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.blocks["span"].stop

    @property
    def max_length(self) -> int:
        """Most tokens in any segment."""
        return int(self.longest.max())

    @cached_property
    def length_place(self) -> tuple[np.ndarray, np.ndarray]:
        """(d - 1, label) of every weight of a length, in the order of theta."""
        d = np.concatenate([np.arange(n) for n in self.longest])
        return d, np.repeat(np.arange(self.n_labels), self.longest)

    def parts(self, theta: np.ndarray, sequences: Sequences, rows: CsrRows, matches: SpanMatches) -> SegmentParts:
        """Scores of all parts of all segmentations; ``rows`` are the feature rows of ``sequences``."""
        m, get = self.n_labels, self.blocks
        heads, tails = ends_of(sequences)
        first = self.first_pairs.scores(rows, theta[get["first"]])
        last = self.last_pairs.scores(rows, theta[get["last"]])
        first[heads] += scattered(m, self.start_label, theta[get["start"]])
        last[tails] += scattered(m, self.end_label, theta[get["end"]])
        length = np.full((self.max_length, m), -np.inf)
        length[self.length_place] = theta[get["length"]]
        pairwise = np.where(self.allowed, 0.0, -np.inf)
        pairwise[self.transition_from, self.transition_to] += theta[get["transition"]]
        return SegmentParts(
            token=self.token_pairs.scores(rows, theta[get["token"]]),
            first=first,
            last=last,
            length=length,
            pairwise=pairwise,
            span=np.ascontiguousarray(theta[get["span"]].reshape(-1, m)[matches.feature]),
            span_ptr=np.searchsorted(matches.end, np.arange(sequences.n_tokens + 1)).astype(np.int64),
            span_length=matches.length,
        )

    def pullback(self, counts: SegmentParts, sequences: Sequences, rows: CsrRows, matches: SpanMatches) -> np.ndarray:
        """Turn derivatives with respect to ``parts`` into the derivative with respect to theta."""
        gradient, get = np.zeros(self.size), self.blocks
        heads, tails = ends_of(sequences)
        self.token_pairs.add_gradient(rows, counts.token, gradient[get["token"]])
        self.first_pairs.add_gradient(rows, counts.first, gradient[get["first"]])
        self.last_pairs.add_gradient(rows, counts.last, gradient[get["last"]])
        gradient[get["length"]] = counts.length[self.length_place]
        gradient[get["transition"]] = counts.pairwise[self.transition_from, self.transition_to]
        gradient[get["start"]] = counts.first[heads].sum(axis=0)[self.start_label]
        gradient[get["end"]] = counts.last[tails].sum(axis=0)[self.end_label]
        of_span = gradient[get["span"]].reshape(-1, self.n_labels)
        np.add.at(of_span, matches.feature, counts.span)
        return gradient

    def features(
        self, gold: Segmentation, sequences: Sequences, matches: SpanMatches, weight: np.ndarray
    ) -> np.ndarray:
        """Theta-shaped features of given segmentations; those of a sequence count ``weight`` (n_sequences,) times."""
        rows = csr_rows(sequences.entries, 0, sequences.n_tokens)
        counts = self.parts(np.zeros(self.size), sequences, rows, matches).zeros()
        times = np.repeat(weight, sequences.lengths)
        labels, starts, ends = gold.labels, gold.starts, gold.ends
        inner = np.setdiff1d(starts, ends_of(sequences)[0])
        counts.token[np.arange(len(labels)), labels] = times
        counts.first[starts, labels[starts]] = times[starts]
        counts.last[ends, labels[ends]] = times[ends]
        np.add.at(counts.length, (gold.lengths - 1, labels[starts]), times[starts])
        np.add.at(counts.pairwise, (labels[inner - 1], labels[inner]), times[inner])
        ending = np.zeros(len(labels), np.int64)
        ending[ends] = gold.lengths
        held = np.flatnonzero(ending[matches.end] == matches.length)
        counts.span[held, labels[matches.end[held]]] = times[matches.end[held]]
        return self.pullback(counts, sequences, rows, matches)

    def potentials(
        self, theta: np.ndarray, sequences: Sequences, matches: SpanMatches | None = None
    ) -> list[SegmentPotentials]:
        """Potentials of each sequence; ``matches`` are those of all of them."""
        matches = matches or SpanMatches.none()
        parts = self.parts(theta, sequences, csr_rows(sequences.entries, 0, sequences.n_tokens), matches)
        found = []
        for first, last in pairwise(sequences.offsets.tolist()):
            own = matches.within(first, last)
            spans = Spans(own.end - own.length + 1, own.length, parts.span[slice(*parts.span_ptr[[first, last]])])
            token, begin, end = (array[first:last] for array in parts[:3])
            found.append(SegmentPotentials(token, begin, end, parts.length, parts.pairwise, spans))
        return found

    def check_gold(self, gold: Segmentation) -> None:
        """Raise if a training segment is longer than the model can say."""
        over = gold.lengths > self.longest[gold.labels[gold.starts]]
        if over.any():
            k = int(np.flatnonzero(over)[0])
            raise InputError(
                f"a training segment has {gold.lengths[k]} tokens but max_length allows "
                f"{self.longest[gold.labels[gold.starts[k]]]}; raise max_length."
            )


def ends_of(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """First and last tokens of the sequences that have any."""
    filled = sequences.lengths > 0
    return sequences.offsets[:-1][filled], sequences.offsets[1:][filled] - 1


def scattered(size: int, place: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return zeros with ``values`` at ``place``."""
    out = np.zeros(size)
    out[place] = values
    return out


def _seen_steps(
    sequences: Sequences, gold: Segmentation, m: int, allowed: np.ndarray, everything: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Transitions (from, to), start labels and end labels that occur, or all that may."""
    heads, tails = ends_of(sequences)
    seen, start, end = np.zeros((m, m), bool), np.zeros(m, bool), np.zeros(m, bool)
    if everything:
        seen, start, end = allowed.copy(), ~start, ~end
    else:
        start[gold.labels[heads]] = True
        end[gold.labels[tails]] = True
        inner = gold.starts[~np.isin(gold.starts, heads)]
        seen[gold.labels[inner - 1], gold.labels[inner]] = True
    source, target = np.nonzero(seen)
    places = (source, target, np.flatnonzero(start), np.flatnonzero(end))
    return tuple(place.astype(np.uint32) for place in places)  # type: ignore[return-value]
