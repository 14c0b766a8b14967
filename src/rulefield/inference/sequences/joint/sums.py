"""Distributions of joint chains under rules: p(y) proportional to exp(score(y) - penalties(y)), hard rules obeyed.

Rules about single tokens go into the scores. With other rules the sums run over a chain of the joint states that carry all
but ``tolerance`` of the probability, by their factored marginals.
"""

from dataclasses import replace

import numpy as np

from rulefield.inference.sequences.joint.decode import MOST_STATES, whole
from rulefield.inference.sequences.joint.exact import joint_marginals
from rulefield.inference.sequences.joint.rules import folded
from rulefield.inference.sequences.sums import DRAWN, IMPOSSIBLE, SUM_ONLY, WITHIN, Chances, Question, chances_of
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.problem.joint import JointProblem

NARROWER = 1e-3
"""Factor of the mass that is left out when what is left is not enough."""


def joint_chances(problem: JointProblem, i: int, question: Question = SUM_ONLY, tolerance: float = 0.0) -> Chances:
    """Sum over the labelings of chain ``i``, in numbers of joint states."""
    one, n_states = folded(problem, i), problem.potentials.n_states
    if not len(one.potentials.psi):
        chain, states = whole(replace(problem, potentials=one.potentials, rules=(problem.rules[i],)))
        return _in_joint_states(chances_of(chain, question), states, n_states)
    sums = joint_marginals(one.potentials)
    total, node = sums.log_partition, sums.node
    if not one.rules[0] and not question.k and not len(question.uniform):
        reason = np.full(1, IMPOSSIBLE if total[0] == -np.inf else 0, np.int8)
        nothing = np.zeros(0, np.int64)
        return Chances(total, np.zeros(1), reason, node, np.zeros(0), nothing, np.zeros((1, 0)), nothing)
    loss = 0.5 * tolerance
    while True:
        chain, states, outside = _likely(one, node, loss)
        found = chances_of(chain, question, tolerance) if len(states) else _impossible(question, len(node))
        if outside > 0.0:
            _add_outside(found, float(total[0]) + np.log(outside))
        enough = outside == 0.0 or (found.error[0] <= tolerance and not _may_miss(found, question.k))
        if enough or loss == 0.0 or found.reason[0] == DRAWN:
            return _in_joint_states(found, states, n_states)
        loss = loss * NARROWER if loss > 1e-12 else 0.0


def _in_joint_states(found: Chances, states: np.ndarray, n_states: int) -> Chances:
    """Return what was found in places of ``states`` by the numbers of the states."""
    node = np.zeros((len(found.node), n_states))
    node[:, states] = found.node
    return found._replace(node=node, best=states[found.best], drawn=states[found.drawn])


def _likely(problem: JointProblem, node: np.ndarray, loss: float) -> tuple[ChainProblem, np.ndarray, float]:
    """Return the chain over states that leave out at most ``loss`` if that is possible, the states, and what they leave."""
    open_ = problem.potentials.psi > -np.inf
    ordered = np.sort(node[open_])
    place = int(np.searchsorted(np.cumsum(ordered), loss, side="right"))
    kept = open_ & (node >= ordered[min(place, len(ordered) - 1)]) if loss > 0.0 and len(ordered) else open_
    peaks = np.where(kept, node, -1.0).max(axis=0, initial=-1.0)
    states = np.flatnonzero(peaks >= 0.0)
    if len(states) > MOST_STATES:
        states = np.sort(np.argsort(-peaks, kind="stable")[:MOST_STATES])
    chain, inside = problem.over(0, states), kept[:, states]
    unary = np.where(inside, chain.potentials.unary, -np.inf)
    left = 0.0 if inside.sum() == open_.sum() else float(node.sum() - node[:, states][inside].sum())
    return ChainProblem(ChainPotentials(unary, chain.potentials.pairwise), chain.rules), states, left


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


def _impossible(question: Question, n: int) -> Chances:
    """Return what is known if every joint state is forbidden somewhere."""
    none = np.zeros(0, np.int64)
    reason = np.full(1, IMPOSSIBLE, np.int8)
    return Chances(
        np.full(1, -np.inf), np.zeros(1), reason, np.zeros((n, 0)), np.zeros(0), none, np.zeros((1, question.k)), none
    )
