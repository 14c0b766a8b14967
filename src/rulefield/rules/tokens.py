"""Conditions on the input: which tokens a rule refers to.

A token is a string, a tuple of columns (its text is the first), a list of feature strings (``"word=the"``) or a
feature dict (``{"word": "the"}``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rulefield.exceptions import InputError, RuleError
from rulefield.regexes import Allowance, limited

TEXT_KEYS = ("word", "token", "text", "form", "w")


class TokenCondition:
    """Something that a token meets or does not meet."""

    parts: "tuple[TokenCondition, ...]" = ()

    @property
    def is_local(self) -> bool:
        """Whether it looks at the token alone, not at its neighbors or its place."""
        return not isinstance(self, Neighbor) and all(part.is_local for part in self.parts)

    def __call__(self, token: Any) -> bool:
        """Whether the token meets the condition, for conditions that look at nothing else."""
        raise RuleError(f"{self!r} depends on more than the token itself; use over(tokens).")

    def over(self, tokens: Sequence[Any]) -> np.ndarray:
        """Which tokens of a sequence meet the condition."""
        return np.array([self(token) for token in tokens], dtype=bool)

    def __bool__(self) -> bool:
        raise RuleError(
            f"{self!r} is a condition on tokens, neither true nor false; use it in at(...) or count(where=...)."
        )


@dataclass(frozen=True)
class TokenIn(TokenCondition):
    """The token's text is one of ``texts``."""

    texts: tuple[str, ...]
    word: str = field(default="token_in", compare=False)

    def __call__(self, token: Any) -> bool:
        """Whether the token's text is one of the texts."""
        return any(text in self.texts for text in texts_of(token))

    def over(self, tokens: Sequence[Any]) -> np.ndarray:
        """Which tokens have one of the texts."""
        texts = frozenset(self.texts)
        found = (token in texts if isinstance(token, str) else self(token) for token in tokens)
        return np.fromiter(found, dtype=bool, count=len(tokens))

    def __repr__(self) -> str:
        return f"{self.word}({', '.join(map(repr, self.texts))})"


@dataclass(frozen=True)
class TokenMatches(TokenCondition):
    """A regular expression is found somewhere in the token's text."""

    regex: str

    def __call__(self, token: Any) -> bool:
        """Whether the regular expression is found."""
        return any(limited(self.regex).search(text) for text in texts_of(token))

    def over(self, tokens: Sequence[Any]) -> np.ndarray:
        """Which tokens match; slow ones share one allowance of time."""
        pattern, allowance = limited(self.regex), Allowance()
        try:
            found = [pattern.known.get(token) for token in tokens]
        except TypeError:  # tokens that are no plain texts
            found = [None] * len(tokens)
        for i, token in enumerate(tokens):
            if found[i] is None:
                found[i] = any(allowance.search(pattern, text) for text in texts_of(token))
        return np.array(found, dtype=bool)

    def __repr__(self) -> str:
        return f"token_matches({self.regex!r})"


@dataclass(frozen=True)
class Feature(TokenCondition):
    """The token has a feature: a true entry of its dict, a string of its list, a value of its columns."""

    name: str

    def __call__(self, token: Any) -> bool:
        """Whether the token has the feature."""
        if isinstance(token, Mapping):
            key, equals, value = self.name.partition("=")
            return bool(token.get(self.name)) or (bool(equals) and key in token and str(token[key]) == value)
        if isinstance(token, list | tuple | set | frozenset):
            return self.name in token
        raise InputError(
            f"{self!r} needs tokens with features (dicts, lists or columns); got {token!r}; "
            f"use token_in(...) or token_matches(...) for plain text."
        )

    def __repr__(self) -> str:
        return f"feature({self.name!r})"


@dataclass(frozen=True)
class TokenAll(TokenCondition):
    """All of these conditions are met."""

    parts: tuple[TokenCondition, ...]

    def over(self, tokens: Sequence[Any]) -> np.ndarray:
        """Which tokens meet all conditions."""
        return np.logical_and.reduce([np.ones(len(tokens), dtype=bool), *(part.over(tokens) for part in self.parts)])

    def __repr__(self) -> str:
        return f"token_all({', '.join(map(repr, self.parts))})" if self.parts else "any_token()"


@dataclass(frozen=True)
class TokenNot(TokenCondition):
    """The condition is not met."""

    parts: tuple[TokenCondition]

    def over(self, tokens: Sequence[Any]) -> np.ndarray:
        """Which tokens do not meet the condition."""
        return ~self.parts[0].over(tokens)

    def __repr__(self) -> str:
        return f"token_not({self.parts[0]!r})"


