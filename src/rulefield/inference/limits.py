"""Limits of time that running kernels notice: a clock in another thread raises a flag that they look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Timer
from time import monotonic

import numpy as np

from rulefield.interrupts import seconds_left

RUNNING = np.zeros(1, np.bool_)
"""The flag of work that nothing stops."""


@dataclass(frozen=True)
class Deadline:
    """A moment when work must end, and the flag that kernels look at (they release the GIL, so a clock can raise it)."""

    at: float = np.inf
    stop: np.ndarray = field(default_factory=lambda: RUNNING)

    @property
    def left(self) -> float | None:
        """Seconds left; None where there is no limit."""
        return None if self.at == np.inf else max(self.at - monotonic(), 0.0)

    @property
    def over(self) -> bool:
        """Whether the moment has come."""
        return self.at < np.inf and monotonic() >= self.at


NO_DEADLINE = Deadline()


@contextmanager
def deadline(seconds: float | None) -> Iterator[Deadline]:
    """Run a block under a limit in seconds, or that of this thread's work; None for no limit."""
    seconds = seconds_left(seconds)
    if seconds is None:
        yield NO_DEADLINE
        return
    stop = np.zeros(1, np.bool_)
    clock = Timer(max(seconds, 0.0), stop.fill, (True,))
    clock.daemon = True
    clock.start()
    try:
        yield Deadline(monotonic() + seconds, stop)
    finally:
        clock.cancel()
