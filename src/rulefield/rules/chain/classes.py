"""Token classes: how much of the input one rule can tell apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.tokens import TokenCondition, TokenIn

LAST = "last"
MAX_BITS = 10

Bit = tuple[TokenCondition | str, int]
"""A condition and the place, counted from the token, where it is asked; or ``(LAST, 0)``: no token comes after."""

Meets = Callable[[TokenCondition], np.ndarray]


@dataclass(frozen=True)
class ClassSpace:
    """The classes of one rule: all combinations of its bits, numbered in binary."""

    bits: tuple[Bit, ...] = ()

    def __post_init__(self) -> None:
        if len(self.bits) > MAX_BITS:
            raise RuleError(
                f"one rule may use at most {MAX_BITS} conditions on tokens, and this one has {len(self.bits)}; "
                f"split it, or join conditions with token_in or token_matches."
            )

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return 1 << len(self.bits)

    @property
    def reads_tokens(self) -> bool:
        """Whether classes depend on more than the length of the input."""
        return any(isinstance(condition, TokenCondition) for condition, _ in self.bits)

    def column(self, bit: Bit) -> np.ndarray:
        """Value of a bit in each class, (n_classes,)."""
        return (np.arange(self.n_classes) >> self.bits.index(bit) & 1).astype(bool)

    def classes(self, n: int, meets: Meets) -> np.ndarray:
        """Class of each of n tokens; ``meets`` tells which tokens meet a condition."""
        if not self.bits:
            return _one_class(n)
        classes = np.zeros(n, dtype=np.uint16)
        for i, (condition, offset) in enumerate(self.bits):
            if isinstance(condition, TokenCondition):
                value = meets(condition) if offset == 0 else shifted(meets(condition), offset)
            else:
                value = np.arange(n) == n - 1
            classes |= value.astype(np.uint16) << np.uint16(i) if i else value
        classes.flags.writeable = False
        return classes

    @property
    def is_local(self) -> bool:
        """Whether its conditions look at one token each, so that many inputs can be asked as one."""
        return all(condition.is_local for condition, _ in self.bits if isinstance(condition, TokenCondition))

    def joined_classes(self, owner: np.ndarray, meets: Meets) -> np.ndarray:
        """Class of each token of inputs that were put one behind the other; ``owner`` is the input of each token."""
        classes = np.zeros(len(owner), dtype=np.uint16)
        for i, (condition, offset) in enumerate(self.bits):
            if isinstance(condition, TokenCondition):
                value = shifted(meets(condition), offset)
                if offset:
                    value &= shifted_owner(owner, offset) == owner
            else:
                value = shifted_owner(owner, 1) != owner
            classes |= value.astype(np.uint16) << np.uint16(i)
        return classes


def shifted_owner(owner: np.ndarray, offset: int) -> np.ndarray:
    """Owner of the token ``offset`` places on; -1 beyond the ends."""
    out = np.full(len(owner), -1, dtype=np.int64)
    if offset > 0:
        out[:-offset] = owner[offset:]
    elif offset < 0:
        out[-offset:] = owner[:offset]
    return out


@lru_cache(maxsize=4096)
def _one_class(n: int) -> np.ndarray:
    """Classes of n tokens that a rule does not tell apart, shared by all such rules."""
    classes = np.zeros(n, dtype=np.uint16)
    classes.flags.writeable = False
    return classes


def shifted(values: np.ndarray, offset: int) -> np.ndarray:
    """``values[t + offset]`` at place t; False beyond the ends."""
    out = np.zeros(len(values), dtype=bool)
    if offset > 0:
        out[:-offset] = values[offset:]
    elif offset < 0:
        out[-offset:] = values[:offset]
    else:
        out[:] = values
    return out


class Remembered:
    """Evaluates conditions on some tokens, once for each condition; those on one token once for each different text.

    Rules about cues are many and name one text each: where a text stands is looked up, not searched for.
    """

    def __init__(self, tokens: Sequence[Any]):
        self._tokens = tokens
        self._done: dict[TokenCondition, np.ndarray] = {}

    def __call__(self, condition: TokenCondition) -> np.ndarray:
        """Which tokens meet a condition, (n,); not to be written to."""
        found = self._done.get(condition)
        if found is None:
            found = self._done[condition] = self._evaluated(condition)
        return found

    def _evaluated(self, condition: TokenCondition) -> np.ndarray:
        if self._number is None or not condition.is_local:
            return condition.over(self._tokens)
        texts = self._number
        if not isinstance(condition, TokenIn):
            return condition.over(list(texts))[self._text]
        own = [texts[text] for text in condition.texts if text in texts]
        if not own:
            return self._nowhere
        return self._text == own[0] if len(own) == 1 else np.isin(self._text, own)

    @cached_property
    def _number(self) -> dict[str, int] | None:
        """Numbers of the different texts; None if tokens are more than texts."""
        if not all(type(token) is str for token in self._tokens):
            return None
        return {text: i for i, text in enumerate(dict.fromkeys(self._tokens))}

    @cached_property
    def _text(self) -> np.ndarray:
        """Number of the text of each token."""
        assert self._number is not None
        return np.array([self._number[token] for token in self._tokens], dtype=np.int64)

    @cached_property
    def _nowhere(self) -> np.ndarray:
        return np.zeros(len(self._tokens), dtype=bool)