@dataclass(frozen=True)
class Neighbor(TokenCondition):
    """The token before (after) exists and meets a condition; without a condition: it does not exist."""

    offset: int
    condition: TokenCondition | None

    def over(self, tokens: Sequence[Any]) -> np.ndarray:
        """Which tokens have such a neighbor (are first, are last)."""
        n = len(tokens)
        if self.condition is None:
            return np.arange(n) == (0 if self.offset < 0 else n - 1)
        meets = np.zeros(n + 2, dtype=bool)
        meets[1:-1] = self.condition.over(tokens)
        return meets[1 + self.offset : 1 + self.offset + n]

    def __repr__(self) -> str:
        if self.condition is None:
            return "first_token()" if self.offset < 0 else "last_token()"
        return f"{'previous' if self.offset < 0 else 'next'}_token({self.condition!r})"


def texts_of(token: Any) -> tuple[str, ...]:
    """Texts that a token may be said to have (several only for a list of feature strings)."""
    if isinstance(token, str):
        return (token,)
    if isinstance(token, tuple) and token:
        return (str(token[0]),)
    if isinstance(token, Mapping):
        for key in TEXT_KEYS:
            if key in token:
                return (str(token[key]),)
    elif isinstance(token, list):
        named = [text.partition("=") for text in token if isinstance(text, str)]
        values = tuple(value for key, equals, value in named if equals and key in TEXT_KEYS)
        return values or tuple(text for text in token if isinstance(text, str))
    raise InputError(
        f"the text of a token was asked for, but {token!r} is not a string, columns, or features with one of "
        f"{', '.join(TEXT_KEYS)}; give such a feature, or use feature(...) in the rule."
    )


def have_texts(inputs: Sequence[Sequence[Any]]) -> bool:
    """Whether the tokens of inputs have texts (that of the first token stands for all)."""
    try:
        return all(len(texts_of(token)) > 0 for token in next((tokens for tokens in inputs if len(tokens)), ())[:1])
    except InputError:
        return False


def token_in(*texts: str | Iterable[str]) -> TokenIn:
    """Tokens whose text is one of these: ``token_in(",", ".")``."""
    flat = tuple(t for text in texts for t in ((text,) if isinstance(text, str) else tuple(text)))
    if not flat or not all(isinstance(text, str) for text in flat):
        raise RuleError(f"token_in needs one or more strings; got {texts!r}.")
    return TokenIn(tuple(dict.fromkeys(flat)))


def token_equals(text: str) -> TokenIn:
    """Tokens with this very text: ``token_equals(",")``."""
    return replace(token_in(text), word="token_equals")


def token_matches(regex: str) -> TokenMatches:
    r"""Tokens in whose text a regular expression is found: ``token_matches(r"^\d{4}$")``.

    It is written as for Python's ``re``, and runs under limits (:mod:`rulefield.regexes`).
    """
    try:
        limited(regex)
    except (re.error, TypeError) as error:
        raise RuleError(
            f"token_matches needs a regular expression; {str(regex)[:60]!r} cannot be used: {error}."
        ) from error
    return TokenMatches(regex)


def feature(name: str) -> Feature:
    """Tokens that have a feature: ``feature("is_digit")``, ``feature("pos=NNP")``."""
    if not isinstance(name, str) or not name:
        raise RuleError(f"feature needs the name of a feature; got {name!r}.")
    return Feature(name)


def _condition(condition: Any, name: str) -> TokenCondition:
    if not isinstance(condition, TokenCondition):
        raise RuleError(f"{name} needs conditions on tokens, such as token_in(','); got {condition!r}.")
    return condition


def token_all(*conditions: TokenCondition) -> TokenAll:
    """Tokens that meet all of these conditions."""
    if not conditions:
        raise RuleError("token_all needs at least one condition on tokens.")
    return TokenAll(tuple(_condition(condition, "token_all") for condition in conditions))


def any_token() -> TokenAll:
    """Return the condition that every token meets."""
    return TokenAll(())


def token_not(condition: TokenCondition) -> TokenNot:
    """Tokens that do not meet the condition."""
    return TokenNot((_condition(condition, "token_not"),))


def previous_token(condition: TokenCondition) -> Neighbor:
    """Tokens right after a token that meets the condition."""
    return Neighbor(-1, _condition(condition, "previous_token"))


def next_token(condition: TokenCondition) -> Neighbor:
    """Tokens right before a token that meets the condition."""
    return Neighbor(1, _condition(condition, "next_token"))


def first_token() -> Neighbor:
    """Return the condition that a token is the first of its sequence."""
    return Neighbor(-1, None)


def last_token() -> Neighbor:
    """Return the condition that a token is the last of its sequence."""
    return Neighbor(1, None)
