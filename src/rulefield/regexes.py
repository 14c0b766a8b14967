r"""Regular expressions that others write, run under limits: no text and no pattern makes a search hang or fill memory.

Python's ``re`` tries alternatives one after the other and may need time exponential in the text ((a|a)*$ on forty
letters and a full stop). Patterns are therefore checked by ``re`` (its syntax is what users know) and run by the
``regex`` package, which means the same and stops when its time is over. A linear-time engine (RE2) was weighed and
not taken: its ``\w``, ``\d`` and ``\b`` know ASCII only, and it has no look-ahead.
"""

import re
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]  # the only way to see a pattern as a tree
from re import _parser as parser  # type: ignore[attr-defined]
from time import thread_time
from typing import Any

from rulefield.exceptions import InputError

MOST_CHARACTERS = 10_000
"""Longest pattern."""
MOST_COPIES = 10_000
"""Largest pattern when its counted repetitions are written out: ``(ab{3}){5}`` has 20 parts."""
SECONDS = 1.0
"""Longest search in one text, and in all slow texts of one sequence together."""
_SLOW = 1e-3
_REMEMBERED, _SHORT = 10_000, 64  # short texts whose answers a pattern remembers: words come again and again
_FUZZY = re.compile(r"(?<!\\)\{[^{}]*[deist][^{}]*\}")


class LimitedPattern:
    """A compiled pattern; searches raise :class:`InputError` where they take too long."""

    def __init__(self, text: str):
        import regex  # takes as long as opening a model, and few models have patterns of their users'

        self.text = text
        self._pattern = regex.compile(text, regex.VERSION0)
        self.known: dict[str, bool] = {}

    def search(self, text: str, seconds: float = SECONDS) -> bool:
        """Whether the pattern is found somewhere in the text."""
        return self._run(self._pattern.search, text, seconds)

    def fullmatch(self, text: str, seconds: float = SECONDS) -> bool:
        """Whether the pattern matches the whole text."""
        return self._run(self._pattern.fullmatch, text, seconds)

    def _run(self, find: Any, text: str, seconds: float) -> bool:
        try:
            return find(text, timeout=max(seconds, _SLOW)) is not None
        except TimeoutError:
            shown = f"{text[:30]!r}{'...' if len(text) > 30 else ''}"
            raise InputError(
                f"the regular expression {self.text!r} takes more than {SECONDS:g} s on {shown} ({len(text)} characters); "
                "write it without alternatives and repetitions that can match the same text in many ways."
            ) from None


class Allowance:
    """Time for the slow texts of one sequence; texts that take less than a millisecond cost nothing."""

    def __init__(self, seconds: float = SECONDS):
        self.left = seconds

    def search(self, pattern: LimitedPattern, text: str) -> bool:
        """Whether the pattern is found in the text, in the time that is left."""
        known = pattern.known.get(text)
        if known is not None:
            return known
        begun = thread_time()
        found = pattern.search(text, self.left)
        spent = thread_time() - begun
        if spent > _SLOW:
            self.left -= spent
        if len(text) <= _SHORT and len(pattern.known) < _REMEMBERED:
            pattern.known[text] = found
        return found


@lru_cache(maxsize=1024)
def limited(text: str) -> LimitedPattern:
    """Check and compile a pattern.

    Raises
    ------
    re.error
        It is no regular expression, or larger than the limits; the message is a sentence without a full stop.
    """
    if len(text) > MOST_CHARACTERS:
        raise re.error(f"it has {len(text)} characters, {MOST_CHARACTERS} are the most")
    try:
        copies = _copies(parser.parse(text))
    except (RecursionError, OverflowError, MemoryError):
        raise re.error("it is nested too deeply, or repeats too often") from None
    if copies > MOST_COPIES:
        raise re.error(f"its repetitions, written out, have {copies} parts, {MOST_COPIES} are the most")
    if _FUZZY.search(text):
        raise re.error(r"a brace that is meant as itself is written \{")
    import regex

    try:
        return LimitedPattern(text)
    except regex.error as error:
        raise re.error(str(error)) from None


def _copies(tree: Any) -> int:
    """Count the parts of a parsed pattern with its counted repetitions written out."""
    return sum(_copies_of(code, argument) for code, argument in tree)


def _copies_of(code: Any, argument: Any) -> int:
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, inner = argument
        return max(1, least if most is codes.MAXREPEAT else most) * _copies(inner)
    if code is codes.BRANCH:
        return sum(map(_copies, argument[1]))
    if code is codes.GROUPREF_EXISTS:
        return sum(_copies(inner) for inner in argument[1:] if inner is not None)
    if code in (codes.SUBPATTERN, codes.ASSERT, codes.ASSERT_NOT):
        return _copies(argument[-1])
    if code is codes.ATOMIC_GROUP:
        return _copies(argument)
    return 1
