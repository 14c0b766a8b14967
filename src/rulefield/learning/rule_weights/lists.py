"""Held-out sequences, their most probable labelings, and what these pay for under rules: all that weights are learned on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.encode.spans import SegmentTable
from rulefield.inference.sequences.exact import kbest_labels
from rulefield.inference.sequences.segments.sums import segment_chances
from rulefield.inference.sequences.sums import TOLERANCE, Question
from rulefield.parallel import Threads, in_threads
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.segments import SegmentPotentials, SegmentProblem, Spelling
from rulefield.rules.chain.compiler import RuleCompiler, RuleTemplate

MIN_LABELINGS, MAX_LABELINGS, MAX_ALL_LABELINGS = 40, 100, 20_000
"""Labelings of each sequence, and of all of them if that leaves more than the minimum: the best labeling under learned
rules is hardly ever outside of these. Few sequences get longer lists, because their chain is less sure."""
MAX_GAP_NATS = 10.0
"""Labelings that score so much less than the best one are left out: rules hardly ever outweigh it."""


@dataclass(frozen=True)
class Example:
    """A held-out sequence: its potentials by a model that has not seen it, and the numbers of its gold labels.

    For segments, labels are those that spell them. Tokens are right if the words of their labels (``word_of``) are; by
    default each label is its own.
    """

    tokens: Any
    potentials: ChainPotentials | SegmentPotentials
    gold: np.ndarray
    spelling: Spelling | None = None
    word_of: np.ndarray | None = None

    def score(self, labels: np.ndarray) -> float:
        """Return the score of labels; ``-inf`` if they are forbidden."""
        if isinstance(self.potentials, ChainPotentials):
            return self.potentials.score(labels)
        return self._segments().score(labels)

    def kbest(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labelings as rows (k, n_tokens), best first, and their scores; fewer if there are fewer."""
        if isinstance(self.potentials, ChainPotentials):
            return kbest_labels(self.potentials, k)
        if not len(self.gold):
            return np.empty((1, 0), np.int64), np.zeros(1)
        problem = self._segments()
        found = segment_chances(problem, Question(k=k), TOLERANCE)
        rows = found.best.reshape(k, -1)[found.best_chance[0] > 0]
        return rows, np.array([problem.score(row) for row in rows])

    def _segments(self) -> SegmentProblem:
        assert isinstance(self.potentials, SegmentPotentials)
        assert self.spelling is not None
        return SegmentProblem(self.potentials, self.spelling, ())


class SegmentCounts(NamedTuple):
    """Segments of labelings, at every level, (n_labelings,) each."""

    gold: np.ndarray
    found: np.ndarray
    right: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """Segments that are found but not gold, or gold but not found."""
        return self.gold + self.found - 2 * self.right


def count_segments(
    table: SegmentTable, gold: Sequence[np.ndarray], labelings: Sequence[np.ndarray], owner: np.ndarray
) -> SegmentCounts:
    """Compare the segments of labelings with those of gold labels; labeling j is one of sequence ``owner[j]``."""
    counts = SegmentCounts(*np.zeros((3, len(labelings)), dtype=np.int64))
    if not len(labelings):
        return counts
    sizes, lengths = (np.array([len(row) for row in rows], dtype=np.int64) for rows in (gold, labelings))
    gold_ids, ids = (np.concatenate(rows).astype(np.int64) for rows in (gold, labelings))
    labeling = np.repeat(np.arange(len(labelings)), lengths)
    sequence = np.repeat(np.arange(len(gold)), sizes)
    shift = (np.cumsum(sizes) - sizes)[owner] - (np.cumsum(lengths) - lengths)
    for level in range(table.depth):
        first, last, kind = table.find(gold_ids, sizes, level)
        stop, kinds = np.full((2, len(gold_ids)), -1, dtype=np.int64)
        stop[first], kinds[first] = last, kind
        counts.gold[:] += np.bincount(sequence[first], minlength=len(gold))[owner]
        first, last, kind = table.find(ids, lengths, level)
        own = labeling[first]
        there = first + shift[own]
        same = (stop[there] == last + shift[own]) & (kinds[there] == kind)
        counts.found[:] += np.bincount(own, minlength=len(labelings))
        counts.right[:] += np.bincount(own[same], minlength=len(labelings))
    return counts


