"""Every labeling of a chain, one after the other: what exact inference must agree with."""

import numpy as np

from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.enumerate import judge_every, labelings
from rulefield.inference.sequences.exact import ChainMarginals, as_result, viterbi_batch
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem


def viterbi(potentials: ChainPotentials) -> Result:
    """Return a best labeling of one chain as the kernel of many chains finds it."""
    labels, scores = viterbi_batch(potentials.unary, potentials.pairwise, np.array([0, potentials.n_steps]))
    return as_result(labels, float(scores[0]), "viterbi")


def enumerate_kbest(potentials: ChainPotentials, k: int) -> list[Result]:
    """Return the k best allowed labelings, best first: what ``chain.kbest`` must return."""
    scores, _ = judge_every(ChainProblem(potentials))
    every = labelings(potentials)
    order = [int(i) for i in np.argsort(-scores, kind="stable")[:k] if scores[i] > -np.inf]
    return [as_result(every[i], float(scores[i]), "enumerate") for i in order]


def enumerate_map(potentials: ChainPotentials) -> Result:
    """Return a best labeling, or the infeasible result where all are forbidden."""
    best = enumerate_kbest(potentials, 1)
    return best[0] if best else as_result(np.empty(0, np.int64), -np.inf, "enumerate")


def enumerate_log_partition(potentials: ChainPotentials) -> float:
    """Return the log of the sum of exp(score) over all labelings."""
    return float(np.logaddexp.reduce(judge_every(ChainProblem(potentials))[0]))


def enumerate_marginals(potentials: ChainPotentials) -> ChainMarginals:
    """Return the log partition function with node and edge marginals."""
    n, m = potentials.n_steps, potentials.n_states
    scores, _ = judge_every(ChainProblem(potentials))
    total = float(np.logaddexp.reduce(scores))
    node, edge = np.zeros((n, m)), np.zeros((max(n - 1, 0), m, m))
    if total == -np.inf:
        return ChainMarginals(total, node, edge, Status.infeasible)
    steps = np.arange(n)
    for path, p in zip(labelings(potentials), np.exp(scores - total), strict=True):
        node[steps, path] += p
        edge[steps[:-1], path[:-1], path[1:]] += p
    return ChainMarginals(total, node, edge, Status.optimal)
