"""Small chains that are sure to hold all good labelings of a joint chain.

No labeling that passes a joint state is worth more than the best score through it, its max-marginal, and rules only take
from that. So every labeling worth at least a floor lives in the states whose max-marginals reach the floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.sequences.joint.exact import best_through
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule
from rulefield.problem.joint import JointProblem

FIRST_WINDOW = 2.0
"""How far, in nats, the first floor lies below the best score."""

WIDENING = 3.0
MOST_STATES = 1_000
"""Joint states that a small chain may have: its transition matrix is dense."""

MARGIN = 1e-9
"""Share of the scores by which floors are lowered, far more than sums of them are rounded by."""

NO_TOKENS = np.zeros(1, np.int64)
"""Joint states of a chain without tokens: any will do."""


@dataclass(frozen=True)
class Part:
    """A chain over some joint states (u,), outside which no labeling is worth ``floor`` or more (``-inf``: none at all)."""

    chain: ChainProblem
    states: np.ndarray
    floor: float

    def under(self, problem: JointProblem, rules: Sequence[CompiledRule]) -> ChainProblem:
        """Return the chain with other rules of the same problem."""
        own = tuple(rule.relabeled(problem.letters[rule.rule][self.states]) for rule in rules)
        return ChainProblem(self.chain.potentials, own)


class Windows:
    """Ever larger parts of one joint chain, which is the only one of its problem and has at least one labeling.

    ``dual`` (n, S), where it is given, holds other scores that with ``constant`` bound what labelings are worth under
    rules, too.

    ``exhausted`` tells that the last part is as large as parts may be, though not the whole.
    """

    def __init__(self, problem: JointProblem, dual: np.ndarray | None = None, constant: float = 0.0):
        self.problem = problem
        self.through = best_through(problem.potentials, 0)
        if dual is not None:
            self.through = np.minimum(self.through, best_through(problem.potentials.alone(0, dual), 0) + constant)
        self.exhausted = False
        finite = self.through[self.through > -np.inf]
        self._top, self._lowest = finite.max(), finite.min()
        self._margin = MARGIN * (1.0 + np.abs(finite).max())
        self._peaks = self.through.max(axis=0)
        self._width = FIRST_WINDOW

    def widen(self, known: float = -np.inf) -> Part:
        """Return the next part; nothing worth less than ``known`` is wanted."""
        floor = max(self._top - self._width, min(known, self._top)) - self._margin
        self._width *= WIDENING
        if floor <= self._lowest:
            floor = -np.inf
        states = np.flatnonzero((self._peaks >= floor) & (self._peaks > -np.inf))
        self.exhausted = len(states) > MOST_STATES
        if self.exhausted:
            states = np.sort(np.argsort(-self._peaks, kind="stable")[:MOST_STATES])
            floor = float(np.delete(self._peaks, states).max()) + self._margin
        chain = self.problem.over(0, states)
        unary = np.where(self.through[:, states] >= floor, chain.potentials.unary, -np.inf)
        return Part(ChainProblem(ChainPotentials(unary, chain.potentials.pairwise), chain.rules), states, floor)


def whole(problem: JointProblem, i: int) -> Part:
    """Chain ``i`` over all joint states that are open at some token; refused where they are too many."""
    scores = problem.potentials.scores(i)
    states = np.flatnonzero((scores > -np.inf).any(axis=0)) if len(scores) else NO_TOKENS
    if len(states) > MOST_STATES:
        raise InputError(
            f"sums under rules that look beyond single tokens take at most {MOST_STATES} joint labels, and {len(states)} are "
            "open here; give known labels, fewer tasks, or rules about single tokens."
        )
    return Part(problem.over(i, states), states, -np.inf)
