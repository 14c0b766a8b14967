"""Small chains that are sure to hold all good labelings of a joint chain.

No labeling that passes a joint state is worth more than the best score through it, its max-marginal, and rules only take
from that. So every labeling worth at least a floor lives in the states whose max-marginals reach the floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.sequences.auto import WIDTHS_NATS
from rulefield.inference.sequences.joint.exact import best_through
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule
from rulefield.problem.joint import JointProblem

MOST_STATES = 1_000
"""Joint states that a small chain may have: its transition matrix is dense."""


@dataclass(frozen=True)
class Part:
    """A chain over some joint states (u,), outside which no labeling is worth ``floor`` or more (``-inf``: none at all)."""

    chain: ChainProblem
    states: np.ndarray
    floor: float

    def under(self, problem: JointProblem, rules: Sequence[CompiledRule]) -> ChainProblem:
        """Return the chain under some rules of the problem."""
        own = tuple(rule.relabeled(problem.letters[rule.rule][self.states]) for rule in rules)
        return ChainProblem(self.chain.potentials, own)


class Windows:
    """Ever larger parts of one joint chain, which is the only one of its problem.

    The maximum of other ``scores`` (n, S), if there are any, plus ``constant`` bounds what labelings are worth, too.

    ``empty`` tells that no labeling is allowed, ``exhausted`` that the last part is as large as parts may be, though not the
    whole.
    """

    def __init__(self, problem: JointProblem, scores: np.ndarray | None, constant: float):
        self.problem = replace(problem, rules=((),))
        self.through = best_through(problem.potentials, 0)
        if scores is not None:
            self.through = np.minimum(self.through, best_through(problem.potentials.alone(0, scores), 0) + constant)
        self.exhausted = False
        finite = self.through[self.through > -np.inf]
        self.empty = not len(finite)
        self._top, self._lowest = finite.max(initial=-np.inf), finite.min(initial=np.inf)
        self._margin = 1e-9 * (1.0 + np.abs(finite).max(initial=0.0))  # far more than sums are rounded by
        self._peaks = self.through.max(axis=0)
        self._widths = list(WIDTHS_NATS)

    def widen(self, known: float = -np.inf) -> Part:
        """Return the next part; nothing worth less than ``known`` is wanted."""
        floor = max(self._top - self._widths.pop(), min(known, self._top)) - self._margin
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
    states = np.flatnonzero((scores > -np.inf).any(axis=0)) if len(scores) else np.zeros(1, np.int64)
    if len(states) > MOST_STATES:
        raise InputError(
            f"sums under rules that look beyond single tokens take at most {MOST_STATES} joint labels, and {len(states)} are "
            "open here; give known labels, fewer tasks, or rules about single tokens."
        )
    return Part(problem.over(i, states), states, -np.inf)
