"""Good features for plain tokens, so that nobody needs to write a feature function to begin."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rulefield.encode.marks import mark_features
from rulefield.encode.patterns import PHRASES, TokenClasses, shape, short_shape, without_edges
from rulefield.exceptions import InputError
from rulefield.scikit import Estimator, TransformerMixin

_CACHE_LIMIT = 10_000
WIDEST = 100
"""Most neighbors on each side, and longest affix: each costs a feature per token."""


Kind = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Short shape, classes and further columns of a token."""


@dataclass(kw_only=True, eq=False, repr=False)
class TokenFeatures(TransformerMixin, Estimator):
    """Turn tokens into lists of feature strings.

    A token is a string, or a tuple of strings, the word first and then further columns (part of speech, ...). The
    defaults suit names, addresses and citations.

    Parameters
    ----------
    word, lower : bool
        The token, and the token in lower case without punctuation around it.
    shapes : bool
        ``Xxxx9`` and ``Xx9`` for ``Paul7``; with a window, also the short shapes of a token and its neighbors as pairs
        and as three.
    affixes : int
        Longest prefix and suffix, in letters; 0 for none.
    window : int
        How many tokens on each side are described too (by word, short shape, classes, lexicons, columns).
    bigrams : bool
        Pairs of neighboring words. They help where there are many thousands of sequences; among hundreds, most pairs
        are seen once.
    position : bool
        First and last tokens, and the third of the sequence that a token lies in.
    classes : bool or dict of str to str
        Classes recognized by regular expressions (number, year, initial, email, street, state, ...) and, with a window, by
        pairs of words (``Rhode Island``); a dict adds classes of your own.
    lexicons : dict of str to collection of str, optional
        Word lists. An entry may have several words; case does not matter, nor does punctuation around a token.
        :func:`rulefield.encode.cues.citation_cues` has some for citations.
    marks : bool
        How the tokens before and this one end, and whether a quotation or a bracket is open: for tokens that still
        carry their punctuation, as in citations.

    Notes
    -----
    What a token says about itself is worked out once for each distinct token. Feature names are
    ``0:w=Smith`` (offset, kind, value).

    Examples
    --------
    >>> TokenFeatures(window=0, affixes=0, shapes=False, position=False, classes=False).transform([["Ada"]])
    [[['bias', '0:w=Ada', '0:l=ada']]]
    """

    word: bool = True
    lower: bool = True
    shapes: bool = True
    affixes: int = 4
    window: int = 2
    bigrams: bool = False
    position: bool = True
    classes: bool | Mapping[str, str] = True
    lexicons: Mapping[str, Iterable[str]] | None = None
    marks: bool = False

    def fit(self, X: Any, y: Any = None) -> "TokenFeatures":
        """Check the parameters; there is nothing to learn."""
        self._current()
        return self

    def transform(self, X: Iterable[Sequence[Any]]) -> list[list[list[str]]]:
        """Features of every token of every sequence."""
        describe = self._current()
        return [describe(tokens, i) for i, tokens in enumerate(X)]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_made"}

    def _current(self) -> "Describer":
        """Give the describer of the present parameters; it is made anew when one was replaced."""
        values = [value for name, value in vars(self).items() if name != "_made"]
        made = vars(self).get("_made")
        if made is None or any(a is not b for a, b in zip(made[0], values)):
            self._made = made = (values, Describer(self))
        return made[1]


