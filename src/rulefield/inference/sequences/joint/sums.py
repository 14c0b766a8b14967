"""Distributions of joint chains under rules: p(y) proportional to exp(score(y) - penalties(y)), hard rules obeyed.

Rules about single tokens go into the scores. With other rules the sums run over a chain of the joint states that carry all
but ``tolerance`` of the probability, by their factored marginals.
"""

import numpy as np

from rulefield.inference.sequences.joint.decode import MOST_STATES
from rulefield.inference.sequences.joint.exact import joint_marginals
from rulefield.inference.sequences.joint.folding import folded
from rulefield.inference.sequences.sums import DRAWN, IMPOSSIBLE, SUM_ONLY, WITHIN, Chances, Question, chances_of
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.problem.joint import JointProblem

NARROWER = 1e-3
"""Factor of the mass that is left out when what is left is not enough."""


def joint_chances(
    problem: JointProblem, i: int, question: Question = SUM_ONLY, tolerance: float = 0.0
) -> tuple[Chances, np.ndarray]:
    """Sum over the labelings of chain ``i``, which has tokens: in label numbers of the joint states returned beside it."""
    one = folded(problem, i)
    sums = joint_marginals(one.potentials)
    if not one.rules[0] and not question.k and not len(question.uniform):
        n = len(sums.node)
        reason = np.full(1, IMPOSSIBLE if sums.log_partition[0] == -np.inf else 0, np.int8)
        nothing = np.zeros(0, np.int64)
        found = Chances(
            sums.log_partition, np.zeros(1), reason, sums.node, np.zeros(0), nothing,
            np.zeros((n and 1, 0)), nothing,
        )  # fmt: skip
        return found, np.arange(one.potentials.n_states)
    loss = 0.5 * tolerance
    while True:
        chain, states, outside = _likely(one, sums.node, loss)
        found = chances_of(chain, question, tolerance) if len(states) else _impossible(question, one)
        if outside > 0.0:
            _add_outside(found, float(sums.log_partition[0]) + np.log(outside))
        enough = outside == 0.0 or (found.error[0] <= tolerance and not _may_miss(found, question.k))
        if enough or loss == 0.0 or found.reason[0] == DRAWN:
            return found, states
        loss = loss * NARROWER if loss > 1e-12 else 0.0


def _likely(problem: JointProblem, node: np.ndarray, loss: float) -> tuple[ChainProblem, np.ndarray, float]:
    """Return the chain over states that leave out at most ``loss`` if that is possible, the states, and what they leave."""
    open_ = problem.potentials.psi > -np.inf
    ordered = np.sort(node[open_])
    cut = (
        ordered[min(int(np.searchsorted(np.cumsum(ordered), loss, side="right")), len(ordered) - 1)]
        if len(ordered)
        else 0
    )
    kept = open_ & (node >= cut) if loss > 0.0 else open_
    peaks = np.where(kept, node, -1.0).max(axis=0, initial=-1.0)
    states = np.flatnonzero(peaks >= 0.0)
    if len(states) > MOST_STATES:
        states = np.sort(np.argsort(-peaks, kind="stable")[:MOST_STATES])
    chain = problem.over(0, states)
    unary = np.where(kept[:, states], chain.potentials.unary, -np.inf)
    left = node.sum() - node[:, states][kept[:, states]].sum()
    whole = (
        bool((open_.sum(axis=0)[states] == kept.sum(axis=0)[states]).all()) and open_[:, states].sum() == open_.sum()
    )
    return (
        ChainProblem(ChainPotentials(unary, chain.potentials.pairwise), chain.rules),
        states,
        0.0 if whole else float(left),
    )


def _add_outside(found: Chances, log_mass: float) -> None:
    """Count the mass of states that were left out as part of the error."""
    error = float(found.error[0])
    inside = error / (1.0 - error) if error < 1.0 else np.inf
    out = inside + float(np.exp(np.minimum(log_mass - found.log_partition[0], 700.0)))
    found.error[0] = out / (1.0 + out) if out < np.inf else 1.0
    if found.reason[0] != DRAWN:
        found.reason[0] = IMPOSSIBLE if found.log_partition[0] == -np.inf else WITHIN


def _may_miss(found: Chances, k: int) -> bool:
    """Whether a labeling outside may be among the k best."""
    return k > 0 and float(found.best_chance[0, -1]) < found.error[0]


def _impossible(question: Question, problem: JointProblem) -> Chances:
    """Return what is known if every joint state is forbidden somewhere."""
    n, none = len(problem.potentials.psi), np.zeros(0, np.int64)
    return Chances(
        np.full(1, -np.inf), np.zeros(1), np.full(1, IMPOSSIBLE, np.int8), np.zeros((n, 0)),
        np.zeros(0), none, np.zeros((1, question.k)), none,
    )  # fmt: skip
