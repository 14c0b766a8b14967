"""The most probable labelings of held-out sequences: made once, measured in one pass; all that weights are learned on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from rulefield.encode.spans import SegmentTable
from rulefield.learning.rule_weights.distances import count_segments
from rulefield.learning.rule_weights.learners import CHUNK, Example, Examples, in_chunks
from rulefield.parallel import Executor, Threads

MIN_LABELINGS, MAX_LABELINGS, MAX_ALL_LABELINGS = 40, 100, 20_000
"""Labelings of each sequence, and of all of them if that leaves more than the minimum: what exact decoding finds under
learned rules is hardly ever outside of these. Few sequences get longer lists, because their chain is less sure."""
MAX_GAP_NATS = 10.0
"""Labelings that score so much less than the best one are left out: rules hardly ever outweigh it."""


@dataclass(frozen=True)
class Lists:
    """Labelings of sequences, those of one sequence one after the other.

    Parameters
    ----------
    examples : list of Example
    labelings : list of ndarray of int64
    owner : ndarray of int64, shape (n_labelings,)
        The sequence of each, in order; every sequence has one at least.
    score : ndarray of float64, shape (n_labelings,)
        Of the chain.
    ceiling : ndarray of float64, shape (n_sequences,)
        A score that no labeling outside of a sequence's list exceeds; ``-inf`` if the list holds all of them.
    table : SegmentTable, optional
        Labelings are compared with gold labels by their segments; without it by tokens.
    """

    examples: Sequence[Example]
    labelings: list[np.ndarray]
    owner: np.ndarray
    score: np.ndarray
    ceiling: np.ndarray
    table: SegmentTable | None = None

    @classmethod
    def best(
        cls,
        examples: Sequence[Example],
        k: int | None = None,
        table: SegmentTable | None = None,
        executor: Executor | None = None,
    ) -> "Lists":
        """Return the ``k`` best labelings of each sequence, best first; by default up to 100, those within 10 nats."""
        most = k or min(MAX_LABELINGS, max(MIN_LABELINGS, MAX_ALL_LABELINGS // max(len(examples), 1)))
        gap = MAX_GAP_NATS if k is None else np.inf
        run = Threads(1) if executor is None else executor
        chunks = in_chunks(examples, CHUNK if run.apart else 1)
        parts = [part for some in run.map(best_lists, chunks, most, gap) for part in some]
        labelings = [labels for part in parts for labels in part.labelings]
        owner = np.repeat(np.arange(len(parts)), [len(part.scores) for part in parts])
        score = np.concatenate([part.scores for part in parts] or [np.zeros(0)])
        return cls(examples, labelings, owner, score, np.array([part.ceiling for part in parts]), table)

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
        ends, labels, word_of = (
            np.cumsum([0, *map(len, self.labelings)]),
            np.concatenate(self.labelings),
            self.word_of,
        )
        right = np.append(0, np.cumsum(word_of[labels] == word_of[gold] if word_of is not None else labels == gold))
        return np.diff(right[ends])

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

    def of(self, rows: np.ndarray) -> "Lists":
        """Return some of the labelings (of the same sequences): all but those that a hard rule forbids, in any order."""
        labelings = [self.labelings[j] for j in rows.tolist()]
        return replace(self, labelings=labelings, owner=self.owner[rows], score=self.score[rows])

    def head(self, size: int) -> "Lists":
        """Return the first labelings of each sequence, ``size`` at most."""
        return self.of(np.flatnonzero(np.arange(len(self.owner)) - self.first[self.owner] < size))

    def joined(self, fresh: dict[int, np.ndarray]) -> tuple["Lists", np.ndarray]:
        """Return these with a new labeling for some sequences, and the old place of each row (behind the last: new)."""
        score = [self.examples[i].score(labels) for i, labels in fresh.items()]
        owner = np.concatenate([self.owner, np.array(list(fresh), dtype=np.int64)])
        labelings = [*self.labelings, *fresh.values()]
        every = replace(self, labelings=labelings, owner=owner, score=np.concatenate([self.score, score]))
        order = np.argsort(owner, kind="stable")
        return every.of(order), order


class BestList(NamedTuple):
    """Labelings (k, n) of one sequence, their scores, and a score that no other one exceeds."""

    labelings: np.ndarray
    scores: np.ndarray
    ceiling: float


def best_lists(examples: Sequence[Example], most: int, gap: float) -> list[BestList]:
    """Return the best labelings of each example, ``most`` at most, those within ``gap`` of the best."""
    out = []
    for example in examples:
        labelings, scores = example.kbest(most)
        size = int(np.searchsorted(-scores, gap - scores[0], side="right"))
        complete = size == len(scores) < most
        ceiling = -np.inf if complete else scores[min(size, len(scores) - 1)]
        out.append(BestList(labelings[:size], scores[:size], ceiling))
    return out


@dataclass(frozen=True)
class MeasuredLists:
    """Labelings, and the units that they pay for under rules.

    Parameters
    ----------
    lists : Lists
    units : csr_matrix, shape (n_labelings, n_rules)
    worth : ndarray, shape (n_labelings,)
        Scores; if rules with a price were paid for, less what they cost.
    """

    lists: Lists
    units: csr_matrix
    worth: np.ndarray

    @classmethod
    def of(cls, lists: Lists, data: Examples) -> "MeasuredLists":
        """Measure lists; no rule is paid for yet."""
        return cls(lists, data.units(lists.labelings, lists.owner), lists.score)

    def paid(self, data: Examples) -> "MeasuredLists":
        """Return these with rules of a price paid for, without labelings that break a hard rule.

        A sequence whose labelings all break one keeps its gold labels, which may break it too: it is never sure of them.
        """
        worth = self.lists.score - data.fixed_costs(self.units)
        keep = np.flatnonzero(worth > -np.inf)
        if len(keep) == len(worth):
            return MeasuredLists(self.lists, self.units, worth)
        bare = sorted(set(range(len(data))) - set(self.lists.owner[keep].tolist()))
        lists, order = self.lists.of(keep).joined({i: data.examples[i].gold for i in bare})
        units = vstack([self.units[keep], data.gold[bare]], format="csr")[order]
        worth = np.where(order < len(keep), np.append(worth[keep], np.zeros(len(bare)))[order], lists.score)
        ceiling = np.where(np.isin(np.arange(len(data)), bare), np.inf, lists.ceiling)
        return MeasuredLists(replace(lists, ceiling=ceiling), units, worth)

    def some(self, members: np.ndarray) -> "MeasuredLists":
        """Return those of some sequences, numbered anew in their order."""
        lists = self.lists
        ends = np.append(lists.first, len(lists.owner))
        rows = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in members] or [np.zeros(0, np.int64)])
        owner = np.repeat(np.arange(len(members)), [ends[i + 1] - ends[i] for i in members])
        examples = [lists.examples[i] for i in members]
        labelings = [lists.labelings[j] for j in rows.tolist()]
        picked = Lists(examples, labelings, owner, lists.score[rows], lists.ceiling[members], lists.table)
        return MeasuredLists(picked, self.units[rows], self.worth[rows])

    def best(self, prices: np.ndarray | None = None) -> np.ndarray:
        """Best labeling of each sequence, (n_sequences,) places, if rules cost ``prices`` (by default nothing)."""
        return self.lists.best_of(self.worth if prices is None else self.worth - self.units @ prices)

    def unsure(self, prices: np.ndarray) -> np.ndarray:
        """Sequences whose best labeling might be outside of their list where rules cost ``prices``.

        Rules only cost: a labeling is worth its score at most, so none beyond the list is better than one that is worth
        the list's ceiling. Few are left to be decoded.
        """
        worth = self.worth - self.units @ prices
        return np.flatnonzero(worth[self.lists.best_of(worth)] < self.lists.ceiling)
