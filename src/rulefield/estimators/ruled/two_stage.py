"""Two-stage decoding with a fitted chain: of all labelings nearly as probable as the best, the least broken."""

from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.chain.under_rules import RuledDecoder
from rulefield.estimators.labelings import Labeling
from rulefield.inference.chain.exact import forward_backward, log_partition
from rulefield.inference.chain.two_stage import decode_two_stage
from rulefield.inference.result import Result
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule


class TwoStageDecoder(RuledDecoder):
    """Decodes with a chain and the costs of its rules; ``tau`` says how near to the best a labeling must be."""

    def __init__(self, *chain: Any, tau: float):
        super().__init__(*chain)
        self.tau = tau

    def marginals(
        self, data: Sequences, tokens: list[Any], allowed: np.ndarray | None = None, node_limit: int = 0
    ) -> np.ndarray:
        """Probabilities by the model alone: the rules have no price here."""
        parts = [forward_backward(self.decoder.potentials(data, i, allowed)).node for i in range(len(data))]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.labels)))

    def _solve(self, problem: ChainProblem, how: dict[str, Any]) -> Result:
        if problem.potentials.n_steps == 0:  # nothing to weigh
            return super()._solve(problem, {})
        return decode_two_stage(problem, tau=self.tau, log_partition=log_partition(problem.potentials), **how)

    def _probability(self, problem: ChainProblem, labeling: Labeling) -> float:
        """Probability by the model alone."""
        return float(np.exp(labeling.score - log_partition(problem.potentials)))


def best_in_two_stages(potentials: ChainPotentials, rules: tuple[CompiledRule, ...], tau: float) -> np.ndarray:
    """Label numbers of the best labeling of one chain."""
    problem = ChainProblem(potentials, rules)
    return decode_two_stage(problem, tau=tau, log_partition=log_partition(potentials)).labels
