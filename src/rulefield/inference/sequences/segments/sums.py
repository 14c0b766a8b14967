"""Distributions over segmentations under rules: p(s) proportional to exp(score(s) - penalties(s)), hard rules obeyed.

The segment lattice times the automata of all rules has one path per segmentation, so that sums over its paths are exact.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.segments.search import SegmentSearch
from rulefield.kernels.lattice.lattice import Lattice, fill_ahead
from rulefield.kernels.lattice.sums import lattice_kbest, lattice_marginals, lattice_samples, sums_ahead
from rulefield.problem.segments import SegmentProblem

MOST_NODES = 2_000_000
"""Largest product of a segment lattice with rules."""


@dataclass(frozen=True)
class RuledMarginals:
    """The distribution of segmentations under rules, seen through its token labels.

    Parameters
    ----------
    log_partition : float
        Log of the sum of exp(score - penalties); ``-inf`` where no segmentation obeys the hard rules.
    label : ndarray of float64, shape (n_steps, n_labels)
        Probability of each token label of the problem's spelling; zeros where the problem is infeasible.
    status : Status
        ``optimal`` (exact) or ``infeasible``.
    """

    log_partition: float
    label: np.ndarray
    status: Status


class RuledSegments:
    """The segment lattice of one problem times the automata of all its rules.

    Parameters
    ----------
    problem : SegmentProblem
        With at least one token.
    node_limit : int
        A product with more nodes is refused.
    """

    def __init__(self, problem: SegmentProblem, node_limit: int = MOST_NODES):
        self.problem = problem
        self.search = SegmentSearch.start(problem)
        self.lattice = self._product(node_limit) if self.search.bound > -np.inf else None
        self._ahead = np.empty(0 if self.lattice is None else len(self.lattice.label))
        found = -np.inf if self.lattice is None else float(sums_ahead(self.lattice, self._ahead))
        self._total = found
        self.log_partition = found + self.search.prepared.shift

    def _product(self, node_limit: int) -> Lattice:
        lattice = self.search.window(-np.inf, node_limit)
        if lattice is None:
            raise self._too_large(node_limit)
        relaxation = self.search.relaxation(lattice, np.zeros(len(self.search.prepared.caps)))
        relaxation.bound(-np.inf)
        for term in sorted(self.search.prepared.terms, key=lambda term: (term.states, term.rule)):
            if not relaxation.add(term, -np.inf, node_limit, keep_runs=True):
                raise self._too_large(node_limit)
            relaxation.bound(-np.inf)
        return relaxation.lattice

    def _too_large(self, node_limit: int) -> InputError:
        n, rules = self.problem.potentials.n_steps, len(self.problem.rules)
        return InputError(
            f"node_limit = {node_limit} is too low for the product of a segment lattice of {n} tokens with its {rules} "
            "rules; raise it, give fewer rules or set max_length."
        )

    def marginals(self) -> RuledMarginals:
        """Return probabilities of token labels, with the log partition function."""
        n, m = self.problem.potentials.n_steps, self.problem.spelling.n_labels
        label, steps = np.zeros((n, m)), np.zeros((max(n - 1, 0), m, m))
        if self._total == -np.inf or self.lattice is None:
            return RuledMarginals(-np.inf, label, Status.infeasible)
        lattice_marginals(self.lattice, self._ahead, self._total, label, steps)
        return RuledMarginals(self.log_partition, label, Status.optimal)

    def kbest(self, k: int) -> list[Result]:
        """Return the k best segmentations under the rules, best first; fewer where fewer are possible."""
        if k < 1:
            raise InputError(f"k must be at least 1; got {k}.")
        if self._total == -np.inf or self.lattice is None:
            return []
        prepared = self.search.prepared
        fill_ahead(self.lattice, -np.inf)
        labels = np.zeros((k, self.problem.potentials.n_steps), np.int64)
        found = lattice_kbest(self.lattice, k, labels)
        return [prepared.result(row, None, "product", len(self.lattice.label)) for row in labels[:found]]

    def samples(self, size: int, generator: np.random.Generator) -> np.ndarray:
        """Draw token labels (size, n) of segmentations that obey the rules."""
        if self._total == -np.inf or self.lattice is None:
            raise InfeasibleError("no segmentation obeys the hard rules, so none can be drawn; relax a rule.")
        labels = np.zeros((size, self.problem.potentials.n_steps), np.int64)
        lattice_samples(self.lattice, self._ahead, self._total, generator.random(labels.shape), labels)
        return labels
