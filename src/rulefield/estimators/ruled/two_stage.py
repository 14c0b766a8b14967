"""Two-stage decoding with a fitted chain: of all labellings nearly as probable as the best, the least broken."""

from typing import Any

import numpy as np

from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.inputs import tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.inference.chain.exact import log_partition
from rulefield.inference.chain.two_stage import decode_two_stage
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule
from rulefield.rules import RuleCompiler
from rulefield.rules.rule import Rule


class TwoStageDecoder:
    """Decodes with a chain and the costs of its rules; ``tau`` says how near to the best a labelling must be."""

    def __init__(self, crf: ChainCRF, rules: list[Rule], tau: float):
        self.crf, self.tau = crf, tau
        self.compiler = RuleCompiler(rules, [str(c) for c in crf.classes_], crf.scheme)

    @staticmethod
    def best(potentials: ChainPotentials, rules: tuple[CompiledRule, ...], tau: float) -> np.ndarray:
        """Label numbers of the best labelling of one chain."""
        problem = ChainProblem(potentials, rules)
        return decode_two_stage(problem, tau=tau, log_partition=log_partition(potentials)).labels

    def decode(self, X: Any) -> list[Labeling]:
        """Decode every sequence."""
        data = self.crf._encoder.transform(X)
        decoder = self.crf._decoder()
        return decoder.each(len(data), lambda i: self._one(decoder.potentials(data, i), tokens_of(X, i)))

    def _one(self, potentials: ChainPotentials, tokens: Any) -> Labeling:
        if potentials.n_steps == 0:
            return Labeling([], 0.0, 0.0, 0.0, "optimal", "two-stage", cost=0.0, cost_lower_bound=0.0)
        problem = ChainProblem(potentials, self.compiler(tokens))
        result = decode_two_stage(problem, tau=self.tau, log_partition=log_partition(potentials))
        return Labeling.of(result, self.crf.classes_, [rule.label for rule in self.compiler.rules])
