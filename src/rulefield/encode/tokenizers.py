"""From a text to tokens that know where they stand.

A tokenizer gives (start, end) of every token, in order, so that ``text[start:end]`` is the token; what lies between
tokens is white space and nothing else. Model files keep a tokenizer as plain settings; a callable of the user's own
is kept by name alone and has to be given back when the file is opened, since opening a file runs no code.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from rulefield.exceptions import InputError

Place = tuple[int, int]


class Tokenizer(Protocol):
    """Anything that cuts a text into places; ``to_config`` says what a model file keeps."""

    def __call__(self, text: str) -> list[Place]:
        """Return (start, end) of each token."""

    def to_config(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""


# A word is a run of letters and digits, joined inside by what joins words: O'Brien, state-of-the-art, A&B, john@x.org.
# Colons, slashes and dashes join digits only (12:30 1/2 12\u201315), and a comma only thousands (1,000): people write
# "Rd,Apt 2", "and/or" and "pp. 12-15,2019" without blanks.
# An abbreviation keeps its full stop if a letter, a capital and up to three small letters, or a known short word in any
# case is before it.
JOINERS, DIGIT_JOINERS, DASHES = "['’`.&@_+-]", r"[:/\u2010-\u2013]", r"[\u2010-\u2013-]"
_THOUSANDS = rf",(?=\d{{3}}(?!\d|{DASHES}))"
_JOINED = rf"(?:(?:{JOINERS}|(?<=\d)(?:{DIGIT_JOINERS}(?=\d)|{_THOUSANDS}))(?=\w)\w+)*"
_WORD = rf"\w[\w\u0300-\u036f]*{_JOINED}"
SHORT = "pp vol no ed eds al etc vs cf st av ave rd dr ln pl ct blvd pkwy hwy apt ste mt ft mr mrs jr sr".split()
_INITIALS = r"(?:[^\W\d_]\.){2,}"
_STOPPED = rf"\b(?:[^\W\d_]|[A-Z][a-z]{{0,3}}|(?i:{'|'.join(SHORT)}))\."
_ABBREVIATION = rf"{_INITIALS}|{_STOPPED}(?=\s*\S)"
ABBREVIATED = re.compile(rf"(?:{_INITIALS}|{_STOPPED})$")
"""Finds whether a text ends with an abbreviation and its full stop."""
_DEFAULT = re.compile(rf"{_ABBREVIATION}|{_WORD}|[^\w\s]", re.UNICODE)
_WHITE = re.compile(r"\S+")


class Words:
    """Words, with punctuation apart; numbers (1,000 3.14 12:30 1/2) and abbreviations (St. J. pp. U.S.) stay whole.

    Parameters
    ----------
    lower_split : bool
        Also cut where a small letter is followed by a capital (``mainStreet``), and between digits and letters (``5mg``).
    """

    def __init__(self, *, lower_split: bool = False):
        self.lower_split = lower_split

    def __call__(self, text: str) -> list[Place]:
        """Return (start, end) of each token. Linear in the text."""
        places = [
            match.span() for match in _DEFAULT.finditer(text)
        ]  # it matches all but white space, and none of that
        return [piece for place in places for piece in _pieces(text, place)] if self.lower_split else places

    def to_config(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return {"kind": "words", "lower_split": self.lower_split}


_INNER = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[a-z])(?=[A-Z])")


def _pieces(text: str, place: Place) -> list[Place]:
    start, end = place
    cuts = [start, *(start + m.start() for m in _INNER.finditer(text[start:end])), end]
    return [(a, b) for a, b in zip(cuts, cuts[1:]) if a < b]


class Whitespace:
    """Everything between white space is a token."""

    def __call__(self, text: str) -> list[Place]:
        """Return (start, end) of each token."""
        return [match.span() for match in _WHITE.finditer(text)]

    def to_config(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return {"kind": "whitespace"}


class Matches:
    """Tokens are what a regular expression finds; what it leaves out, but for white space, becomes tokens too.

    Parameters
    ----------
    pattern : str
        Matches must not be empty.
    """

    def __init__(self, pattern: str):
        try:
            self._compiled = re.compile(pattern)
        except re.error as error:
            raise InputError(f"tokenizer has a bad regular expression {pattern!r}: {error}.") from None
        self.pattern = pattern

    def __call__(self, text: str) -> list[Place]:
        """Return (start, end) of each token."""
        return _covering(text, self._compiled)

    def to_config(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return {"kind": "pattern", "pattern": self.pattern}


def _covering(text: str, pattern: re.Pattern[str]) -> list[Place]:
    """Places that a pattern finds, white space around them cut off, and the runs of other characters between them."""
    places: list[Place] = []
    at = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start > at:
            places += [(at + a, at + b) for a, b in (m.span() for m in _WHITE.finditer(text[at:start]))]
        places += [(start + a, start + b) for a, b in (m.span() for m in _WHITE.finditer(text[start:end]))]
        at = max(at, end)
    if at < len(text):
        places += [(at + a, at + b) for a, b in (m.span() for m in _WHITE.finditer(text[at:]))]
    return places


class Given:
    """A function of the user's own: it may return token strings, or (start, end) places.

    Strings are looked up in the text from left to right; a token that is not found there is an error. A model file keeps the
    function's name only.
    """

    def __init__(self, function: Callable[[str], Iterable[Any]]):
        self.function = function

    def __call__(self, text: str) -> list[Place]:
        """Return (start, end) of each token."""
        found = list(self.function(text))
        if found and not isinstance(found[0], str):
            return _checked([(int(a), int(b)) for a, b in found], text)
        return places_of(found, text)

    def to_config(self) -> dict[str, Any]:
        """Say by what name the function is to be given back."""
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return {"kind": "given", "name": f"{getattr(self.function, '__module__', '')}.{name}"}


def places_of(words: Sequence[str], text: str) -> list[Place]:
    """Find tokens in their text, from left to right; one that is not there is an error."""
    places, at = [], 0
    for i, word in enumerate(words):
        start = text.find(word, at)
        if start < 0 or not word:
            raise InputError(
                f"token {i} ({word!r}) does not stand in the text after character {at}; a tokenizer must return pieces of "
                f"the text, or (start, end) places."
            )
        at = start + len(word)
        places.append((start, at))
    return places


def _checked(places: list[Place], text: str) -> list[Place]:
    before = 0
    for i, (start, end) in enumerate(places):
        if not before <= start < end <= len(text):
            raise InputError(f"token {i} at ({start}, {end}) overlaps the one before it or leaves the text.")
        before = end
    return places


_KINDS: dict[str, Callable[..., Tokenizer]] = {"words": Words, "whitespace": Whitespace, "pattern": Matches}


def as_tokenizer(tokenizer: Any) -> Tokenizer:
    """Read what a user may give: "words" (or None), "fine", "whitespace", a pattern, a function, or one of these classes."""
    if tokenizer is None or tokenizer in ("words", "auto"):
        return Words()
    if tokenizer == "fine":
        return Words(lower_split=True)
    if tokenizer == "whitespace":
        return Whitespace()
    if isinstance(tokenizer, str):
        return Matches(tokenizer)
    if hasattr(tokenizer, "to_config"):
        return tokenizer
    if callable(tokenizer):
        return Given(tokenizer)
    raise InputError(
        f"tokenizer must be 'words', 'fine', 'whitespace', a regular expression or a function; got {tokenizer!r}."
    )


def from_config(config: Mapping[str, Any], given: Any = None) -> Tokenizer:
    """Undo ``to_config``; ``given`` is the function where the file names one."""
    if given is not None:
        return as_tokenizer(given)
    settings = dict(config)
    kind = settings.pop("kind", None)
    if kind == "given":
        raise InputError(
            f"this model was trained with the tokenizer {settings.get('name')!r}, which a file cannot hold: "
            f"open it with rulefield.load(path, tokenizer=...)."
        )
    if kind not in _KINDS:
        raise InputError(f"unknown tokenizer {kind!r}; known are {', '.join(_KINDS)}.")
    return _KINDS[kind](**settings)
