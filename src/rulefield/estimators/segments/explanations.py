"""Why a semi-Markov model cut and labeled a sequence as it did: weights of the model, and what decided each segment."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.schemes import OUTSIDE
from rulefield.estimators.explanations import (
    Contribution,
    ModelExplanation,
    TokenExplanation,
    differences,
    explain_weights,
    feature_differences,
    largest_features,
    most,
    runner_up,
)
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.segments.coding import SegmentCoder, SegmentData
from rulefield.models.pairs import csr_rows
from rulefield.models.segments import SegmentModel

Scores = dict[str, float]


class HeldSegment(NamedTuple):
    """Tokens ``first`` to ``last`` (included) as one segment, and the types beside it (-1 at an end of the sequence)."""

    first: int
    last: int
    type: int
    before: int
    after: int


def explain_segments(
    model: SegmentModel, theta: np.ndarray, types: list[str], names: Sequence[str], top: int
) -> ModelExplanation:
    """Return the ``top`` largest weights, by absolute value, of tokens in each type and of the transitions."""
    get = model.blocks
    features = largest_features(model.token_pairs, theta[get["token"]], types, names, top)
    return explain_weights(
        model, types, features, (theta[get["transition"]], theta[get["start"]], theta[get["end"]]), top
    )


class SegmentExplainer:
    """Explains segmentations of one semi-Markov model.

    A segment is held against the type that is second most probable on its tokens, the segments beside it as they are;
    tokens outside segments (``O``) stand alone, so that against ``O`` it falls apart. The differences of its tokens add up
    to the difference of the two segmentations' scores.
    """

    def __init__(
        self,
        model: SegmentModel,
        theta: np.ndarray,
        coder: SegmentCoder,
        names: Sequence[str],
        lexicons: list[str],
        top: int,
    ):
        self.model, self.theta, self.coder, self.top = model, theta, coder, top
        self.names, self.lexicons = names, lexicons

    def explain(
        self,
        tokens: list[str],
        data: SegmentData,
        ids: np.ndarray,
        labeling: Labeling,
        marginals: np.ndarray,
    ) -> list[TokenExplanation]:
        """Explain token labels ``ids`` (n,) of the only sequence of ``data``, given ``marginals`` (n, n_types)."""
        self._read(data)
        pieces = self._pieces(ids, marginals)
        totals, features = self._features(pieces)
        found = []
        for t, (own, instead) in enumerate(pieces):
            whole = differences(self._whole(t, own), self._whole(t, instead))
            moves = differences(self._moves(t, own), self._moves(t, instead))
            margin = float(totals[t]) + sum(value for _, value in (*whole, *moves))
            chance, other = float(marginals[t, own.type]), float(marginals[t, instead.type])
            label, runner = labeling.labels[t], self.coder.types[instead.type]
            parts = most(features[t] + whole, self.top), most(moves, self.top)
            found.append(TokenExplanation(tokens[t], label, chance, runner, other, margin, *parts))
        return found

    def _pieces(self, ids: np.ndarray, marginals: np.ndarray) -> list[tuple[HeldSegment, HeldSegment]]:
        """Return the segment of each token, and the one that would hold it if the runner-up's type were right."""
        opens, types = self.coder.spelling.read(ids)
        starts = np.flatnonzero(opens)
        beside = np.concatenate([[-1], types[starts], [-1]]).tolist()
        pieces = []
        for k, (first, stop) in enumerate(zip(starts.tolist(), [*starts[1:].tolist(), len(ids)])):
            own = HeldSegment(first, stop - 1, beside[k + 1], beside[k], beside[k + 2])
            other = runner_up(marginals[first:stop].mean(axis=0), own.type)
            pieces += [(own, self._instead(t, own, other)) for t in range(first, stop)]
        return pieces

    def _features(self, pieces: list[tuple[HeldSegment, HeldSegment]]) -> tuple[np.ndarray, list[list[Contribution]]]:
        """Return what the features of each token bring to its segment above the other: sums, and the largest parts."""
        model = self.model
        totals: np.ndarray = np.zeros(len(pieces))
        parts: list[list[Contribution]] = [[] for _ in pieces]
        for block, table in (("token", model.token_pairs), ("first", model.first_pairs), ("last", model.last_pairs)):
            counts = [
                [piece.type if block == "token" or getattr(piece, block) == t else model.n_labels for piece in pair]
                for t, pair in enumerate(pieces)
            ]
            own, other = np.array(counts, np.int64).reshape(-1, 2).T  # n_labels: no weight
            weights = self.theta[model.blocks[block]]
            sums, found = feature_differences(table, weights, self.rows, own, other, self.names, self.top)
            totals = totals + sums
            before = "" if block == "token" else f"{block} "
            for every, some in zip(parts, found):
                every += [(before + name, value) for name, value in some]
        return totals, parts

    def _read(self, data: SegmentData) -> None:
        sequences = data.sequences
        self.rows, self.matches = csr_rows(sequences.entries, 0, sequences.n_tokens), data.matches
        self.parts = self.model.parts(self.theta, sequences, self.rows, data.matches)
        self.starts, self.ends = (
            dict(zip(label.tolist(), self.theta[self.model.blocks[name]].tolist()))
            for name, label in (("start", self.model.start_label), ("end", self.model.end_label))
        )

    def _instead(self, t: int, own: HeldSegment, other: int) -> HeldSegment:
        """Return the segment that would hold token ``t`` if this segment were of another type."""
        if self.coder.scheme == "none" or self.coder.types[other] != OUTSIDE:
            return own._replace(type=other)
        before = own.before if t == own.first else other
        return HeldSegment(
            t, t, other, before, own.after if t == own.last else -2
        )  # the next one counts the step between

    def _moves(self, t: int, piece: HeldSegment) -> Scores:
        """Return what token ``t`` brings to the score of its segment by neighbors and length."""
        y, moves = piece.type, {}
        if t == piece.first:
            if piece.before < 0:
                moves["(start)"] = self.starts.get(y, 0.0)
            else:
                moves[f"{self.coder.types[piece.before]} ->"] = float(self.parts.pairwise[piece.before, y])
        if t == piece.last:
            length = piece.last - piece.first + 1
            moves[f"(length {length})"] = float(self.parts.length[length - 1, y])
            if piece.after == -1:
                moves["(end)"] = self.ends.get(y, 0.0)
            elif piece.after >= 0:
                moves[f"-> {self.coder.types[piece.after]}"] = float(self.parts.pairwise[y, piece.after])
        return moves

    def _whole(self, t: int, piece: HeldSegment) -> Scores:
        """Scores of the lexicons that hold the segment as a whole, at its last token."""
        if t != piece.last:
            return {}
        weights = self.theta[self.model.blocks["span"]].reshape(-1, self.model.n_labels)
        here = (self.matches.end == t) & (self.matches.length == piece.last - piece.first + 1)
        return {f"in {self.lexicons[k]}": float(weights[k, piece.type]) for k in self.matches.feature[here].tolist()}
