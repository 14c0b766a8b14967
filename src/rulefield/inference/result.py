"""What every engine returns: an answer, and how sure it is."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from rulefield.kernels import certificate

TOLERANCE = certificate.TOLERANCE
SLACK = certificate.SLACK
rounding_error = certificate.rounding_error


class Status(StrEnum):
    """How much an engine knows about its answer."""

    optimal = "optimal"
    bounded = "bounded"
    infeasible = "infeasible"


@dataclass(frozen=True)
class Breach:
    """A rule that a labeling breaks: its number, by how much, and what that cost."""

    rule: int
    amount: float
    cost: float


@dataclass(frozen=True)
class Result:
    """The answer of an engine to one problem."""

    labels: np.ndarray  # int (n,): the labeling; empty where the problem is infeasible
    score: float  # the model's own log-score of the labeling
    objective: float  # ``score`` minus what the broken soft rules cost
    upper_bound: float  # no labeling has a higher objective. ``status`` is ``optimal`` when it meets ``objective``
    status: Status
    engine: str  # the engine that finished the job
    iterations: int = 0  # steps that it took, in its own unit (dual steps, search nodes)
    broken: tuple[Breach, ...] = field(default=())  # rules that the labeling breaks, with amounts and costs
    multipliers: np.ndarray | None = field(default=None, compare=False, repr=False)
    """Duals (counters,) behind the engine's best dual bound: where the search for a proof begins."""

    @property
    def gap(self) -> float:
        """Distance of the objective from its bound; 0 where optimal is proved."""
        return max(0.0, self.upper_bound - self.objective)


INFEASIBLE = Result(np.empty(0, np.int64), -np.inf, -np.inf, -np.inf, Status.infeasible, "")
"""The answer that no labeling is possible, whatever engine says so."""


def judge(objective: float, upper_bound: float, error: float = 0.0) -> Status:
    """Return ``optimal`` where no labeling can be better by more than ``TOLERANCE`` plus a rounding error.

    ``error`` is the ``rounding_error`` of the objective; a minus infinite bound proves that no labeling exists.
    """
    if objective == -np.inf:
        return Status.infeasible if upper_bound == -np.inf else Status.bounded
    return Status.optimal if certificate.proves(upper_bound, objective, error) else Status.bounded
