"""What every engine returns: an answer, and how sure it is."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

TOLERANCE = 1e-6


class Status(StrEnum):
    """How much an engine knows about its answer."""

    optimal = "optimal"
    bounded = "bounded"
    infeasible = "infeasible"


@dataclass(frozen=True)
class BrokenRule:
    """A rule that a labelling breaks: its number, by how much, and what that cost."""

    rule: int
    amount: float
    cost: float


@dataclass(frozen=True)
class Result:
    """The answer of an engine to one problem.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
        The labelling; empty where the problem is infeasible.
    score : float
        The model's own log-score of the labelling.
    objective : float
        ``score`` minus what the broken soft rules cost.
    upper_bound : float
        No labelling has a higher objective. ``status`` is ``optimal`` when it meets ``objective``.
    status : Status
    engine : str
        The engine that finished the job.
    iterations : int
        Steps that it took, in its own unit (dual steps, search nodes).
    broken : tuple of BrokenRule
        Rules that the labelling breaks, with amounts and costs.
    """

    labels: np.ndarray
    score: float
    objective: float
    upper_bound: float
    status: Status
    engine: str
    iterations: int = 0
    broken: tuple[BrokenRule, ...] = field(default=())

    @property
    def gap(self) -> float:
        """Distance of the objective from its bound; 0 where optimal is proved."""
        return max(0.0, self.upper_bound - self.objective)


def judge(objective: float, upper_bound: float) -> Status:
    """Return ``optimal`` where the bound meets the objective within the library's tolerance."""
    if objective == -np.inf:
        return Status.infeasible if upper_bound == -np.inf else Status.bounded
    close = upper_bound - objective <= TOLERANCE * max(1.0, abs(objective))
    return Status.optimal if close else Status.bounded
