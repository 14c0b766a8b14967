"""How fits go and how they end: a progress bar, records for logs and listeners, the attributes and warnings of each fit."""

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from rulefield.exceptions import InterruptedFitWarning, callers_level
from rulefield.learning.fit_log import Ending, FitRecord, FitResult
from rulefield.scikit import convergence_warning

if TYPE_CHECKING:
    from rich.progress import Progress

BAR_DELAY_SECONDS = 2.0
"""Shorter fits show no bar."""
LOG = logging.getLogger("rulefield.fit")

Listener = Callable[[FitRecord], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Give ``listener`` every record of the fits inside the block (of this thread)."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class ProgressLine:
    """Shows how a fit goes: iterations, rate, objective.

    A bar appears on a terminal's standard error after two seconds if ``show`` is true, and goes when the fit ends. Every
    record is also logged (``rulefield.fit``, level DEBUG; how the fit went at INFO).
    """

    def __init__(self, title: str, show: bool):
        self.title = title
        self.show = show and sys.stderr is not None and sys.stderr.isatty()
        self.bar: Progress | None = None
        self.last: FitRecord | None = None

    def __enter__(self) -> Self:
        self.begun = perf_counter()
        return self

    def __call__(self, record: FitRecord, theta: np.ndarray) -> None:
        """Show a record: the callback of a fit."""
        self.last = record
        LOG.debug("%s: iteration %d, objective %.6g", self.title, record.iteration, record.objective)
        if (listener := _LISTENER.get()) is not None:
            listener(record)
        elapsed = perf_counter() - self.begun
        if self.show and self.bar is None and elapsed > BAR_DELAY_SECONDS:
            self.bar = self._started()
        if self.bar is not None:
            more = f"{record.iteration / elapsed:.1f}/s, objective {record.objective:.4f}"
            self.bar.update(self.bar.task_ids[0], completed=record.iteration, more=more)

    def _started(self) -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        bar.add_task(self.title, total=None, more="")
        bar.start()
        return bar

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
        if self.last is not None:
            seconds = perf_counter() - self.begun
            done = self.last.iteration, self.last.objective, seconds
            LOG.info("%s: %d iterations, objective %.6g, %.1f s", self.title, *done)


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


def report_fit(estimator: Fitted, result: FitResult) -> None:
    """:func:`record_fit`, and warn of Ctrl-C, of a lost cluster and of a limit that was met."""
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
            f"{name}: fit stopped after {result.n_iter} iterations before it converged; raise max_iter, or tol.",
            convergence_warning(),
            stacklevel=callers_level(),
        )
