"""Token labels to segments and back, for every label scheme; whole-segment lexicon matches."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.encode.schemes import OUTSIDE, Component, Scheme, as_scheme, format_path
from rulefield.encode.spans import SegmentTable, prefix_of
from rulefield.exceptions import InputError
from rulefield.models.segments import Segmentation, SpanMatches
from rulefield.problem.segments import CLOSING, MIDDLE, OPENING, SINGLE, Spelling

if TYPE_CHECKING:
    from rulefield.rules.labels import LabelTable


class SegmentData(NamedTuple):
    """Encoded input: sequences of feature rows, and the span features that match somewhere."""

    sequences: Sequences
    matches: SpanMatches


class SegmentCoder:
    """Segments of token labels.

    Under a scheme a segment is what the scheme says, and a token outside every segment is a segment of its own with
    label ``O``. Without one a segment is a maximal run of one label.

    Parameters
    ----------
    classes : sequence of labels
        Token labels; a number is a place here.
    scheme : str or None

    Attributes
    ----------
    types : list
        Segment labels.
    """

    def __init__(self, classes: Sequence[Any], scheme: str | None):
        self.scheme = as_scheme(scheme)
        self.classes = list(classes)
        if self.scheme is Scheme.none:
            self.types: list[Any] = self.classes
            return
        self._table = SegmentTable([str(c) for c in classes], scheme)
        if self._table.depth > 1:
            raise InputError(
                "SegmentCRF takes labels of one level, but these form a hierarchy; use scheme=None, where a segment "
                "is a run of one label, or ChainCRF."
            )
        outside = [OUTSIDE] if (self._table.type_of < 0).any() else []
        self.types = [*self._table.types, *outside]

    def encode(self, labels: Labels) -> Segmentation:
        """Find the segments of fully known labels."""
        if labels.is_partial:
            raise InputError(
                "SegmentCRF needs every label; unknown labels and label sets can be learned by ChainCRF."
            )
        ids, lengths = labels.ids, labels.lengths
        if self.scheme is Scheme.none:
            opens = np.ones(len(ids), np.uint8)
            opens[1:] = ids[1:] != ids[:-1]
            opens[(np.cumsum(lengths) - lengths)[lengths > 0]] = 1
            return Segmentation(opens, ids.astype(np.int64))
        first, _, _ = self._table.find(ids, lengths)
        kind = self._table.type_of[0, ids].astype(np.int64)
        opens = (kind < 0).astype(np.uint8)
        opens[first] = 1
        return Segmentation(opens, np.where(kind < 0, len(self.types) - 1, kind))

    @cached_property
    def spelling(self) -> Spelling:
        """Token labels of segments, as places in ``labels``."""
        if self.scheme is Scheme.none:
            return Spelling.of_types(len(self.types))
        place = {label: i for i, label in enumerate(self.labels)}
        label = np.empty((4, len(self.types), 2, 2), np.int64)
        for (role, y, before, after), _ in np.ndenumerate(label):
            label[role, y, before, after] = place[self._label(role, y, bool(before), bool(after))]
        return Spelling(label, len(self.labels))

    @cached_property
    def labels(self) -> list[Any]:
        """Token labels that segments are written with; without a scheme a type where it begins, then where it goes on."""
        if self.scheme is Scheme.none:
            return [*self.types, *self.types]
        flags = (False, True)
        return list(
            dict.fromkeys(
                self._label(role, y, before, after)
                for y in range(len(self.types))
                for role in (OPENING, MIDDLE, CLOSING, SINGLE)
                for before in flags
                for after in flags
            )
        )

    def _label(self, role: int, y: int, before: bool, after: bool) -> str:
        name, opens, closes = self.types[y], bool(role & OPENING), bool(role & CLOSING)
        if name == OUTSIDE:
            return OUTSIDE
        prefix = prefix_of(self.scheme, opens, closes, (before and opens, after and closes))
        return format_path((Component(prefix, name),), self.scheme)

    @property
    def table(self) -> "LabelTable":
        """Token labels as rules read them; without a scheme neighbors of one type stay two segments."""
        from rulefield.rules.labels import CutLabels, LabelTable

        if self.scheme is Scheme.none:
            return CutLabels([str(kind) for kind in self.types])
        return LabelTable(self.labels, self.scheme)

    @property
    def words(self) -> list[Any]:
        """Token labels as users write them, each once."""
        return self.types if self.scheme is Scheme.none else self.labels

    def named(self, ids: np.ndarray) -> list[Any]:
        """Token labels of places in ``labels``."""
        return [self.labels[k] for k in ids.tolist()]

    def possible(self, known: Labels) -> np.ndarray:
        """Which of ``labels`` are possible at each token (n_tokens, n_labels); ``known`` are numbers of ``words``."""
        if known.allowed is None:
            found = known.ids[:, None] == np.arange(known.n_labels)
        else:
            found = known.allowed.astype(bool)
        return np.hstack([found, found]) if self.scheme is Scheme.none else found

    def longest(self, gold: Segmentation, max_length: int | None) -> np.ndarray:
        """Most tokens in a segment of each type: the longest seen, or ``max_length``; 1 outside segments."""
        longest = np.ones(len(self.types), np.int64)
        np.maximum.at(longest, gold.labels[gold.starts], gold.lengths)
        if max_length is not None:
            longest[:] = max_length
        if self.scheme is not Scheme.none and self.types[-1] == OUTSIDE:
            longest[-1] = 1
        return longest

    @property
    def allowed(self) -> np.ndarray:
        """Which types may be neighbors, (n_types, n_types): runs of one label never meet (they would be one run)."""
        n = len(self.types)
        if self.scheme is Scheme.none and n > 1:
            return ~np.eye(n, dtype=bool)
        return np.ones((n, n), bool)


class LexiconMatcher:
    """Finds the spans of tokens that are, as a whole, an entry of a lexicon. Case does not matter.

    Parameters
    ----------
    lexicons : mapping of name to entries
        An entry is a phrase, split at blanks, or a sequence of tokens.
    """

    def __init__(self, lexicons: Mapping[str, Iterable[str | Sequence[str]]] | None):
        self.names = sorted(lexicons or {})
        self._features: dict[tuple[str, ...], list[int]] = {}
        self._sizes: dict[str, set[int]] = {}
        for number, name in enumerate(self.names):
            for entry in (lexicons or {})[name]:
                words = entry.split() if isinstance(entry, str) else entry
                key = tuple(str(word).casefold() for word in words)
                if key:
                    self._features.setdefault(key, []).append(number)
                    self._sizes.setdefault(key[0], set()).add(len(key))

    def __len__(self) -> int:
        return len(self.names)

    def find(self, sequences: Sequence[Sequence[Any]]) -> SpanMatches:
        """Return the matches in sequences of string tokens, laid one after the other."""
        if not self._features:
            return SpanMatches.none()
        found: list[tuple[int, int, int]] = []
        begin = 0
        for tokens in sequences:
            if not all(isinstance(token, str) for token in tokens):
                raise InputError(
                    "lexicons match plain tokens; give X as sequences of strings, or leave lexicons out."
                )
            words = [token.casefold() for token in tokens]
            for start, word in enumerate(words):
                for size in self._sizes.get(word, ()):
                    for number in self._features.get(tuple(words[start : start + size]), ()):
                        if start + size <= len(words):
                            found.append((begin + start + size - 1, size, number))
            begin += len(words)
        columns = np.array(sorted(set(found)), np.int64).reshape(-1, 3).T
        return SpanMatches(*(np.ascontiguousarray(column) for column in columns))
