"""What rules bring on sequences that their weights were not learned from, with standard errors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.encode.spans import SegmentTable
from rulefield.learning.rule_weights.lists import count_segments

NOTICEABLE = 0.01
"""Share of the chain's mistakes that rules must have a chance to fix. On seven sets that were not used to build this, found
rules fixed 0 to 11 % of the wrong tokens."""


@dataclass(frozen=True)
class Gain:
    """Gain of rules over the plain chain in one measure, in points, and its standard error over sequences.

    ``missed`` is what the plain chain lacks of 100 points: all that there is to gain.
    """

    measure: str
    points: float
    error: float
    missed: float = 100.0

    def __str__(self) -> str:
        return f"{self.measure} {self.points:+.2f} ± {self.error:.2f}"


def negligible(found: Sequence[Gain], n_wrong: int) -> bool:
    """Whether rules surely fix next to nothing: less than 1 % of what the chain misses, in every measure.

    Surely means by two standard errors, and an error is no less than what one of the ``n_wrong`` sequences that the chain has
    wrong makes up. So two hundred of them that rules leave as they are prove nothing yet, and fewer never do: there the
    experience that found rules help decides. Where many sequences have answered it has nothing to add; rules then only cost
    time and readers, and move a few labels at random.
    """
    return n_wrong > 0 and all(
        gain.points + 2 * max(gain.error, gain.missed / n_wrong) <= NOTICEABLE * gain.missed for gain in found
    )


def gains(
    gold: Sequence[np.ndarray], plain: Sequence[np.ndarray], ruled: Sequence[np.ndarray], table: SegmentTable
) -> list[Gain]:
    """Gains in token accuracy, whole sequences and span F1; labels as numbers, sequence by sequence.

    Each measure is a ratio of sums over sequences, whose error is that of its linearization (delta method).
    """
    lengths = np.array([len(g) for g in gold], dtype=float)
    right = [np.array([(p == g).sum() for p, g in zip(side, gold)], dtype=float) for side in (plain, ruled)]
    ones = np.ones(len(gold))
    tokens = [(r, lengths) for r in right]
    whole = [((r == lengths).astype(float), ones) for r in right]
    spans = [_span_parts(gold, side, table) for side in (plain, ruled)]
    return [_gain(name, *parts) for name, parts in (("tokens", tokens), ("whole", whole), ("spans", spans))]


def _span_parts(
    gold: Sequence[np.ndarray], found: Sequence[np.ndarray], table: SegmentTable
) -> tuple[np.ndarray, np.ndarray]:
    """Twice the right segments, and the segments found and gold, of each sequence: F1 is the ratio of their sums."""
    counts = count_segments(table, gold, found, np.arange(len(gold)))
    return 2.0 * counts.right, (counts.gold + counts.found).astype(float)


def _gain(name: str, before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> Gain:
    (old, old_each), (new, new_each) = (_ratio(*parts) for parts in (before, after))
    each, n = new_each - old_each, len(old_each)
    error = float(np.sqrt((each**2).sum() * n / max(n - 1, 1)))
    return Gain(name, 100 * (new - old), 100 * error, 100 * (1 - old))


def _ratio(part: np.ndarray, total: np.ndarray) -> tuple[float, np.ndarray]:
    """Ratio of two sums, and what each sequence moves it by."""
    whole = max(float(total.sum()), 1.0)
    ratio = float(part.sum()) / whole
    return ratio, (part - ratio * total) / whole
