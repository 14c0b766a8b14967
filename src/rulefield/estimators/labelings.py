"""What ``decode`` returns for one sequence: labels, what they are worth, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.inference.result import Result


@dataclass(frozen=True)
class Broken:
    """A rule that the labelling breaks: by how much, and what that cost (``inf`` under ``relax``)."""

    rule: str
    amount: float
    cost: float


@dataclass(frozen=True)
class Labelling:
    """One decoded sequence.

    Parameters
    ----------
    labels : list
    score : float
        The model's log-score of the labels.
    objective : float
        ``score`` minus what the broken rules cost.
    upper_bound : float
        No labelling has a higher objective.
    status : str
        ``optimal`` (proved), ``bounded`` (the gap says by how much at most a better one may beat it) or
        ``infeasible`` (no labelling obeys the hard rules; ``labels`` is empty).
    engine : str
        The engine that finished the job.
    iterations : int
    broken : tuple of Broken
    """

    labels: list[Any]
    score: float
    objective: float
    upper_bound: float
    status: str
    engine: str
    iterations: int
    broken: tuple[Broken, ...] = ()

    @classmethod
    def of(cls, result: Result, classes: Sequence[Any] | np.ndarray, rules: Sequence[str]) -> "Labelling":
        """Name the labels and the rules of an engine's answer."""
        return cls(
            [classes[k] for k in result.labels.tolist()],
            result.score,
            result.objective,
            result.upper_bound,
            str(result.status),
            result.engine,
            result.iterations,
            tuple(Broken(rules[b.rule], b.amount, b.cost) for b in result.broken),
        )

    @property
    def gap(self) -> float:
        """Distance of the objective from its bound."""
        return max(0.0, self.upper_bound - self.objective)

    def __str__(self) -> str:
        lines = [f"{self.status} (objective {self.objective:.4g}, gap {self.gap:.2g}, {self.engine}): {self.labels}"]
        lines += [f"  breaks {b.rule!r} by {b.amount:g}, cost {b.cost:.4g}" for b in self.broken]
        return "\n".join(lines)
