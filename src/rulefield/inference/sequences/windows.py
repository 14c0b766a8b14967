"""A search in windows, for families whose labelings are too many for one chain: segmentations and joint chains.

A window is a chain that is sure to hold every labeling worth more than a floor. Rules only take from scores, so bounds of the
plain family say what lies below the floor. The walk of stages that all sequences share decodes the chain, under the rules
that some labeling was seen to break; the others are read when one is.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from rulefield.inference.limits import Deadline
from rulefield.inference.result import SLACK, Status
from rulefield.inference.sequences.decode import decode
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule

WIDTHS_NATS = (4.0, 16.0, 64.0, 256.0, np.inf)
"""Heights of windows below the bound: wide ones are large, small ones may miss the best labeling."""

WINDOW_UNITS = 20_000
"""Units of work that a window may take before the widest one takes the rest: enough for most windows of a trained model."""


class WindowChain(NamedTuple):
    """A part of a problem as a chain."""

    chain: ChainPotentials
    stands: np.ndarray
    """What each slot, a state of the chain, stands for (slots,)."""
    floor: float
    """No labeling outside is worth more."""
    cut: bool = False
    """Whether a larger one was asked for than windows may be, so that its floor is higher."""


class WindowSearch(ABC):
    """What is known of one problem so far."""

    rules: tuple[CompiledRule, ...]

    def __init__(self) -> None:
        self.labels = np.zeros(0, np.int64)  # the best labeling known
        self.best, self.bound = (
            -np.inf,
            np.inf,
        )  # what it is worth, if it obeys the hard rules; no labeling is worth more
        self.engine, self.steps = "viterbi", 1  # units of work so far
        self.known: set[int] = set()  # places of the rules that some labeling was seen to break

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the bound proves the best labeling, or that there is none."""

    @abstractmethod
    def window(self, floor: float, room: int) -> WindowChain | None:
        """Return a window that holds all labelings worth more than ``floor``, or is cut; None if it is too large.

        ``room`` is the work left.
        """

    @abstractmethod
    def offer(self, labels: np.ndarray) -> None:
        """Judge a labeling by all rules, take note of those that it breaks, and keep it if it is the best so far."""

    @abstractmethod
    def conclude(self, bound: float) -> None:
        """Take over a bound."""

    @abstractmethod
    def rule_of(self, place: int, stands: np.ndarray) -> CompiledRule | None:
        """Return the rule at a place as it reads slots; None if the scores of windows have it inside."""

    def run(self, node_limit: int, clock: Deadline) -> None:
        """Decode ever wider windows until one holds all that can beat the best labeling.

        A window that a limit stops is followed by the widest, which takes all the work that is left.
        """
        widths = list(WIDTHS_NATS)
        while widths and self._goes_on(node_limit, clock):
            left = node_limit - self.steps
            window = self.window(self._floor(widths.pop(0)), left)
            if window is None or window.cut or not self.decode(window, min(WINDOW_UNITS, left), clock):
                break
        widths = list(WIDTHS_NATS)
        while widths and self._goes_on(node_limit, clock):
            window = self.window(self._floor(widths.pop()), node_limit - self.steps)
            if window is not None:
                self.known.update(range(len(self.rules)))
                self.decode(window, node_limit - self.steps, clock)
                return

    def decode(self, window: WindowChain, most_units: int, clock: Deadline, engine: str = "auto") -> bool:
        """Decode a window until its answer breaks no rule that was not read; False if a limit was met."""
        last = self.steps + most_units
        if not len(window.stands):  # nothing is worth more than the floor
            self.conclude(window.floor)
            return True
        while True:
            read = len(self.known)
            rules = [self.rule_of(r, window.stands) for r in sorted(self.known)]
            problem = ChainProblem(window.chain, tuple(rule for rule in rules if rule is not None))
            found = decode(problem, engine, max(last - self.steps, 1), clock.left)
            self.engine, self.steps = found.engine, self.steps + found.iterations
            if len(found.labels):
                self.offer(window.stands[found.labels])
            self.conclude(max(found.upper_bound, window.floor))
            if self.settled or found.status is Status.bounded or len(self.known) == read:
                return self.settled or found.status is not Status.bounded

    def _goes_on(self, node_limit: int, clock: Deadline) -> bool:
        return not self.settled and not clock.over and self.steps < node_limit

    def _floor(self, width: float) -> float:
        """Return the floor of a window of some height: nothing worth less is wanted."""
        return max(self.bound - width, self.best + SLACK)