class Describer:
    """What the parameters ask for, ready to run; remembers what each distinct token says about itself."""

    def __init__(self, options: TokenFeatures):
        self.options = options
        for name, value in (("window", options.window), ("affixes", options.affixes)):
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= WIDEST:
                raise InputError(f"{name} must be a whole number >= 0; got {value!r} ({WIDEST} is the most).")
        for name in ("word", "lower", "shapes", "bigrams", "position", "marks"):
            if not isinstance(getattr(options, name), bool | np.bool_):
                raise InputError(f"{name} must be True or False; got {getattr(options, name)!r:.60}.")
        extra = dict(options.classes) if isinstance(options.classes, Mapping) else None
        try:
            self.classes = TokenClasses(extra) if options.classes else None
        except re.error as error:
            raise InputError(f"a token class has a bad regular expression: {error}.") from None
        self.lexicon = _Lexicons(options.lexicons) if options.lexicons else None
        offsets = range(-options.window, options.window + 1)
        self.memory: dict[int, dict[Any, list[str]]] = {d: {} for d in offsets}

    def __call__(self, tokens: Sequence[Any], sequence: int = 0) -> list[list[str]]:
        """Give the features of every token of a sequence."""
        words = [word_of(token, sequence, t) for t, token in enumerate(tokens)]
        n, width = len(words), self.options.window
        marks = self.lexicon(words) if self.lexicon else None
        made: list[list[str]] = []
        for t in range(n):
            features = ["bias"]
            for d in range(-width, width + 1):
                if 0 <= t + d < n:
                    features += self.about(tokens[t + d], words[t + d], d)
                    if marks and marks[t + d]:
                        features += [f"{d}:lex={name}" for name in marks[t + d]]
                else:
                    features.append(f"{d}:outside")
            made.append(features)
        if self.options.window > 0:
            self.add_neighbors(words, made)
        if self.options.position:
            _add_positions(made)
        if self.options.marks:
            about = mark_features(words, [bare(word) for word in words], [short_shape(word) for word in words])
            made = [features + extra for features, extra in zip(made, about)]
        return made

    def about(self, token: Any, word: str, d: int) -> list[str]:
        """Give what a token says at offset d; worked out once."""
        memory = self.memory[d]
        found = memory.get(token)
        if found is None:
            if len(memory) > _CACHE_LIMIT:
                memory.clear()
            found = memory[token] = self.center(token, word) if d == 0 else self.around(token, word, d)
        return found

    def center(self, token: Any, word: str, kind: Kind | None = None) -> list[str]:
        """Give what a token says of itself; ``kind`` where it is known already."""
        options, low, (short, classes, columns) = self.options, bare(word), kind or self.kind(token, word)
        found = [f"0:w={word}"] if options.word else []
        if options.lower:
            found.append(f"0:l={low}")
        if options.shapes:
            found += [f"0:s={short}", f"0:S={shape(word)}"]
        lengths = range(1, min(options.affixes, len(low)) + 1)
        found += [f"0:p={low[:k]}" for k in lengths] + [f"0:x={low[-k:]}" for k in lengths]
        return found + self.kind_at(("", classes, columns), 0)

    def around(self, token: Any, word: str, d: int) -> list[str]:
        """Give what a token says as a neighbor at offset d."""
        prefix = self.word_prefix(d)
        return ([prefix + bare(word)] if prefix else []) + self.kind_at(self.kind(token, word), d)

    def word_prefix(self, d: int) -> str:
        """Give how the feature of the word at offset d begins; nothing where words are no features."""
        return f"{d}:l=" if self.options.lower else ""

    def kind(self, token: Any, word: str) -> Kind:
        """Give what many tokens have in common: short shape, classes, further columns."""
        columns = () if isinstance(token, str) else token[1:]
        return short_shape(word), tuple(self.classes(word)) if self.classes is not None else (), columns

    def kind_at(self, kind: Kind, d: int) -> list[str]:
        """Give what a kind at offset d says; no shape where that was told before."""
        short, classes, columns = kind
        found = [f"{d}:s={short}"] if self.options.shapes and d != 0 else []
        found += [f"{d}:{name}" for name in classes]
        return found + [f"{d}:c{j}={value}" for j, value in enumerate(columns, 1)]

    def add_neighbors(self, words: Sequence[str], made: list[list[str]]) -> None:
        """Add pairs of words, the short shapes of neighbors as pairs and as three, and phrases, to all tokens."""
        if self.options.bigrams:
            low = ["<", *map(bare, words), ">"]
            for t, features in enumerate(made):
                features += self.word_pairs(*low[t : t + 3])
        if self.options.shapes:
            shapes = ["<", *map(short_shape, words), ">"]
            for t, features in enumerate(made):
                features += self.shape_pairs(*shapes[t : t + 3])
        if self.options.classes:
            masks = [phrase_masks(bare(word)) for word in words]
            pairs = [0, *(a.begin & b.end for a, b in zip(masks, masks[1:])), 0]
            for features, before, behind in zip(made, pairs, pairs[1:]):
                features += phrase_features(before, behind)

    @staticmethod
    def word_pairs(a: str, b: str, c: str) -> list[str]:
        """Give what three neighboring words say together."""
        return [f"-1|0={a}|{b}", f"0|1={b}|{c}"]

    @staticmethod
    def shape_pairs(a: str, b: str, c: str) -> list[str]:
        """Give what three neighboring short shapes say together."""
        return [f"-1|0:s={a}|{b}", f"0|1:s={b}|{c}", f"-1|0|1:s={a}|{b}|{c}"]


