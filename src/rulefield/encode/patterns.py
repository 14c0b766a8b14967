"""Classes of tokens recognized by their characters: numbers, years, initials, addresses of several kinds."""

import re

from rulefield.regexes import limited

MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec"

# A token may be in several classes. Surrounding punctuation is taken off first, except where a class says so. Every
# pattern takes linear time: no two neighbouring repetitions match the same signs.
TOKEN_CLASSES: dict[str, str] = {
    "number": r"\d+([.,]\d+)*",
    "digits": r".*\d.*",
    "year": r"(1[6-9]|20)\d\d[a-z]?",
    "ordinal": r"\d+(st|nd|rd|th)",
    "range": r"\w*\d\s*(-+|–|—|:)\s*\w*\d",
    "roman": r"[IVXLC]{2,}",
    "initial": r"[A-Z]",
    "initials": r"([A-Z]\.[-]?){2,}|[A-Z]\.-?[A-Z]",
    "month": rf"(?i:({MONTHS})[a-z]*)",
    "zip": r"\d{5}(-\d{4})?",
    "two-capitals": r"[A-Z]{2}",
    "all-capitals": r"[A-Z][A-Z&-]+",
    "capitalised": r"[A-Z][a-z'’-]+",
    "camel": r"[A-Z]?[a-z]+[A-Z]\w*",
    "lower": r"[a-z]+",
    "hyphenated": r"\w+(-\w+)+",
    "email": r"[^@\s]+@[^@\s]+\.\w+",
    "url": r"(?i:(https?|ftp)://\S+|www\.\S+)",
    "doi": r"(?i:(doi:)?10\.\d{4,}/\S+)",
    "money": r"[$€£]\d[\d.,]*|\d[\d.,]*[$€£%]",
}
PUNCTUATION: dict[str, str] = {
    "punctuation": r"[^\w\s]+",
    "ends-comma": r".+,",
    "ends-stop": r".+\.",
    "ends-colon": r".+[:;]",
    "opens": r"[\"'“‘(\[{<`].*",
    "closes": r".*[\"'”’)\]}>][.,:;]?",
}
_BEFORE, _BEHIND = re.compile(r"[^\w$€£@]*"), re.compile(r"[^\w%€£$]*")


class TokenClasses:
    """Names of the classes of a token, from tables of regular expressions that must match all of it.

    Parameters
    ----------
    extra : dict of str to str, optional
        Further classes: name and regular expression, matched against the token as it is.
    """

    def __init__(self, extra: dict[str, str] | None = None):
        self.inner = [(name, re.compile(pattern)) for name, pattern in TOKEN_CLASSES.items()]
        self.whole = [(name, re.compile(pattern)) for name, pattern in PUNCTUATION.items()]
        self.extra = [(name, limited(pattern)) for name, pattern in (extra or {}).items()]

    def __call__(self, token: str) -> list[str]:
        """Classes of one token, in the order of the tables."""
        core = without_edges(token, _BEFORE, _BEHIND) or token
        found = [name for name, pattern in self.inner if pattern.fullmatch(core)]
        found += [name for name, pattern in self.whole if pattern.fullmatch(token)]
        return found + [name for name, pattern in self.extra if pattern.fullmatch(token)]


def without_edges(token: str, before: re.Pattern[str], behind: re.Pattern[str]) -> str:
    """Take off what matches ``before`` at the beginning and (read backwards) ``behind`` at the end, in linear time.

    A pattern with ``$`` would be tried at every place of the token.
    """
    rest = token[found.end() :] if (found := before.match(token)) else token
    return rest[: len(rest) - found.end()] if (found := behind.match(rest[::-1])) else rest


_SHAPES = [(re.compile(r"[A-Z]"), "X"), (re.compile(r"[a-z]"), "x"), (re.compile(r"\d"), "9")]
_RUNS = re.compile(r"(.)\1+")


def shape(token: str) -> str:
    """Write capitals as X, small letters as x, digits as 9; other letters keep their case: ``Ab12`` is ``Xx99``."""
    made = token
    for pattern, letter in _SHAPES:
        made = pattern.sub(letter, made)
    return "".join(("X" if c.isupper() else "x") if c.isalpha() and not c.isascii() else c for c in made)


def short_shape(token: str) -> str:
    """Shape with runs shortened to one sign: ``Washington,`` is ``Xx,``."""
    return _RUNS.sub(r"\1", shape(token))
