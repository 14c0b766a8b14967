"""Token classes: how much of the input one rule can tell apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.tokens import TokenCondition

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


def remembered(tokens: Sequence[Any]) -> Meets:
    """Return a function that evaluates a condition on these tokens, once for each condition."""
    done: dict[TokenCondition, np.ndarray] = {}

    def meets(condition: TokenCondition) -> np.ndarray:
        if condition not in done:
            done[condition] = condition.over(tokens)
        return done[condition]

    return meets
