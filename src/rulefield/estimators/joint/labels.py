"""Labels of several tasks: dicts of sequences, where any task may be missing anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rulefield.data.sequences import Labels
from rulefield.encode.labels import LabelEncoder, check_lengths, nearest
from rulefield.exceptions import LabelError


class TaskLabels:
    """Label sets of several tasks, and the numbers for what is known.

    Parameters
    ----------
    tasks : sequence of str
        Names, in the order of joint states.
    """

    def __init__(self, tasks: Sequence[str]):
        self.tasks = list(tasks)
        self.encoders: dict[str, LabelEncoder] = {}

    @property
    def classes(self) -> dict[str, list[Any]]:
        """Labels of each task, sorted."""
        return {task: encoder.classes_ for task, encoder in self.encoders.items()}

    def set_classes(self, classes: Mapping[str, Sequence[Any] | np.ndarray]) -> "TaskLabels":
        """Take the label sets of a saved model."""
        self.encoders = {task: LabelEncoder().set_classes(list(classes[task])) for task in self.tasks}
        return self

    def fit(self, y: Sequence[Any]) -> "TaskLabels":
        """Collect the label set of each task."""
        check_dicts(y, self.tasks)
        for task in self.tasks:
            known = [row[task] for row in y if row.get(task) is not None]
            if not known:
                raise LabelError(
                    f"no sequence has labels of the task {task!r}; annotate some, or leave the task out."
                )
            self.encoders[task] = LabelEncoder().fit(known)
        return self

    def encode(self, y: Sequence[Any], lengths: np.ndarray) -> tuple[Labels, ...]:
        """Return what is known of each task's labels; a missing task is unknown at every token."""
        check_dicts(y, self.tasks)
        if len(y) != len(lengths):
            raise LabelError(f"X has {len(lengths)} sequences but y has {len(y)}; give one dict for each.")
        return tuple(self._task(task, y, lengths) for task in self.tasks)

    def _task(self, task: str, y: Sequence[Any], lengths: np.ndarray) -> Labels:
        rows = [[None] * int(n) if row.get(task) is None else row[task] for row, n in zip(y, lengths)]
        try:
            check_lengths(np.array([len(row) for row in rows], dtype=np.int64), lengths)
            return self.encoders[task].encode(rows, lengths)
        except LabelError as error:
            raise LabelError(f"task {task!r}: {error}") from None


def check_dicts(y: Any, tasks: Sequence[str]) -> None:
    """Check that ``y`` is a list of dicts of known tasks."""
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
        raise LabelError(f"y must be a list with one dict per sequence, {{task: labels}}; got {type(y).__name__}.")
    for i, row in enumerate(y):
        if not isinstance(row, Mapping):
            raise LabelError(
                f"y[{i}] must be a dict such as {{{tasks[0]!r}: [...], ...}} with None where a task is not "
                f"annotated; got {type(row).__name__}."
            )
        for task in row:
            if task not in tasks:
                raise LabelError(
                    f"y[{i}] names the task {task!r}{nearest(task, tasks)}; the tasks are {list(tasks)}."
                )
