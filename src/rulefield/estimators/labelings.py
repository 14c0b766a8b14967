"""What ``decode`` returns, for every family: labels, what they are worth, and how sure that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.inference.result import Result

if TYPE_CHECKING:
    from rulefield.inference.proof.proof import Proof


@dataclass(frozen=True)
class BrokenRule:
    """A rule that a labeling breaks.

    Parameters
    ----------
    rule : str
        Its name, or its text where it has none.
    amount : float
        By how much it is broken.
    cost : float
        What that took from the objective; ``inf`` for a hard rule that ``on_infeasible="relax"`` broke.
    """

    rule: str
    amount: float
    cost: float

    def __str__(self) -> str:
        return f"breaks {self.rule!r} by {self.amount:g}, cost {self.cost:.4g}"


def broken_rules(result: Result, rules: Sequence[str]) -> tuple[BrokenRule, ...]:
    """Return the rules by name that an engine's answer breaks."""
    return tuple(BrokenRule(rules[b.rule], float(b.amount), float(b.cost)) for b in result.broken)


@dataclass(frozen=True)
class Labeling:
    """The best labeling that an engine found for one sequence or graph, and how sure it is.

    Parameters
    ----------
    labels : list, or dict of list
        One label per token; by task for joint models, by type for graphs with named types.
    score : float
        The model's log-score of the labels.
    objective : float
        ``score`` minus what the broken soft rules cost.
    upper_bound : float
        No labeling has a higher objective.
    status : str
        ``optimal`` (proved), ``bounded`` (the gap says by how much at most a better one may beat it) or
        ``infeasible`` (no labeling obeys the hard rules).
    engine : str
        The engine that finished the job.
    broken : tuple of BrokenRule
    probability : float, optional
        Of the labels under the model and its rules, if it was asked for.
    probability_error : float, optional
        The exact probability differs by at most this (0: exact); a standard error if ``probability_reason`` says that
        it was estimated.
    probability_reason : str
        How the probability was found.
    cost, cost_lower_bound : float, optional
        Two-stage decoding only: total cost of the broken rules, and its bound.
    prover : callable, optional
        Makes the proof of the answer, where its family can give one; nothing is made before it is asked for.
    checked : bool
        Whether the checker accepted the proof.
    """

    labels: Any
    score: float
    objective: float
    upper_bound: float
    status: str
    engine: str
    broken: tuple[BrokenRule, ...] = ()
    probability: float | None = None
    probability_error: float | None = None
    probability_reason: str = ""
    cost: float | None = None
    cost_lower_bound: float | None = None
    prover: "Callable[[], Proof | None] | None" = field(default=None, repr=False, compare=False)
    checked: bool = field(default=False, repr=False, compare=False)

    @classmethod
    def of(cls, result: Result, classes: Sequence[Any] | np.ndarray, rules: Sequence[str]) -> "Labeling":
        """Name the labels (by number among ``classes``) and the rules of an engine's answer."""
        return cls.named(result, [classes[k] for k in result.labels.tolist()], rules)

    @classmethod
    def named(
        cls,
        result: Result,
        labels: Any,
        rules: Sequence[str],
        prover: "Callable[[], Proof | None] | None" = None,
        probability: float | None = None,
        probability_error: float | None = None,
        probability_reason: str = "",
    ) -> "Labeling":
        """Return an engine's answer with ``labels`` as users see them."""
        return cls(
            labels,
            float(result.score),
            float(result.objective),
            float(result.upper_bound),
            str(result.status),
            result.engine,
            broken_rules(result, rules),
            probability,
            probability_error,
            probability_reason,
            cost=getattr(result, "cost", None),
            cost_lower_bound=getattr(result, "cost_lower_bound", None),
            prover=prover,
        )

    @property
    def gap(self) -> float:
        """Distance of the objective from its bound."""
        return max(0.0, self.upper_bound - self.objective)

    def proof(self) -> "Proof | None":
        """Return a proof of the bound that others can check, made when it is first asked for; None if none was found."""
        return self._proof

    @property
    def proof_kind(self) -> str:
        """Say what stands behind the bound.

        ``checked``: a proof that the checker accepted; ``available``: a proof, not checked; ``solver``: the engine's word.
        """
        if self.checked:
            return "checked"
        return "solver" if self._proof is None else "available"

    def verified(self) -> "Labeling":
        """Return the same answer after the checker accepted its proof; unchanged if there is none.

        Raises
        ------
        InternalError
            The checker refuses the proof: the answer may be wrong.
        """
        if self._proof is None:
            return self
        self._proof.check()
        found = replace(self, checked=True)
        vars(found)["_proof"] = self._proof
        return found

    @cached_property
    def _proof(self) -> "Proof | None":
        return None if self.prover is None else self.prover()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"prover": None, "_proof": vars(self).get("_proof")}

    def _repr_html_(self) -> str:
        from rulefield.report.notebook import labeling_html

        return labeling_html(self)

    def __str__(self) -> str:
        more = "" if self.probability is None else f", probability {self.probability:.3g}"
        head = (
            f"{self.status} (objective {self.objective:.4g}, gap {self.gap:.2g}{more}, {self.engine}): {self.labels}"
        )
        return "\n".join([head, *(f"  {broken}" for broken in self.broken)])
