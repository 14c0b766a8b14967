"""What a sequence estimator asks of its family: a batch of encoded sequences in, answers by name out."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from rulefield.data.sequences import Sequences
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.sequences import token_lists
from rulefield.exceptions import InfeasibleError


@dataclass(eq=False)
class Batch:
    """Sequences of one call.

    Parameters
    ----------
    rows : list or Sequences
        As the user gave them.
    data : Sequences, or what a family encodes to
        With an attribute ``sequences`` if it is more than feature rows.
    allowed : optional
        Labels that are possible, in the family's form; None if all are.
    """

    rows: Any
    data: Any
    allowed: Any = None

    @property
    def sequences(self) -> Sequences:
        """Feature rows of all tokens."""
        return getattr(self.data, "sequences", self.data)

    @cached_property
    def tokens(self) -> list[Any]:
        """Tokens of every sequence, as the user gave them."""
        return token_lists(self.rows, self.sequences)


class Answers(Protocol):
    """Answers of a fitted model under one list of rules. Labels are those that users see."""

    def labels(self, batch: Batch) -> list[Any]:
        """Return the best labels of each sequence."""

    def labelings(self, batch: Batch, *, probability: bool = False, **how: Any) -> list[Labeling]:
        """Return the best labelings with their proofs; ``how`` goes to the engine."""

    def marginals(self, batch: Batch, quick: bool = False, tolerance: float = 1e-6) -> list[Any]:
        """Return probabilities of labels at the tokens of each sequence; sums may leave out ``tolerance``."""

    def kbest(self, batch: Batch, k: int) -> list[list[tuple[Any, float]]]:
        """Return the k best labelings of each sequence and their probabilities."""

    def samples(self, batch: Batch, n_samples: int, seed: int) -> list[list[Any]]:
        """Draw labelings of each sequence."""


def report_unanswered(i: int, relax: bool) -> None:
    """Raise that the search found no labeling of sequence ``i``; if rules may give way, warn that they do."""
    found = f"sequence {i}: no labeling that obeys the hard rules was found within the limits, and none is excluded"
    if not relax:
        raise InfeasibleError(
            f"{found}; give known labels, make a rule soft, decode with a larger node_limit, or use on_infeasible='relax'."
        )
    warnings.warn(
        f"{found}; its labeling breaks them as little as the search could find.", RuntimeWarning, stacklevel=2
    )
