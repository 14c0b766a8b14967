"""How expectations are kept while a model is trained: two methods, as objects that grid search can reach into."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rulefield.estimators.parameters import EXPECTATIONS, KEEPER, Table, check_parameters, number
from rulefield.exceptions import InputError
from rulefield.scikit import Estimator

if TYPE_CHECKING:
    from rulefield.rules.expectations import Expectation


class PosteriorRegularization(Estimator):
    """Keep expectations under a distribution q near the model, and train the model toward q [Goyal16].

    Parameters
    ----------
    expectations : list of expectations
        What should hold on average: ``rules.share(ner="B-PER", pos="NOUN").between(.053, .055)``.
    slack : float, default 0.0
        How far, in units of the expectations, each may be missed.
    """

    _parameters: ClassVar[Table] = {
        "expectations": EXPECTATIONS,
        "slack": number(),
    }

    def __init__(
        self,
        expectations: "Sequence[Expectation] | None" = None,
        *,
        slack: float = 0.0,
    ):
        self.expectations = expectations
        self.slack = slack


class GeneralizedExpectation(Estimator):
    """Penalize the model itself for expectations that it misses (Mann and McCallum, 2010).

    Parameters
    ----------
    expectations : list of expectations
    strength : float, default 10.0
        Weight of the squared misses beside the likelihood, in nats per unit.
    """

    _parameters: ClassVar[Table] = {"expectations": EXPECTATIONS, "strength": number()}

    def __init__(self, expectations: "Sequence[Expectation] | None" = None, *, strength: float = 10.0):
        self.expectations = expectations
        self.strength = strength


Keeper = PosteriorRegularization | GeneralizedExpectation


def keeper_of(expectations: Any) -> Keeper | None:
    """Return how an estimator keeps its ``expectations``, checked; None if it has none."""
    if not isinstance(expectations, PosteriorRegularization | GeneralizedExpectation):
        if not KEEPER.holds(expectations):
            raise InputError(f"expectations must be {KEEPER.words}; got {expectations!r}.")
        return PosteriorRegularization(expectations) if expectations else None
    check_parameters(expectations)
    return expectations
