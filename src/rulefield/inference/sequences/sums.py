"""Distributions of a chain under rules: p(y) proportional to exp(score(y) - penalties(y)), hard rules obeyed.

Every rule is a small automaton, so the chain times all of them is a lattice in which each labeling is one
path; sums over paths are exact. Cost grows with the product of the automata's states that can occur together.

Where that product is too large, :func:`path_mass` weighs the k best labelings of the plain chain instead. Rules only take
away, so whatever those leave of the plain sum bounds what all others can add: a probability is then known to a tolerance,
or not reported.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.definition import judged
from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.exact import ChainMarginals, kbest, log_partition
from rulefield.inference.sequences.prepare import Prepared, prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials
from rulefield.inference.sequences.stages.product import chain_relaxation
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.lattice.sums import lattice_kbest, lattice_marginals, lattice_samples, sums_ahead
from rulefield.problem.chain_rules import ChainProblem

SUM_NODES = 100_000
"""Largest lattice of exact sums: every node is kept, unlike in a search."""


def ruled_lattice(problem: ChainProblem, node_limit: int = SUM_NODES) -> tuple[Prepared, Lattice]:
    """Return the product of a chain with the automata of all its rules: one path for each allowed labeling.

    Raises
    ------
    InputError
        Where the product has more than ``node_limit`` nodes.
    """
    for rule in problem.rules:
        rule.refuse_rows_only("exact sums")
    progress = Progress.start(prepare(problem))
    relaxation = chain_relaxation(progress, dual_potentials(progress), -np.inf)
    relaxation.bound(-np.inf)
    for term in sorted(progress.prepared.flat.shared.terms, key=lambda term: (term.states, term.rule)):
        if not relaxation.add(term, -np.inf, node_limit, keep_runs=True):
            raise InputError(
                f"the product of a chain of {len(progress.prepared.unary)} tokens with its {len(problem.rules)} rules has "
                f"more than node_limit = {node_limit} nodes; raise the limit or give fewer rules."
            )
        relaxation.bound(-np.inf)
    return progress.prepared, relaxation.lattice


def constrained_log_partition(problem: ChainProblem, node_limit: int = SUM_NODES) -> float:
    """Log of the sum of exp(score - penalties) over all labelings that obey the hard rules; -inf where none does."""
    prepared, lattice = ruled_lattice(problem, node_limit)
    return float(sums_ahead(lattice, np.empty(len(lattice.label)))) + prepared.offset


def constrained_marginals(problem: ChainProblem, node_limit: int = SUM_NODES) -> ChainMarginals:
    """Probabilities of labels and of steps under the rules, with the log-partition function.

    Their difference from the marginals of the data is the gradient of a likelihood trained under the rules.
    """
    prepared, lattice = ruled_lattice(problem, node_limit)
    n, m = prepared.unary.shape
    node, edge = np.zeros((n, m)), np.zeros((n - 1, m, m))
    ahead = np.empty(len(lattice.label))
    total = float(sums_ahead(lattice, ahead))
    if total == -np.inf:
        return ChainMarginals(total, node, edge, Status.infeasible)
    lattice_marginals(lattice, ahead, total, node, edge)
    return ChainMarginals(total + prepared.offset, node, edge, Status.optimal)


def constrained_kbest(problem: ChainProblem, k: int, node_limit: int = SUM_NODES) -> list[Result]:
    """Return the k labelings of highest objective that obey the hard rules, best first; fewer where fewer exist."""
    if k < 1:
        raise InputError(f"k must be at least 1; got {k}.")
    prepared, lattice = ruled_lattice(problem, node_limit)
    labels = np.zeros((k, len(prepared.unary)), np.int64)
    found = lattice_kbest(lattice, k, labels)
    results = []
    for path in labels[:found]:
        value = prepared.value(path)
        results.append(prepared.answer(path, value, value, "product", len(lattice.label)))
    return results


def constrained_samples(
    problem: ChainProblem, size: int, generator: np.random.Generator, node_limit: int = SUM_NODES
) -> np.ndarray:
    """Draw labelings (size, n) from p(y) proportional to exp(score - penalties) among those that obey the hard rules."""
    prepared, lattice = ruled_lattice(problem, node_limit)
    ahead = np.empty(len(lattice.label))
    total = float(sums_ahead(lattice, ahead))
    if total == -np.inf:
        raise InfeasibleError("no labeling obeys the hard rules, so none can be drawn; relax a rule.")
    labels = np.zeros((size, len(prepared.unary)), np.int64)
    lattice_samples(lattice, ahead, total, generator.random(labels.shape), labels)
    return labels


# --- sums over the k best -------------------------------------------------------------------------

PATHS = 1_000
TOLERANCE = 0.02
"""Largest relative error of a probability that is reported."""


@dataclass(frozen=True)
class PathMass:
    """Weights of some labelings under the rules, and a bound on the weight of all others.

    Parameters
    ----------
    paths : ndarray of int64, shape (k, n)
    weight : ndarray of float64, shape (k,)
        exp(objective), relative to the largest.
    rest : float
        No more than this is left for the labelings that are not among ``paths``.
    """

    paths: np.ndarray
    weight: np.ndarray
    rest: float

    def probability(self, holds: np.ndarray) -> float | None:
        """Probability of the labelings where ``holds`` (k,) is true; None where it is not known well enough."""
        total, some = float(self.weight.sum()), float(self.weight[holds].sum())
        if total <= 0.0 or some <= 0.0:
            return None
        low, high = some / (total + self.rest), (some + self.rest) / (total + self.rest)
        return float(np.sqrt(low * high)) if high <= low * (1.0 + TOLERANCE) else None


def path_mass(problem: ChainProblem, k: int = PATHS) -> PathMass:
    """Weigh the k best labelings of the plain chain by the rules. O(k n (m + log k) + rules x k n)."""
    found = kbest(problem.potentials, k)
    paths = np.array([result.labels for result in found], dtype=np.int64)
    scores, costs = judged(problem, paths)
    objectives = scores - costs
    top = float(np.max(objectives, initial=-np.inf))
    if top == -np.inf:
        return PathMass(paths, np.zeros(len(paths)), np.inf)
    shift = log_partition(problem.potentials)
    left = max(0.0, 1.0 - float(np.exp(scores - shift).sum()))
    return PathMass(paths, np.exp(objectives - top), left * float(np.exp(min(shift - top, 700.0))))
