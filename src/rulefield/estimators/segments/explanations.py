"""Why a semi-Markov model cut and labeled a sequence as it did: weights of the model, and what decided each segment."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.schemes import OUTSIDE
from rulefield.estimators.explanations import (
    ModelExplanation,
    TokenExplanation,
    differences,
    explain_token,
    explain_weights,
    feature_scores,
    largest_features,
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
        self.heads, self.tails = ([f"{side} {name}" for name in names] for side in ("first", "last"))

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
        opens, types = self.coder.spelling.read(ids)
        starts = np.flatnonzero(opens)
        beside = np.concatenate([[-1], types[starts], [-1]]).tolist()
        parts = []
        for k, (first, stop) in enumerate(zip(starts.tolist(), [*starts[1:].tolist(), len(ids)])):
            own = HeldSegment(first, stop - 1, beside[k + 1], beside[k], beside[k + 2])
            other = runner_up(marginals[first:stop].mean(axis=0), own.type)
            for t in range(first, stop):
                features, moves = map(
                    differences, self._scores(t, own), self._scores(t, self._instead(t, own, other))
                )
                names = labeling.labels[t], self.coder.types[other]
                chances = marginals[t, own.type], marginals[t, other]
                parts.append(explain_token(tokens[t], names, chances, features, moves, self.top))
        return parts

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

    def _scores(self, t: int, piece: HeldSegment) -> tuple[Scores, Scores]:
        """Return what token ``t`` brings to the score of its segment: from features, and from neighbors and length."""
        get, y, model = self.model.blocks, piece.type, self.model
        found = feature_scores(model.token_pairs, self.theta[get["token"]], self.rows, t, y, self.names)
        moves: Scores = {}
        if t == piece.first:
            found |= feature_scores(model.first_pairs, self.theta[get["first"]], self.rows, t, y, self.heads)
            if piece.before < 0:
                moves["(start)"] = self.starts.get(y, 0.0)
            else:
                moves[f"{self.coder.types[piece.before]} ->"] = float(self.parts.pairwise[piece.before, y])
        if t == piece.last:
            found |= feature_scores(model.last_pairs, self.theta[get["last"]], self.rows, t, y, self.tails)
            length = piece.last - piece.first + 1
            found |= self._whole(t, length, y)
            moves[f"(length {length})"] = float(self.parts.length[length - 1, y])
            if piece.after == -1:
                moves["(end)"] = self.ends.get(y, 0.0)
            elif piece.after >= 0:
                moves[f"-> {self.coder.types[piece.after]}"] = float(self.parts.pairwise[y, piece.after])
        return found, moves

    def _whole(self, last: int, length: int, y: int) -> Scores:
        """Scores of the lexicons that hold the segment as a whole."""
        weights = self.theta[self.model.blocks["span"]].reshape(-1, self.model.n_labels)
        here = (self.matches.end == last) & (self.matches.length == length)
        return {f"in {self.lexicons[k]}": float(weights[k, y]) for k in self.matches.feature[here].tolist()}
