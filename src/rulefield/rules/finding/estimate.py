"""Ranges for expectations, estimated on a corpus where all tasks are annotated."""

from collections import Counter
from collections.abc import Mapping, Sequence
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
    scheme: str | None = None,
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
    scheme : str, optional
        Scheme of the labels, if the shares name segment types instead of labels.
    """
    if not len(y):
        raise RuleError("expectations_from needs at least one annotated sequence.")
    labels = joint_counts(y)
    steps = step_counts(y)
    if shares is None:
        shares = _largest(y, labels, steps, least, most)
    made = []
    for wanted in shares:
        if wanted.given is not None:
            raise RuleError(f"{wanted!r} asks for tokens with a condition, but only labels are given here.")
        value = _estimate(wanted, list(y[0]), labels, steps, scheme)
        margin = width * value if sample is None else errors * _standard_error(value, sample)
        low, high = value - margin, value + margin
        made.append(wanted.between(low, high) if low > 0 else wanted.at_most(high))
    return made


def _standard_error(value: float, sample: int) -> float:
    """Return that of a share counted in ``sample`` tokens; what was never seen is taken as seen once."""
    return float(np.sqrt(max(value, 1 / sample) * (1 - value) / sample))


def joint_counts(y: Rows) -> Counter:
    """How often each joint label (one per task) occurs."""
    return Counter(joint for row in y for joint in zip(*row.values()))


def step_counts(y: Rows) -> Counter:
    """How often each pair of neighboring joint labels occurs."""
    found: Counter = Counter()
    for row in y:
        joint = list(zip(*row.values()))
        found.update(zip(joint[:-1], joint[1:]))
    return found


def _largest(y: Rows, labels: Counter, steps: Counter, least: float, most: int) -> list[Share]:
    tasks = list(y[0])
    tokens, pairs = sum(labels.values()), sum(steps.values())
    nodes = [(n / tokens, share(**dict(zip(tasks, joint)))) for joint, n in labels.items()]
    moves = [(n / pairs, share(after=dict(zip(tasks, a)), **dict(zip(tasks, b)))) for (a, b), n in steps.items()]
    found = sorted(nodes + moves, key=lambda pair: -pair[0])
    return [quantity for value, quantity in found if value >= least][:most]


def _estimate(wanted: Share, tasks: list[str], labels: Counter, steps: Counter, scheme: str | None) -> float:
    def fits(joint: tuple[str, ...], patterns: Any) -> bool:
        own = dict(zip(tasks, joint))
        return all(
            _matches(pattern, own[task if task is not None else tasks[0]], scheme) for task, pattern in patterns
        )

    if wanted.after is None:
        return sum(n for joint, n in labels.items() if fits(joint, wanted.here)) / max(sum(labels.values()), 1)
    hits = sum(n for (a, b), n in steps.items() if fits(a, wanted.after) and fits(b, wanted.here))
    return hits / max(sum(steps.values()), 1)


def _matches(pattern: Pattern, label: str, scheme: str | None) -> bool:
    return bool(matches(pattern, LabelTable([label], scheme))[0])