def _add_positions(made: list[list[str]]) -> None:
    n = len(made)
    for t, features in enumerate(made):
        features += position_features(3 * t // n, min(t, 2), min(n - 1 - t, 2))


def position_features(third: int, before: int, behind: int) -> list[str]:
    """Give what the place of a token says: ``before`` and ``behind`` are tokens on either side, 2 for two or more."""
    found = [f"third={third}"]
    if before < 2:
        found.append(f"from-start={before}")
    if behind < 2:
        found.append(f"from-end={behind}")
    return found


class PhraseMask(NamedTuple):
    """The phrases that a word begins and ends, a bit for each."""

    begin: int
    end: int


def phrase_masks(low: str) -> PhraseMask:
    """Return the phrases of :data:`~rulefield.encode.patterns.PHRASES` that a word, in lower case, is in."""
    return _PHRASE_MASKS.get(low, _NO_PHRASE)


def _masks_by_word() -> dict[str, PhraseMask]:
    found: dict[str, PhraseMask] = {}
    for k, (phrase, _) in enumerate(PHRASES):
        for word, begins in zip(phrase.split(), (True, False)):
            begin, end = found.get(word, _NO_PHRASE)
            found[word] = PhraseMask(begin | begins << k, end | (not begins) << k)
    return found


_NO_PHRASE = PhraseMask(0, 0)
_PHRASE_MASKS = _masks_by_word()


def phrase_features(before: int, behind: int) -> list[str]:
    """Give what the phrases say that a token ends (a bit for each) and begins: the first word is in their class."""
    ended, begun = ([kind for k, (_, kind) in enumerate(PHRASES) if mask >> k & 1] for mask in (before, behind))
    return [f"-1|0:{kind}" for kind in ended] + [f"{where}:{kind}" for kind in begun for where in ("0", "0|1")]


def word_of(token: Any, sequence: int, t: int) -> str:
    """Give the word of a token; refuse what is none."""
    if isinstance(token, str):
        return token
    if isinstance(token, tuple) and token and all(isinstance(part, str) for part in token):
        return token[0]
    raise InputError(
        f"token {t} of sequence {sequence} must be a string, or a tuple of strings, the word first; got {token!r}."
    )


_NO_LETTERS = re.compile(r"\W+")


def bare(word: str) -> str:
    """Lower case, without punctuation around it (unless there is nothing else)."""
    return word.lower() if word.isalnum() else _without_punctuation(word)


@lru_cache(maxsize=_CACHE_LIMIT)
def _without_punctuation(word: str) -> str:
    return without_edges(word, _NO_LETTERS, _NO_LETTERS).lower() or word.lower()


class _Lexicons:
    """Which word lists a token lies in, entries of several words included (the longest entry wins)."""

    def __init__(self, lexicons: Mapping[str, Iterable[str]]):
        self.entries: dict[str, set[tuple[str, ...]]] = {}
        self.longest: dict[str, dict[str, int]] = {}
        for name, phrases in lexicons.items():
            if isinstance(phrases, str):
                raise InputError(f"lexicon {name!r} must be a collection of strings; got the string {phrases!r}.")
            entries = {tuple(map(bare, phrase.split())) for phrase in phrases} - {()}
            self.entries[name] = entries
            self.longest[name] = {}
            for entry in entries:
                self.longest[name][entry[0]] = max(len(entry), self.longest[name].get(entry[0], 0))

    def __call__(self, words: Sequence[str]) -> list[list[str]]:
        low = [bare(word) for word in words]
        marks: list[list[str]] = [[] for _ in words]
        for name, entries in self.entries.items():
            longest, t = self.longest[name], 0
            while t < len(low):
                sizes = range(longest.get(low[t], 0), 0, -1)
                size = next((k for k in sizes if tuple(low[t : t + k]) in entries), 0)
                for i in range(size):
                    marks[t + i].append(name if i == 0 else f"{name}+")
                t += size or 1
        return marks
