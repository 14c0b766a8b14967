"""A progress line for long fits: iteration, objective, seconds."""

from types import TracebackType

import numpy as np
from rich.console import Console
from rich.status import Status

from rulefield.learning.fit_log import FitRecord


class ProgressLine:
    """Shows the newest record of a fit on one line of the terminal; does nothing where ``show`` is false."""

    def __init__(self, title: str, show: bool):
        self.title = title
        self.status: Status | None = Status(title, console=Console(stderr=True)) if show else None

    def __enter__(self) -> "ProgressLine":
        if self.status:
            self.status.start()
        return self

    def __call__(self, record: FitRecord, theta: np.ndarray) -> None:
        """Show a record: the callback of a fit."""
        self.update(record)

    def update(self, record: FitRecord, score: float | None = None) -> None:
        """Show a record of the fit's log, and the score on held-out data."""
        if self.status:
            dev = "" if score is None else f", dev F1 {score:.4f}"
            self.status.update(
                f"{self.title}: iteration {record.iteration}, objective {record.objective:.4f}{dev}, "
                f"{record.seconds:.1f} s"
            )

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status:
            self.status.stop()
