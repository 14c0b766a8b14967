r"""Wapiti's patterns: ``u:%x[-1,0]``, ``*:%t[0,0,"^\u"]``, ``b:%M[0,1,".?.?$"]``.

A command names a token by its distance (``@`` before it: counted from the first token, or from the last where it is
negative) and a column. ``x`` is the token, ``t`` says whether an expression is found in it, ``m`` is what the expression
finds; a capital letter means the same in lower case. Beyond the ends stand ``_x-1`` to ``_x-4`` and ``_x-#``, and the
same with a plus behind the last token. Expressions are Wapiti's own: characters, ``.``, classes (``\a \d \l \p \s \u
\w``, their complements in capitals), ``*`` (as few as possible), ``?``, ``^`` at the beginning and ``$`` at the end. They
match bytes, as Wapiti does: an accented letter is two or three.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import regex

from rulefield.encode.templates import FARTHEST, MOST_COLUMNS
from rulefield.exceptions import InputError
from rulefield.regexes import SECONDS
from rulefield.scikit import Estimator, TransformerMixin

_COMMAND = re.compile(r'%([xtmXTM])\[(@?)(-?\d{1,9}),(\d{1,9})(?:,"((?:\\.|[^"\\])*)")?\]', re.DOTALL)
_CLASSES = {"a": "A-Za-z", "d": "0-9", "l": "a-z", "p": "!-/:-@\\[-`{-~", "s": "\t-\r ", "u": "A-Z", "w": "0-9A-Za-z"}
_MOST_SHOWN = 4

Piece = Callable[[list[tuple[bytes, ...]], int], bytes]


class WapitiPatterns(TransformerMixin, Estimator):
    r"""Turn tokens with columns into lists of feature strings by Wapiti's patterns.

    Parameters
    ----------
    text : str
        One pattern per line, each begins with ``u``, ``b`` or ``*``; lines that begin with ``#`` are passed over.

    Examples
    --------
    >>> WapitiPatterns('u0:%X[0,0]\nu1:%t[1,0,"^\\d"]').transform([["May", "1843"]])
    [[['u0:may', 'u1:true'], ['u0:1843', 'u1:false']]]
    """

    def __init__(self, text: str):
        self.text = text

    def fit(self, X: Any, y: Any = None) -> "WapitiPatterns":
        """Check the patterns; there is nothing to learn."""
        _compiled(self.text)
        return self

    def transform(self, X: Iterable[Sequence[Any]]) -> list[list[list[str]]]:
        """Features of every token of every sequence."""
        patterns, width = _compiled(self.text)
        return [_features(patterns, _rows(tokens, i, width)) for i, tokens in enumerate(X)]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _features(patterns: Sequence[Sequence[Piece]], rows: list[tuple[bytes, ...]]) -> list[list[str]]:
    return [
        [b"".join(piece(rows, t) for piece in pieces).decode("utf-8", "surrogateescape") for pieces in patterns]
        for t in range(len(rows))
    ]


def _rows(tokens: Sequence[Any], sequence: int, width: int) -> list[tuple[bytes, ...]]:
    rows = [(token,) if isinstance(token, str) else tuple(token) for token in tokens]
    for t, row in enumerate(rows):
        if len(row) < width:
            raise InputError(
                f"a pattern reads column {width - 1}, but token {t} of sequence {sequence} has {len(row)}: {row!r}."
            )
    return [tuple(str(cell).encode("utf-8", "surrogateescape") for cell in row) for row in rows]


@lru_cache(maxsize=64)
def _compiled(text: str) -> tuple[list[list[Piece]], int]:
    """Pieces of each pattern, and the number of columns that they read."""
    patterns, width = [], 1
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        if line[0] not in "ub*":
            raise InputError(f"pattern {number} must begin with u, b or *; got {line!r}.")
        pieces: list[Piece] = []
        at = 0
        for found in _COMMAND.finditer(line):
            pieces.append(_literal(line[at : found.start()], number))
            pieces.append(_command(found, number))
            width, at = max(width, int(found[4]) + 1), found.end()
        patterns.append([*pieces, _literal(line[at:], number)])
    return patterns, width


def _literal(text: str, number: int) -> Piece:
    if "%" in text:
        raise InputError(f"pattern {number} has a command that is not %x, %t or %m with its arguments: {text!r}.")
    value = text.encode("utf-8", "surrogateescape")
    return lambda rows, t: value


def _command(found: "re.Match[str]", number: int) -> Piece:
    kind, absolute, distance, column = found[1], bool(found[2]), int(found[3]), int(found[4])
    if abs(distance) > FARTHEST or column >= MOST_COLUMNS:
        raise InputError(
            f"pattern {number} looks too far: {FARTHEST} tokens and {MOST_COLUMNS} columns are the most."
        )
    if (found[5] is None) != (kind in "xX"):
        raise InputError(f"pattern {number}: %x takes a place alone, %t and %m an expression too; got {found[0]!r}.")
    expression = None if found[5] is None else _expression(found[5], number)

    def value(rows: list[tuple[bytes, ...]], t: int) -> bytes:
        place = t + distance
        if absolute:
            place = distance + len(rows) if distance < 0 else distance - 1
        cell = _cell(rows, place, column)
        if expression is not None:
            match = _search(expression, cell)
            if kind in "tT":
                cell = b"false" if match is None else b"true"
            else:
                cell = b"" if match is None else match
        return cell.lower() if kind.isupper() else cell

    return value


def _cell(rows: list[tuple[bytes, ...]], place: int, column: int) -> bytes:
    if 0 <= place < len(rows):
        return rows[place][column]
    sign, away = ("-", -place) if place < 0 else ("+", place - len(rows) + 1)
    return f"_x{sign}{away if away <= _MOST_SHOWN else '#'}".encode()


def _search(expression: Any, cell: bytes) -> bytes | None:
    try:
        match = expression.search(cell, timeout=SECONDS)
    except TimeoutError:
        raise InputError(
            f"an expression of Wapiti's patterns takes more than {SECONDS:g} s on a token of {len(cell)} bytes."
        ) from None
    return None if match is None else match[0]


def _expression(text: str, number: int) -> Any:
    """Wapiti's expression as one that Python runs on bytes; here a character is a byte."""
    made = "^" if text.startswith("^") else ""
    rest = text[len(made) :].encode("utf-8", "surrogateescape").decode("latin-1")
    while rest:
        if rest == "$":
            made, rest = made + r"\Z", ""
            break
        if rest[0] in "*?":
            raise InputError(
                f"pattern {number}: * and ? follow a character in {text!r}; escape them to mean themselves."
            )
        size = 2 if rest[0] == "\\" and len(rest) > 1 else 1
        one, rest = rest[:size], rest[size:]
        made += _one(one)
        if rest[:1] in ("*", "?"):
            made += "*?" if rest[0] == "*" else "?"
            rest = rest[1:]
    return regex.compile(made.encode("latin-1"), regex.VERSION0 | regex.DOTALL)


def _one(text: str) -> str:
    """One byte, class or ``.`` of an expression."""
    if text == ".":
        return "."
    name = text[1:]
    if len(text) == 2 and name.lower() in _CLASSES:
        return f"[{'^' if name.isupper() else ''}{_CLASSES[name.lower()]}]"
    return re.escape(name or text)
