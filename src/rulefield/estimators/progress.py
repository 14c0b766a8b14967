"""Progress of long fits: a bar on terminals, records for logs and for whoever listens. Nothing is printed otherwise."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from rulefield.learning.fit_log import FitRecord

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER = 2.0
"""Seconds before a bar appears: what is over sooner needs none."""
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
    """Shows how a fit goes: iterations, rate, time left, objective.

    A bar appears on a terminal's standard error after two seconds where ``show`` is true, and goes when the fit ends. Every
    record is also logged (``rulefield.fit``, level DEBUG; how the fit went at INFO).

    Parameters
    ----------
    title : str
    show : bool
    total : int, optional
        Most iterations, for the time left.
    """

    def __init__(self, title: str, show: bool, total: int | None = None):
        self.title, self.total = title, total
        self.show = show and sys.stderr is not None and sys.stderr.isatty()
        self.bar: Progress | None = None
        self.last: FitRecord | None = None

    def __enter__(self) -> Self:
        self.begun = perf_counter()
        return self

    def __call__(self, record: FitRecord, theta: np.ndarray) -> bool | None:
        """Show a record: the callback of a fit."""
        self.update(record)
        return None

    def update(self, record: FitRecord, score: float | None = None) -> None:
        """Show a record of the fit's log, and the score on held-out data."""
        self.last = record
        LOG.debug("%s: iteration %d, objective %.6g", self.title, record.iteration, record.objective)
        if (listener := _LISTENER.get()) is not None:
            listener(record)
        elapsed = perf_counter() - self.begun
        if self.show and self.bar is None and elapsed > AFTER:
            self.bar = self._started()
        if self.bar is not None:
            dev = "" if score is None else f", dev F1 {score:.4f}"
            more = f"{record.iteration / elapsed:.1f}/s, objective {record.objective:.4f}{dev}"
            self.bar.update(self.bar.task_ids[0], completed=record.iteration, more=more)

    def _started(self) -> "Progress":
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
        )
        times = (TimeElapsedColumn(), TimeRemainingColumn()) if self.total else (TimeElapsedColumn(),)
        bar = Progress(*columns, *times, console=Console(stderr=True), transient=True)
        bar.add_task(self.title, total=self.total, more="")
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
