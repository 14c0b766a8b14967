"""What every compiled statement can do."""

from collections.abc import Hashable

import numpy as np

from rulefield.problem.chain_rules import Forms, Joinable, Rows
from rulefield.rules.chain.automata import Truth
from rulefield.rules.chain.rows import Affine, RowBuilder
from rulefield.rules.chain.tallies import values_of


class Statement:
    """A statement over one label set, ready to be turned into the forms that engines read.

    ``n`` is the length of the input; only automata that count both up and down depend on it
    (``depends_on_length``).
    """

    depends_on_length = False

    @property
    def shape(self) -> Hashable:
        """What its automata depend on beside the values of their signals; by default they are like no others."""
        return object()

    @property
    def joinable(self) -> Joinable | None:
        """Itself, where engines may read several of its kind as one."""
        return None

    def forms(self, n: int, what: str) -> Forms:
        """Tally, counters or automaton of the amount; ``what`` names the rule in errors."""
        raise NotImplementedError

    @property
    def presence(self) -> tuple[np.ndarray, bool] | None:
        """Labels (n_classes, m) at tokens of each class, and whether some token must have one of them or none may.

        None if the statement says something else.
        """
        return None

    def truth(self, n: int) -> Truth:
        """Automaton that decides whether the statement holds."""
        raise NotImplementedError

    def max_amount(self, token_class: np.ndarray) -> int:
        """Return an upper bound on the amount."""
        raise NotImplementedError

    def amount_rows(self, builder: RowBuilder) -> None:
        """Add rows whose least total slack is the amount."""
        raise NotImplementedError

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """Add a 0/1 variable that can be 1 exactly where the statement has this truth."""
        raise NotImplementedError


def amount_by_truth(statement: Statement, token_class: np.ndarray, labels: np.ndarray) -> int:
    """Amount (0 or 1) of a statement that only its truth decides, token by token."""
    truth = statement.truth(len(labels))
    values = [values_of(tally, token_class, labels) for tally in truth.signals]
    state = truth.start
    for said in zip(*values, strict=True):
        state = truth.read(state, said)
    return int(not truth.answer(state))


def rows_of(statement: Statement, token_class: np.ndarray, n_labels: int, letter: np.ndarray | None = None) -> Rows:
    """Linear rows of a statement for one input."""
    builder = RowBuilder(token_class, n_labels, letter)
    statement.amount_rows(builder)
    return builder.rows()
