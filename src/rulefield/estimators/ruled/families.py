"""What learning the weights of rules asks of a fitted model: a chain, or segments."""

from functools import cached_property
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.spans import SegmentTable
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.segments.coding import SegmentData
from rulefield.estimators.segments.estimator import SegmentCRF
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.segments import SegmentPotentials, Spans, Spelling
from rulefield.rules.labels import LabelTable

Inner = ChainCRF | SegmentCRF
Potentials = ChainPotentials | SegmentPotentials
FOLD_TOL = 3e-3
"""Where the likelihood of a fold's model ends. Looser than that of a model that is kept: held-out sequences of Cora and of
addresses were as likely (within 0.13 %) and labeled as well (within 0.05 points) as at 1e-5, in two thirds of the
time."""


class Family:
    """Labels and potentials of a fitted model, whose folds may not have seen all labels.

    Gold labels and labelings are places in ``table``, the labels as rules read them; ``word_of`` (n_labels,) gives the
    place of each in ``words``, the labels as users write them (None if both are the same). ``spelling`` is that of
    segments.
    """

    crf: Any
    table: LabelTable
    words: LabelTable
    word_of: np.ndarray | None = None
    spelling: Spelling | None = None
    forbidden_by: str

    def __init__(self, labels: list[Any]):
        self._number = {label: i for i, label in enumerate(labels)}

    @cached_property
    def segments(self) -> SegmentTable:
        """Finds the segments of labels."""
        return SegmentTable(self.table.labels, self.crf.scheme)

    @cached_property
    def spans(self) -> SegmentTable:
        """Finds the segments of labels as users write them."""
        return SegmentTable(self.words.labels, self.crf.scheme)

    def unknown(self, labels: list[Any]) -> list[Any]:
        """Return the labels that the model was not trained on."""
        return [label for label in labels if label not in self._number]

    def in_words(self, labels: np.ndarray) -> np.ndarray:
        """Return labels as places in ``words``."""
        return labels if self.word_of is None else self.word_of[labels]

    def fold_parameters(self) -> dict[str, Any]:
        """Return the parameters of the models of folds, which end early."""
        return {"tol": max(self.crf.tol or 0.0, FOLD_TOL)}


class ChainFamily(Family):
    """The family of a chain."""

    crf: ChainCRF
    forbidden_by = "the scheme forbids"

    def __init__(self, crf: ChainCRF):
        super().__init__(crf.classes_.tolist())
        self.crf = crf
        self.table = self.words = LabelTable([str(c) for c in crf.classes_], crf.scheme)

    def encode(self, labels: list[Any]) -> np.ndarray:
        """Return the places of gold labels."""
        return np.array([self._number[label] for label in labels], dtype=np.int64)

    def potentials(self, fold: Any, data: Sequences) -> list[Potentials]:
        """Return the potentials of all sequences by the model of a fold; what it never saw scores as its worst."""
        decoder, column, m = fold._decoder(), self.encode(fold.classes_.tolist()), len(self.table)
        found = [decoder.potentials(data, i) for i in range(len(data))]
        return [*found] if len(column) == m else [_widened(p, column, m) for p in found]

    def fold_parameters(self) -> dict[str, Any]:
        """Return the parameters of the models of folds: penalties are chosen once."""
        return super().fold_parameters() | {"l1": self.crf.l1_, "l2": self.crf.l2_}

    def can_share_features(self) -> bool:
        """Whether the model looks at nothing but features, and not at their names."""
        return not self.crf.expectations


class SegmentFamily(Family):
    """The family of segments. Labels are those that spell them, so that instances of rules are the segments themselves."""

    crf: SegmentCRF
    spelling: Spelling
    forbidden_by = "the scheme forbids, or segments longer than the model allows"

    def __init__(self, crf: SegmentCRF):
        coder = crf._coder
        super().__init__(coder.classes)
        self.crf, self.spelling = crf, coder.spelling
        self.table = coder.table
        self.words = LabelTable([str(word) for word in coder.words], crf.scheme)
        self.word_of = self.spelling.type_of if len(self.words) < len(self.table) else None
        self._labels = LabelEncoder().set_classes(coder.classes)

    def encode(self, labels: list[Any]) -> np.ndarray | None:
        """Return the places of the labels that spell gold labels; None if the scheme forbids these."""
        coder = self.crf._coder
        gold = coder.encode(self._labels.encode([labels], np.array([len(labels)])))
        found = self.spelling.write(gold.opens, gold.labels)
        return found if coder.named(found) == list(labels) else None

    def potentials(self, fold: Any, data: SegmentData) -> list[Potentials]:
        """Return the potentials of all sequences by the model of a fold; what it never saw scores as its worst."""
        place = {kind: i for i, kind in enumerate(self.crf.classes_)}
        column = np.array([place[kind] for kind in fold.classes_])
        longest, found = self.crf.model_.longest, fold.model_.potentials(fold.theta_, *data)
        if len(column) == len(place) and (fold.model_.longest >= longest).all():
            return [*found]
        return [_widened_segments(p, column, longest, self.crf._coder.allowed) for p in found]

    def can_share_features(self) -> bool:
        """Whether the model looks at nothing but features, and not at tokens."""
        return not self.crf.lexicons


def family_of(crf: Inner) -> ChainFamily | SegmentFamily:
    """Return the family of a fitted model."""
    return SegmentFamily(crf) if isinstance(crf, SegmentCRF) else ChainFamily(crf)


def _widened(potentials: ChainPotentials, column: np.ndarray, m: int) -> ChainPotentials:
    """Return potentials over ``m`` labels from those over ``column``."""
    unary = _spread(potentials.unary, column, m)
    stack = potentials.pairwise_stack
    pairwise = np.zeros((len(stack), m, m))
    pairwise[np.ix_(np.arange(len(stack)), column, column)] = stack
    return ChainPotentials(unary, pairwise[0] if potentials.pairwise.ndim == 2 else pairwise)


def _widened_segments(
    potentials: SegmentPotentials, column: np.ndarray, longest: np.ndarray, allowed: np.ndarray
) -> SegmentPotentials:
    """Return potentials over all types, with segments as long as ``longest`` (n_types,) says."""
    p, m = potentials, len(longest)
    token, first, last = (_spread(scores, column, m) for scores in (p.token, p.first, p.last))
    seen = np.full((max(p.max_length, int(longest.max())), m), -np.inf)
    seen[: p.max_length, column] = p.length
    worst = np.where(np.isfinite(seen), seen, np.inf).min(axis=0)
    worst[np.isinf(worst)] = 0.0
    possible = np.arange(1, len(seen) + 1)[:, None] <= longest
    length = np.where(possible & np.isinf(seen), worst, seen)
    pairwise = np.where(allowed, 0.0, -np.inf)
    pairwise[np.ix_(column, column)] = p.pairwise
    score = np.zeros((len(p.spans.start), m))
    score[:, column] = p.spans.score
    spans = Spans(p.spans.start, p.spans.length, score)
    return SegmentPotentials(token, first, last, length, pairwise, spans)


def _spread(scores: np.ndarray, column: np.ndarray, m: int) -> np.ndarray:
    """Return scores (n, m) from those over ``column``; other labels score as the worst."""
    finite = scores[np.isfinite(scores)]
    wide = np.full((len(scores), m), finite.min() if len(finite) else 0.0)
    wide[:, column] = scores
    return wide
