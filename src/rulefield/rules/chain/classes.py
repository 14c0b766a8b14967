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

    def classes(self, lengths: Sequence[int], meets: Meets) -> np.ndarray:
        """Class of each token of inputs of these lengths, one behind the other.

        ``meets`` tells which of all these tokens meet a condition.
        """
        if not self.bits:
            return _one_class(sum(lengths))
        owner = np.repeat(np.arange(len(lengths)), np.array(lengths, dtype=np.int64))
        classes = np.zeros(len(owner), dtype=np.uint16)
        for i, (condition, offset) in enumerate(self.bits):
            if isinstance(condition, TokenCondition):
                value = meets(condition)
                if offset:
                    value = shifted(value, offset, False) & (shifted(owner, offset, -1) == owner)
            else:
                value = shifted(owner, 1, -1) != owner
            classes |= value.astype(np.uint16) << np.uint16(i)
        classes.flags.writeable = False
        return classes


@lru_cache(maxsize=4096)
def _one_class(n: int) -> np.ndarray:
    """Classes of n tokens that a rule does not tell apart, shared by all such rules."""
    classes = np.zeros(n, dtype=np.uint16)
    classes.flags.writeable = False
    return classes


def shifted(values: np.ndarray, offset: int, beyond: Any) -> np.ndarray:
    """``values[t + offset]`` at place t; ``beyond`` the ends something else."""
    out = np.full(len(values), beyond, dtype=values.dtype)
    if offset > 0:
        out[:-offset] = values[offset:]
    else:
        out[-offset:] = values[: len(values) + offset]
    return out


class Remembered:
    """Evaluates conditions on the tokens of inputs, once for each condition; those on one token once for each different text.

    Rules about cues are many and name one text each: where a text stands is looked up, not searched for.
    """

    def __init__(self, inputs: Sequence[Sequence[Any]]):
        self._inputs = inputs
        self._tokens = [token for tokens in inputs for token in tokens]
        self._done: dict[TokenCondition, np.ndarray] = {}

    def __call__(self, condition: TokenCondition) -> np.ndarray:
        """Which tokens meet a condition, (n,); not to be written to."""
        found = self._done.get(condition)
        if found is None:
            found = self._done[condition] = self._evaluated(condition)
        return found

    def _evaluated(self, condition: TokenCondition) -> np.ndarray:
        if not condition.is_local:
            return np.concatenate([condition.over(tokens) for tokens in self._inputs])
        if self._number is None:
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


def no_tokens(condition: Any) -> np.ndarray:
    """Refuse a condition on tokens that are not known."""
    raise RuleError(f"{condition!r} asks about tokens, but only the number of tokens is known here.")
