"""The options of ChainCRF: what each may be, and which do not go together."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulefield.estimators.expectations import KEEPER
from rulefield.estimators.parameters import (
    FLAG,
    LABEL,
    N_JOBS,
    ON_INFEASIBLE,
    RANDOM_STATE,
    RULES,
    SCHEME,
    TRANSFORMER,
    VERBOSE,
    Requirement,
    Table,
    check_parameters,
    either,
    list_of,
    number,
    one_of,
    optional,
    whole,
)
from rulefield.exceptions import InputError
from rulefield.learning.chain.penalties import AUTO, USUAL_L1, USUAL_L2
from rulefield.parallel import n_threads

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF

PENALTY = Requirement(f"{AUTO!r} or {number().words}", lambda value: value == AUTO or number().holds(value))
PARAMETERS: Table = {
    "solver": one_of("lbfgs", "sgd"),
    "l1": PENALTY,
    "l2": PENALTY,
    "scheme": SCHEME,
    "rules": RULES,
    "expectations": KEEPER,
    "initial_label": optional(LABEL),
    "features": TRANSFORMER,
    "transition_features": optional(either(one_of("all"), list_of("a list of feature names", str))),
    "start_end": FLAG,
    "all_states": FLAG,
    "all_transitions": FLAG,
    "min_count": whole(0),
    "max_iter": optional(whole(1)),
    "tol": optional(number()),
    "early_stopping": optional(whole(1)),
    "validation_fraction": number(0.0, 1.0, above=True),
    "warm_start": FLAG,
    "train_with_rules": FLAG,
    "on_infeasible": ON_INFEASIBLE,
    "random_state": RANDOM_STATE,
    "n_jobs": N_JOBS,
    "verbose": VERBOSE,
}


@dataclass(frozen=True)
class ChainOptions:
    """What a fit of a chain is given, after checks."""

    solver: str
    l1: float
    l2: float
    max_iter: int | None
    tol: float | None
    patience: int | None
    n_jobs: int


def chain_options(crf: "ChainCRF") -> ChainOptions:
    """Check the parameters of a ChainCRF, each by itself and together; a sentence names what is wrong.

    Penalties that are to be chosen have their usual values here; ``fit`` replaces them.
    """
    check_parameters(crf)
    if AUTO in (crf.l1, crf.l2) and crf.expectations:
        raise InputError("l1 and l2 'auto' are chosen by labels held out, not by expectations; give numbers.")
    if crf.solver != "lbfgs" and crf.l1 != AUTO and crf.l1 > 0:
        raise InputError(f"l1 = {crf.l1} needs solver='lbfgs'; {crf.solver} has no L1 penalty.")
    return ChainOptions(
        solver=crf.solver,
        l1=USUAL_L1 if crf.l1 == AUTO else float(crf.l1),
        l2=USUAL_L2 if crf.l2 == AUTO else float(crf.l2),
        max_iter=crf.max_iter,
        tol=crf.tol,
        patience=crf.early_stopping,
        n_jobs=n_threads(crf.n_jobs),
    )
