"""Labeled sequences as rules see them: what checking, proposing and mining start from."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.rules.expression import LabeledTokens
from rulefield.rules.labels import LabelTable, known_scheme
from rulefield.rules.patterns import Pattern, end_counts, matches, start_counts


@dataclass(frozen=True)
class Observed:
    """Fully labeled sequences, as numbers of labels; the tokens of each, or how many if they are not known."""

    table: LabelTable
    sequences: list[np.ndarray]
    tokens: list[Any]

    def __len__(self) -> int:
        return len(self.sequences)

    def possible(self, labels: np.ndarray) -> bool:
        """Whether the scheme allows a sequence."""
        allowed, begin, end = self.table.allowed
        inside = allowed[labels[:-1], labels[1:]].all()
        return not len(labels) or bool(inside and begin[labels[0]] and end[labels[-1]])

    def labeling(self, number: int) -> LabeledTokens:
        """One sequence as the world that rules judge from their definition."""
        tokens, labels = self.tokens[number], self.sequences[number]
        texts = range(tokens) if isinstance(tokens, int) else tokens
        return LabeledTokens(texts, [self.table.labels[i] for i in labels], self.table.scheme)


def observe(
    y: Iterable[Sequence[Any]],
    X: Iterable[Any] | None = None,
    scheme: str | None = "auto",
    labels: Sequence[str] | None = None,
) -> Observed:
    """Read labeled sequences; those with an unknown label (None, or a set) are left out.

    The scheme "auto" is guessed from ``labels``, the label set, which is by default that of the labels that occur.
    """
    pairs = list(_known(y, X))
    if not pairs:
        raise InputError("y must hold at least one sequence in which every label is known.")
    seen = dict.fromkeys(label for _, sequence in pairs for label in sequence)
    names = sorted(seen) if labels is None else [str(label) for label in labels]
    table = LabelTable(names, known_scheme(scheme, names))
    unknown = next((label for label in seen if label not in table.index), None)
    if unknown is not None:
        raise InputError(f"the label {unknown!r} of y is not in the label set that was given.")
    sequences = [np.array([table.index[label] for label in sequence], dtype=np.int64) for _, sequence in pairs]
    return Observed(table, sequences, [tokens for tokens, _ in pairs])


def fully_labeled(labels: Sequence[Any]) -> bool:
    """Whether every label is known: none is None or a choice."""
    return all(label is not None and not isinstance(label, set | frozenset | list | tuple) for label in labels)


def _known(y: Iterable[Sequence[Any]], X: Iterable[Any] | None) -> Iterator[tuple[Any, list[str]]]:
    y = list(y)
    inputs = [len(labels) for labels in y] if X is None else list(X)
    if len(inputs) != len(y):
        raise InputError(f"X and y must have as many sequences; got {len(inputs)} and {len(y)}.")
    for tokens, labels in zip(inputs, y):
        n = tokens if isinstance(tokens, int) else len(tokens)
        if n != len(labels):
            raise InputError(f"every token needs a label; a sequence of {n} tokens has {len(labels)} labels.")
        if fully_labeled(labels):
            yield tokens, [str(label) for label in labels]


def nested_types(table: LabelTable) -> list[tuple[str, str]]:
    """Pairs of types of which the second occurs inside the first."""
    types = [[c.type for c in path if c is not None] for path in table.paths]
    pairs = dict.fromkeys(pair for names in types for pair in combinations(names, 2))
    return [pair for pair in pairs if pair[0] != pair[1]]


@dataclass(frozen=True)
class Parts:
    """A division of sequences: rules are looked for in all, and in all but those of each part (if there are several).

    ``part`` (n_sequences,) is the part of each sequence.
    """

    part: np.ndarray
    n_parts: int

    @classmethod
    def whole(cls, n: int) -> "Parts":
        """Do not divide ``n`` sequences."""
        return cls(np.zeros(n, dtype=np.int64), 1)

    @property
    def n_groups(self) -> int:
        """All sequences are a group, and so are all but those of each part."""
        return 1 + self.n_parts if self.n_parts > 1 else 1

    def groups(self, counts: np.ndarray) -> np.ndarray:
        """From counts by part (n_parts, ...) to counts by group: all sequences, then all but each part."""
        total = counts.sum(axis=0)
        return np.concatenate([total[None], total - counts])[: self.n_groups]

    def count(self, flags: np.ndarray) -> np.ndarray:
        """Sequences of each group for which a flag (n_sequences,) is set."""
        return self.groups(np.bincount(self.part, weights=flags, minlength=self.n_parts))

    def tokens_of(self, data: Observed) -> list[np.ndarray]:
        """Places of the tokens of each part, if all sequences are written one after the other."""
        by_token = np.repeat(self.part, [len(labels) for labels in data.sequences])
        return [np.flatnonzero(by_token == p) for p in range(self.n_parts)]


class NameTables:
    """For each of K names: labels that match, segments that begin, segments that end."""

    def __init__(self, names: Sequence[str], table: LabelTable):
        patterns = [Pattern((name,)) for name in names]
        self.matches = np.array([matches(p, table) for p in patterns])
        self._starts = np.array([start_counts(p, table) for p in patterns])
        self._ends = np.array([end_counts(p, table) for p in patterns])

    def starts(self, labels: np.ndarray) -> np.ndarray:
        """Segments of each name that begin at each token, (K, n)."""
        before = np.concatenate([[-1], labels[:-1]]) if len(labels) else labels
        return self._starts[:, before, labels]

    def ends(self, labels: np.ndarray) -> np.ndarray:
        """Segments of each name whose last token is each token but the last, (K, n - 1)."""
        return self._ends[:, labels[:-1], labels[1:]]
