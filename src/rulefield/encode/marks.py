"""What punctuation says of tokens that still carry it: how neighbors end, whether a quotation or a bracket is open."""

import re
from collections.abc import Sequence

_OPENS = ('"', "``", "''", "“")
_CLOSES = ('"', "''", "”")
_NO_LETTERS = re.compile(r"\W*")
_LETTERS = re.compile(r"\w+")


def mark_features(words: Sequence[str], bare: Sequence[str], shapes: Sequence[str]) -> list[list[str]]:
    """Features of every token about the punctuation around it.

    Parameters
    ----------
    words, bare, shapes : sequences of str
        Tokens; in lower case and without punctuation around them; their short shapes.

    Notes
    -----
    ``end=w|w,|w.`` says how the two tokens before and this one end (``w`` stands for letters and digits); the end of the
    token before is also paired with the word and with the shape of this one. ``quote=`` is before, in or after a
    quotation (none: there are no quotation marks), ``bracket`` stands inside round brackets.
    """
    ends = ["<", "<", *(_LETTERS.sub("w", word[-2:]) for word in words)]
    before = ["<", *bare]
    quotes, brackets = _quotations(words), _brackets(words)
    made = []
    for t in range(len(words)):
        features = [
            f"end={ends[t]}|{ends[t + 1]}|{ends[t + 2]}",
            f"end-1|0={ends[t + 1]}|{bare[t]}",
            f"-1|end={before[t]}|{ends[t + 2]}",
            f"end-1|s={ends[t + 1]}|{shapes[t]}",
            f"quote={quotes[t]}",
        ]
        made.append([*features, "bracket"] if brackets[t] else features)
    return made


def _quotations(words: Sequence[str]) -> list[str]:
    """Where each token stands: before, in or after the first quotations; none where there are none."""
    if not any(mark in word for word in words for mark in _OPENS):
        return ["none"] * len(words)
    found, inside, seen = [], False, False
    for word in words:
        opens = word.startswith(_OPENS)
        inside = inside or opens
        found.append("in" if inside else "after" if seen else "before")
        if inside and _closes(word[1:] if opens else word):
            inside, seen = False, True
    return found


def _closes(word: str) -> bool:
    """Whether a closing mark is among the signs behind the last letter."""
    end = _NO_LETTERS.match(word[::-1])
    return end is not None and any(mark in end[0] for mark in _CLOSES)


def _brackets(words: Sequence[str]) -> list[bool]:
    """Whether each token stands in round brackets, or holds one that opens."""
    found, depth = [], 0
    for word in words:
        depth += word.count("(")
        found.append(depth > 0)
        depth = max(0, depth - word.count(")"))
    return found
