"""The errors and warnings that rulefield raises, one class for each kind of mistake.

Every message is one sentence that names the thing, the rule it broke, the value that was given and
the way out.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LIBRARY = str(Path(__file__).parent)


class RulefieldError(Exception):
    """Base of all errors raised on purpose by rulefield."""


class InputError(RulefieldError, ValueError):
    """The data that was given cannot be used."""


class LabelError(InputError):
    """A label is unknown, impossible under the scheme, or missing."""


class RuleError(RulefieldError, ValueError):
    """A rule is written wrongly, or names something that does not exist."""


class InfeasibleError(RulefieldError):
    """No labeling satisfies all hard rules.

    Parameters
    ----------
    message : str
    rules : tuple of str
        A minimal set of rules in conflict.
    prover : callable, optional
        Makes the proof that no labeling is possible.
    """

    def __init__(self, message: str, rules: tuple[str, ...] = (), prover: Callable[[], Any] | None = None):
        super().__init__(message)
        self.rules, self._prover = rules, prover

    def proof(self) -> Any:
        """Return a proof, which others can check, that no labeling is possible; None if none was found."""
        return None if self._prover is None else self._prover()

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return InfeasibleError, (str(self), self.rules)


class InternalError(RulefieldError, RuntimeError):
    """An engine contradicts itself: a mistake in rulefield, found before a wrong answer was returned."""


class ModelFileError(RulefieldError, ValueError):
    """A model file is damaged, foreign, or from a newer version."""


class TimeLimitError(RulefieldError):
    """The time that the work was given is over; what was done of it is lost."""


class ClusterError(RulefieldError, RuntimeError):
    """Workers or their scheduler were lost, and the work could not go on."""


class InterruptedFitWarning(UserWarning):
    """Ctrl-C, or the loss of a cluster, stopped a fit; the best model so far was kept."""


class MissedExpectationWarning(UserWarning):
    """An expectation does not hold after training: something contradicts it."""


def callers_level() -> int:
    """Return the ``stacklevel`` that makes a warning point at the first line outside the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame, level = frame.f_back, level + 1
    return level
