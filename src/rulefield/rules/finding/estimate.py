"""Ranges for expectations, estimated on a corpus where all tasks are annotated."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.expectations import Expectation, Share, share
from rulefield.rules.labels import LabelTable
from rulefield.rules.patterns import Pattern, matches

Rows = Sequence[Mapping[str, Sequence[str]]]


def expectations_from(
    y: Rows,
    shares: Sequence[Share] | None = None,
    *,
    width: float = 0.05,
    sample: int | None = None,
    errors: float = 1.0,
    least: float = 0.01,
    most: int = 20,
) -> list[Expectation]:
    """Estimate expectations from another corpus.

    Parameters
    ----------
    y : list of dict of task to labels
        All tasks annotated at every token.
    shares : list of shares, optional
        What to estimate; by default the ``most`` largest shares of joint labels and of joint steps, down to
        ``least``.
    width : float
        Each range is the estimate times 1 - width to 1 + width.
    sample : int, optional
        Tokens of the corpus, or the batch, that will be trained on: each range then is the estimate plus and minus
        ``errors`` standard errors of a share in a sample of that size, instead of ``width``.
    """
    if not len(y):
        raise RuleError("expectations_from needs at least one annotated sequence.")
    labels = Counter(joint for row in y for joint in zip(*row.values()))
    steps = Counter(step for row in y for step in pairwise(zip(*row.values())))
    tasks = list(y[0])
    expectations = []
    for wanted in _largest(tasks, labels, steps, least, most) if shares is None else shares:
        if wanted.given is not None:
            raise RuleError(f"{wanted!r} asks for tokens with a condition, but only labels are given here.")
        value = _estimate(wanted, tasks, labels, steps)
        margin = width * value if sample is None else errors * _standard_error(value, sample)
        low, high = value - margin, value + margin
        expectations.append(wanted.between(low, high) if low > 0 else wanted.at_most(high))
    return expectations


def _standard_error(value: float, sample: int) -> float:
    """Return that of a share counted in ``sample`` tokens; what was never seen is taken as seen once."""
    return float(np.sqrt(max(value, 1 / sample) * (1 - value) / sample))


def _largest(tasks: list[str], labels: Counter, steps: Counter, least: float, most: int) -> list[Share]:
    tokens, pairs = labels.total(), steps.total()
    nodes = [(n / tokens, share(**dict(zip(tasks, joint)))) for joint, n in labels.items()]
    moves = [(n / pairs, share(after=dict(zip(tasks, a)), **dict(zip(tasks, b)))) for (a, b), n in steps.items()]
    found = sorted(nodes + moves, key=lambda pair: -pair[0])
    return [quantity for value, quantity in found if value >= least][:most]


def _estimate(wanted: Share, tasks: list[str], labels: Counter, steps: Counter) -> float:
    def fits(joint: tuple[str, ...], patterns: Any) -> bool:
        by_task = dict(zip(tasks, joint))
        return all(_matches(pattern, by_task[task or tasks[0]]) for task, pattern in patterns)

    if wanted.after is None:
        return sum(n for joint, n in labels.items() if fits(joint, wanted.here)) / max(labels.total(), 1)
    hits = sum(n for (a, b), n in steps.items() if fits(a, wanted.after) and fits(b, wanted.here))
    return hits / max(steps.total(), 1)


def _matches(pattern: Pattern, label: str) -> bool:
    return bool(matches(pattern, LabelTable([label], None))[0])