@dataclass(frozen=True)
class Lists:
    """Labelings of sequences, those of one sequence one after the other, best first; every sequence has one at least.

    ``owner`` and ``score`` (n_labelings,) are the sequence of each and its score by the model. Labelings are compared
    with gold labels by the segments that ``table`` finds; without it by tokens.
    """

    examples: Sequence[Example]
    labelings: list[np.ndarray]
    owner: np.ndarray
    score: np.ndarray
    table: SegmentTable | None = None

    @classmethod
    def best(
        cls,
        examples: Sequence[Example],
        k: int | None = None,
        table: SegmentTable | None = None,
        n_jobs: int | None = 1,
    ) -> "Lists":
        """Return the ``k`` best labelings of each sequence; by default up to 100, those within 10 nats."""
        most = k or min(MAX_LABELINGS, max(MIN_LABELINGS, MAX_ALL_LABELINGS // max(len(examples), 1)))
        gap = MAX_GAP_NATS if k is None else np.inf
        parts = in_threads(lambda example: best_labelings(example, most, gap), examples, n_jobs)
        labelings = [labels for rows, _ in parts for labels in rows]
        owner = np.repeat(np.arange(len(parts)), [len(scores) for _, scores in parts])
        return cls(examples, labelings, owner, np.concatenate([np.zeros(0), *(s for _, s in parts)]), table)

    @cached_property
    def first(self) -> np.ndarray:
        """Where the labelings of each sequence begin, (n_sequences,)."""
        return np.searchsorted(self.owner, np.arange(len(self.examples)))

    @property
    def word_of(self) -> np.ndarray | None:
        """Words of labels, the same for all examples."""
        return self.examples[0].word_of if len(self.examples) else None

    @cached_property
    def tokens_right(self) -> np.ndarray:
        """Tokens that each labeling has right, (n_labelings,)."""
        if not len(self.labelings):
            return np.zeros(0, dtype=np.int64)
        gold = np.concatenate([self.examples[i].gold for i in self.owner.tolist()])
        labels, word_of = np.concatenate(self.labelings), self.word_of
        same = labels == gold if word_of is None else word_of[labels] == word_of[gold]
        return np.diff(np.append(0, np.cumsum(same))[np.cumsum([0, *map(len, self.labelings)])])

    @cached_property
    def wrong(self) -> np.ndarray:
        """Distance of each labeling from the gold labels, (n_labelings,): segments that differ, or tokens."""
        gold = [example.gold for example in self.examples]
        if self.table is not None:
            return count_segments(self.table, gold, self.labelings, self.owner).wrong
        return np.array([(labels != gold[i]).sum() for i, labels in zip(self.owner.tolist(), self.labelings)])

    def best_of(self, worth: np.ndarray) -> np.ndarray:
        """Place of the labeling of each sequence that is worth most, the first of equals, (n_sequences,)."""
        top = np.maximum.reduceat(worth, self.first) if len(worth) else worth
        places = np.flatnonzero(worth == top[self.owner])
        return places[np.unique(self.owner[places], return_index=True)[1]]

    def head(self, size: int) -> "Lists":
        """Return the first labelings of each sequence, ``size`` at most."""
        rows = np.flatnonzero(np.arange(len(self.owner)) - self.first[self.owner] < size)
        labelings = [self.labelings[j] for j in rows.tolist()]
        return replace(self, labelings=labelings, owner=self.owner[rows], score=self.score[rows])


def best_labelings(example: Example, most: int, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelings of a sequence and their scores, ``most`` at most, those within ``gap`` of the best."""
    rows, scores = example.kbest(most)
    size = int(np.searchsorted(-scores, gap - scores[0], side="right"))
    return rows[:size], scores[:size]


@dataclass(frozen=True)
class MeasuredLists:
    """Labelings, and the units that they (n_labelings, n_rules) and gold labels (n_sequences, n_rules) pay for under rules.

    ``weights`` (n_rules,) are NaN where they are open; ``templates`` are the compiled rules.
    """

    lists: Lists
    weights: np.ndarray
    units: csr_matrix
    gold: csr_matrix
    templates: Sequence[RuleTemplate]

    @classmethod
    def of(cls, lists: Lists, compiler: RuleCompiler, n_jobs: int | None = 1) -> "MeasuredLists":
        """Measure lists under the rules of a compiler."""
        threads, inputs = Threads(n_jobs), [example.tokens for example in lists.examples]
        units = compiler.amounts_of_all(inputs, lists.labelings, lists.owner, threads)
        gold = compiler.amounts_of_all(inputs, [example.gold for example in lists.examples], None, threads)
        once = np.array([rule.per == "once" for rule in compiler.rules], dtype=bool)
        for table in (units, gold):
            table.data[once[table.indices]] = 1.0
        return cls(lists, compiler.weights, units, gold, compiler.templates)

    @cached_property
    def states(self) -> np.ndarray:
        """States in which each rule remembers what it has read of a sequence of average length, (n_rules,)."""
        lengths = [len(example.gold) for example in self.lists.examples]
        n_tokens = int(np.mean(lengths)) if lengths else 1
        return np.array([template.n_states(n_tokens) for template in self.templates], dtype=np.float64)

    @property
    def is_open(self) -> np.ndarray:
        """Rules whose weight is to be learned, (n_rules,)."""
        return np.isnan(self.weights)

    @cached_property
    def worth(self) -> np.ndarray:
        """Scores less what rules of a known weight cost, (n_labelings,); ``-inf`` if a hard rule forbids a labeling.

        Where hard rules forbid all labelings of a sequence they say nothing about it.
        """
        worth = self.lists.score - costs_of(self.units, np.where(self.is_open, 0.0, self.weights))
        top = np.maximum.reduceat(worth, self.lists.first) if len(worth) else worth
        return np.where(top[self.lists.owner] > -np.inf, worth, self.lists.score)

    @cached_property
    def target(self) -> np.ndarray:
        """Labeling of each sequence that is nearest to the gold labels; of several, the one that is worth most."""
        if not len(self.worth):
            return np.zeros(0, dtype=np.int64)
        wrong = np.where(self.worth > -np.inf, self.lists.wrong, np.inf)
        least = np.minimum.reduceat(wrong, self.lists.first)[self.lists.owner]
        return self.lists.best_of(np.where(wrong == least, self.worth, -np.inf))

    def best(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Best labeling of each sequence, (n_sequences,) places, if open rules cost ``weights`` (by default nothing)."""
        return self.lists.best_of(self.worth if weights is None else self.worth - self.units @ weights)

    def of_rules(self, numbers: np.ndarray) -> "MeasuredLists":
        """Return the same lists under some of the rules."""
        templates = [self.templates[r] for r in numbers.tolist()]
        return MeasuredLists(
            self.lists, self.weights[numbers], self.units[:, numbers], self.gold[:, numbers], templates
        )


def costs_of(units: csr_matrix, weights: np.ndarray) -> np.ndarray:
    """Return what rules of these weights cost each labeling (rows of ``units``); ``inf`` if one breaks a hard rule."""
    hard = np.isinf(weights)
    return units @ np.where(hard, 0.0, weights) + np.where((units @ hard.astype(float)) > 0, np.inf, 0.0)
