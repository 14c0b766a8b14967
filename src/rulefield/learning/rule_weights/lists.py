"""The most probable labelings of held-out sequences: made once, measured in one pass; all that weights are learned on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, vstack

from rulefield.inference.sequences.exact import kbest
from rulefield.learning.rule_weights.distances import Distance, wrong_labels
from rulefield.learning.rule_weights.learners import CHUNK, Example, Examples, in_chunks
from rulefield.parallel import Executor, Threads

LEAST, MOST, IN_ALL = 40, 100, 20_000
"""Labelings of each sequence, and of all of them where that leaves more than the least: what exact decoding finds under
learned rules is hardly ever outside of these. Few sequences get longer lists, because their chain is less sure."""


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
    wrong : ndarray of float64, shape (n_labelings,)
        Distance from the gold labels.
    ceiling : ndarray of float64, shape (n_sequences,)
        A score that no labeling outside of a sequence's list exceeds; ``-inf`` where the list holds all of them.
    """

    examples: Sequence[Example]
    labelings: list[np.ndarray]
    owner: np.ndarray
    score: np.ndarray
    wrong: np.ndarray
    ceiling: np.ndarray

    @classmethod
    def best(
        cls,
        examples: Sequence[Example],
        k: int | None = None,
        distance: Distance = wrong_labels,
        executor: Executor | None = None,
    ) -> "Lists":
        """Return the ``k`` best labelings of each sequence, best first; by default 40, up to 100 where sequences are few."""
        most = k or min(MOST, max(LEAST, IN_ALL // max(len(examples), 1)))
        run = Threads(1) if executor is None else executor
        chunks = in_chunks(examples, CHUNK if run.apart else 1)
        found = [own for some in run.map(best_lists, chunks, most, distance) for own in some]
        return cls(
            examples,
            [labels for some, _, _ in found for labels in some],
            np.repeat(np.arange(len(found)), [len(some) for some, _, _ in found]),
            np.array([score for _, scores, _ in found for score in scores]),
            np.concatenate([wrong for _, _, wrong in found] or [np.zeros(0)]),
            np.array([scores[-1] if len(scores) == most else -np.inf for _, scores, _ in found]),
        )

    @cached_property
    def first(self) -> np.ndarray:
        """Where the labelings of each sequence begin, (n_sequences,)."""
        return np.searchsorted(self.owner, np.arange(len(self.examples)))

    def best_of(self, worth: np.ndarray) -> np.ndarray:
        """Place of the labeling of each sequence that is worth most, the first of equals, (n_sequences,)."""
        top = np.maximum.reduceat(worth, self.first) if len(worth) else worth
        places = np.flatnonzero(worth == top[self.owner])
        return places[np.unique(self.owner[places], return_index=True)[1]]

    def of(self, rows: np.ndarray) -> "Lists":
        """Return some of the labelings (of the same sequences): all but those that a hard rule forbids, in any order."""
        labelings = [self.labelings[j] for j in rows.tolist()]
        return Lists(self.examples, labelings, self.owner[rows], self.score[rows], self.wrong[rows], self.ceiling)

    def joined(self, fresh: dict[int, np.ndarray], distance: Distance) -> tuple["Lists", np.ndarray]:
        """Return these with a new labeling for some sequences, and the old place of each row (behind the last: new)."""
        members = list(fresh)
        score = [self.examples[i].potentials.score(fresh[i]) for i in members]
        wrong = [distance(self.examples[i].gold, [fresh[i]])[0] for i in members]
        owner = np.concatenate([self.owner, np.array(members, dtype=np.int64)])
        every = Lists(
            self.examples,
            [*self.labelings, *fresh.values()],
            owner,
            np.concatenate([self.score, score]),
            np.concatenate([self.wrong, wrong]),
            self.ceiling,
        )
        order = np.argsort(owner, kind="stable")
        return every.of(order), order


def best_lists(
    examples: Sequence[Example], most: int, distance: Distance
) -> list[tuple[list[np.ndarray], list[float], np.ndarray]]:
    """Best labelings of each example, their scores, and their distances from the gold labels."""
    out = []
    for example in examples:
        found = kbest(example.potentials, most)
        labelings = [result.labels for result in found]
        out.append((labelings, [result.score for result in found], distance(example.gold, labelings)))
    return out


@dataclass(frozen=True)
class MeasuredLists:
    """Labelings, and the units that they pay for under rules.

    Parameters
    ----------
    lists : Lists
    units : csr_matrix, shape (n_labelings, n_rules)
    worth : ndarray, shape (n_labelings,)
        Scores; where rules with a price were paid for, less what they cost.
    """

    lists: Lists
    units: csr_matrix
    worth: np.ndarray

    @classmethod
    def of(cls, lists: Lists, data: Examples) -> "MeasuredLists":
        """Measure lists; no rule is paid for yet."""
        return cls(lists, data.units(lists.labelings, lists.owner), lists.score)

    def paid(self, data: Examples, distance: Distance = wrong_labels) -> "MeasuredLists":
        """Return these with rules of a price paid for, without labelings that break a hard rule.

        A sequence whose labelings all break one keeps its gold labels, which may break it too: it is never sure of them.
        """
        worth = self.lists.score - data.fixed_costs(self.units)
        keep = np.flatnonzero(worth > -np.inf)
        if len(keep) == len(worth):
            return MeasuredLists(self.lists, self.units, worth)
        bare = sorted(set(range(len(data))) - set(self.lists.owner[keep].tolist()))
        lists, order = self.lists.of(keep).joined({i: data.examples[i].gold for i in bare}, distance)
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
        picked = Lists(examples, labelings, owner, lists.score[rows], lists.wrong[rows], lists.ceiling[members])
        return MeasuredLists(picked, self.units[rows], self.worth[rows])

    @cached_property
    def differences(self) -> csr_matrix:
        """Units of each labeling beyond those of the first of its sequence: few, and all that likelihoods see."""
        firsts = self.units[self.lists.first][self.lists.owner] if len(self.lists.owner) else self.units
        found = csr_matrix(self.units - firsts)
        found.eliminate_zeros()
        return found

    def best(self, prices: np.ndarray | None = None) -> np.ndarray:
        """Best labeling of each sequence, (n_sequences,) places, where rules cost ``prices`` (by default nothing)."""
        return self.lists.best_of(self.worth if prices is None else self.worth - self.units @ prices)

    def unsure(self, prices: np.ndarray) -> np.ndarray:
        """Sequences whose best labeling might be outside of their list where rules cost ``prices``.

        Rules only cost: a labeling is worth its score at most, so none beyond the list is better than one that is worth
        the list's ceiling. Few are left to be decoded.
        """
        worth = self.worth - self.units @ prices
        return np.flatnonzero(worth[self.lists.best_of(worth)] < self.lists.ceiling)

    def distinct(self, rules: np.ndarray) -> np.ndarray:
        """Return those of ``rules`` that tell labelings apart, the first of each group that tell all apart alike."""
        by_rule = self.differences.tocsc()
        seen: set[tuple[bytes, bytes]] = set()
        kept = []
        for r in rules.tolist():
            here = slice(by_rule.indptr[r], by_rule.indptr[r + 1])
            key = by_rule.indices[here].tobytes(), by_rule.data[here].tobytes()
            if here.stop > here.start and key not in seen:
                seen.add(key)
                kept.append(r)
        return np.array(kept, dtype=np.int64)

    def columns(self, rules: np.ndarray) -> "MeasuredLists":
        """Return the same labelings under some of the rules."""
        return MeasuredLists(self.lists, self.units[:, rules], self.worth)
