"""Distributions of joint chains under rules: p(y) proportional to exp(score(y) - penalties(y)), hard rules obeyed.

Rules about single tokens go into the scores, and sums stay factored. With other rules the chain's lattice is taken over all
joint states that are open: exact, and refused with a sentence where they are too many.
"""

import numpy as np

from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.sequences.joint.exact import (
    joint_log_partition,
    joint_marginals,
    joint_samples,
    joint_viterbi,
)
from rulefield.inference.sequences.joint.folding import folded
from rulefield.inference.sequences.joint.windows import Windows, whole
from rulefield.inference.sequences.sums import (
    constrained_kbest,
    constrained_log_partition,
    constrained_marginals,
    constrained_samples,
)
from rulefield.problem.joint import JointProblem


def ruled_log_partition(problem: JointProblem, i: int) -> float:
    """Log of the sum of exp(score - penalties) over all labelings of chain ``i``; ``-inf`` where none obeys the rules."""
    one = folded(problem, i)
    if not one.rules[0] or joint_log_partition(one.potentials)[0] == -np.inf:
        return float(joint_log_partition(one.potentials)[0])
    return constrained_log_partition(whole(one, 0).chain)


def ruled_marginals(problem: JointProblem, i: int) -> tuple[float, np.ndarray]:
    """Log partition function of chain ``i`` under its rules, and P(joint state) at its tokens (n, S)."""
    one = folded(problem, i)
    if not one.rules[0] or joint_log_partition(one.potentials)[0] == -np.inf:
        sums = joint_marginals(one.potentials)
        return float(sums.log_partition[0]), sums.node
    part = whole(one, 0)
    found = constrained_marginals(part.chain)
    node = np.zeros_like(one.potentials.psi)
    node[:, part.states] = found.node
    return found.log_partition, node


def ruled_kbest(problem: JointProblem, i: int, k: int) -> list[tuple[np.ndarray, float]]:
    """Return the k labelings of chain ``i`` of highest objective, best first, each with its objective."""
    if k < 1:
        raise InputError(f"k must be a whole number >= 1; got {k!r}.")
    one = folded(problem, i)
    if joint_viterbi(one.potentials)[1][0] == -np.inf:
        return []
    windows = Windows(one)
    while True:
        part = windows.widen()
        found = constrained_kbest(part.chain, k)
        if part.floor == -np.inf or (len(found) == k and found[-1].objective >= part.floor):
            return [(part.states[result.labels], result.objective) for result in found]
        if windows.exhausted:
            raise InputError(
                f"the {k} best labelings of a chain with {one.potentials.n_states} joint labels are too many to be "
                "sure of; ask for fewer, or give known labels."
            )


def ruled_samples(problem: JointProblem, i: int, size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw joint states (size, n) of chain ``i`` from its distribution under its rules."""
    one = folded(problem, i)
    if not one.rules[0]:
        return joint_samples(one.potentials, size, generator)
    if joint_viterbi(one.potentials)[1][0] == -np.inf:
        raise InfeasibleError("no labeling obeys the hard rules, so none can be drawn; relax a rule.")
    part = whole(one, 0)
    return part.states[constrained_samples(part.chain, size, generator)]
