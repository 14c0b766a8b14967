"""What a fit leaves on its estimator, and what it warns of: the same for all of them, once."""

import warnings
from typing import Protocol

from rulefield.exceptions import InterruptedFitWarning, callers_level
from rulefield.learning.fit_log import Ending, FitRecord, FitResult
from rulefield.scikit import convergence_warning


class Fitted(Protocol):
    """An estimator that keeps how its fit went."""

    log_: list[FitRecord]
    n_iter_: int
    converged_: bool
    stopped_because_: str


def record_fit(estimator: Fitted, result: FitResult) -> None:
    """Set ``log_``, ``n_iter_``, ``converged_`` and ``stopped_because_``."""
    estimator.log_, estimator.n_iter_ = list(result.log), result.n_iter
    estimator.converged_, estimator.stopped_because_ = result.converged, result.message


def report_fit(estimator: Fitted, result: FitResult, limit: str = "max_iter") -> None:
    """:func:`record_fit`, and warn of Ctrl-C, of a lost cluster and of a limit that was met.

    Parameters
    ----------
    estimator : estimator
    result : FitResult
    limit : str
        The parameter that sets the limit of iterations.
    """
    record_fit(estimator, result)
    name = type(estimator).__name__
    if result.interrupted:
        warnings.warn(
            f"{name}: fit was interrupted after {result.n_iter} iterations; the best model so far was kept.",
            InterruptedFitWarning,
            stacklevel=callers_level(),
        )
    elif result.ending is Ending.lost:
        warnings.warn(f"{name}: {result.message}", InterruptedFitWarning, stacklevel=callers_level())
    elif result.ending is Ending.limit:
        warnings.warn(
            f"{name}: fit stopped after {result.n_iter} iterations before it converged; raise {limit}, or tol.",
            convergence_warning(),
            stacklevel=callers_level(),
        )
