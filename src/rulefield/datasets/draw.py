"""Small helpers of the generators: random choices, and noise that leaves labels where they are."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
_MARKS = ".,:;()\"'[]"


class Draw:
    """Random choices from one seeded generator."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return bool(self.rng.random() < probability)

    def one(self, items: Sequence[Item], weights: Sequence[float] | None = None) -> Item:
        """Draw an item, all alike or by weight."""
        if weights is None:
            return items[int(self.rng.integers(len(items)))]
        share = np.asarray(weights, dtype=float)
        return items[int(self.rng.choice(len(items), p=share / share.sum()))]

    def between(self, low: int, high: int) -> int:
        """Draw a whole number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))


def typo(word: str, draw: Draw) -> str:
    """Swap, drop or double one letter inside a word of four letters or more."""
    if len(word) < 4 or not word.isalpha():
        return word
    i = draw.between(1, len(word) - 3)
    return draw.one(
        [word[:i] + word[i + 1] + word[i] + word[i + 2 :], word[:i] + word[i + 1 :], word[:i] + word[i] + word[i:]]
    )


def add_noise(tokens: list[str], labels: list[str], noise: float, draw: Draw) -> tuple[list[str], list[str]]:
    """Damage a labeled sequence as scanners and typists do; no label moves, and no segment vanishes.

    Each token loses its punctuation with probability ``noise`` and gets a typo with a tenth of that; a sequence loses
    its capitals with a quarter of it.
    """
    lower = draw.chance(noise / 4)
    made = []
    for token in tokens:
        bare = token.strip(_MARKS)
        if bare and draw.chance(noise):
            token = bare
        if draw.chance(noise / 10):
            token = typo(token, draw)
        made.append(token.lower() if lower else token)
    return made, list(labels)
