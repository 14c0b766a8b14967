"""The likelihood of labeled chains among the labelings that rules allow: training under rules."""

from collections.abc import Callable, Sequence

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.exceptions import InfeasibleError
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.sums import Question, chances_of
from rulefield.learning.chain.likelihood import as_rates, given_score
from rulefield.models.chain import ChainModel
from rulefield.parallel import Threads
from rulefield.problem.chain_rules import ChainProblem, CompiledRule


class RuledLikelihood:
    r"""Minus log-likelihood where p(y | x) counts only labelings that obey the hard rules, soft ones paid for.

    .. math:: f(\theta) = \sum_i \omega_i [\log Z^{rules}(x_i) - s(y_i)] + \tfrac{1}{2} l_2 |\theta|^2

    up to the cost of gold labels under soft rules, which theta does not change.

    Parameters
    ----------
    model, sequences, labels : as :class:`rulefield.learning.chain.likelihood.ChainLikelihood`; every label known
    rules : list of compiled rules, one tuple a sequence
    names : callable
        Name of a rule by number, for errors.

    Notes
    -----
    The partition function is a sum over the product of the chain with the rules' automata: exact, and as fast as the
    rules are small.
    """

    def __init__(
        self,
        model: ChainModel,
        sequences: Sequences,
        labels: Labels,
        rules: Sequence[tuple[CompiledRule, ...]],
        names: Callable[[int], str],
        *,
        l2: float = 0.0,
        sample_weight: np.ndarray | None = None,
        n_jobs: int = 1,
    ):
        self.model, self.sequences, self.labels, self.rules = model, sequences, labels, list(rules)
        self.l2, self.threads = l2, Threads(n_jobs)
        self.weight = as_rates(sample_weight, len(sequences))
        self._check_gold(names)
        self._observed = model.zeros()
        for i in range(len(sequences)):
            model.add_features(self._observed, sequences, i, self._gold(i), float(self.weight[i]))
        self._given = sum(float(w) * given_score(sequences, i, labels.ids) for i, w in enumerate(self.weight) if w)

    def _gold(self, i: int) -> np.ndarray:
        return self.labels.ids[int(self.labels.offsets[i]) : int(self.labels.offsets[i + 1])].astype(np.int64)

    def _check_gold(self, names: Callable[[int], str]) -> None:
        flat = self.model.zeros()
        for i, rules in enumerate(self.rules):
            problem = ChainProblem(self.model.potentials(flat, self.sequences, i), rules)
            amounts = prepare(problem).amounts(self._gold(i))[0]
            for rule, amount in zip(rules, amounts):
                if amount and rule.weight == np.inf:
                    raise InfeasibleError(
                        f"sequence {i}: the gold labels break the hard rule {names(rule.rule)!r}, so their likelihood under "
                        "it is 0; make the rule soft, or correct the labels.",
                        (names(rule.rule),),
                    )

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient at ``theta``."""
        pairwise = self.model.pairwise(theta)
        value = 0.5 * self.l2 * float(theta @ theta) - float(theta @ self._observed) - self._given
        gradient = self.l2 * theta - self._observed

        def one(i: int) -> tuple[float, np.ndarray, np.ndarray | None]:
            potentials = self.model.potentials(theta, self.sequences, i, pairwise)
            sums = chances_of(ChainProblem(potentials, self.rules[i]), Question(marginals=True, edges=True))
            return float(sums.log_partition[0]), sums.node, sums.edge

        for i, (total, node, edge) in enumerate(self.threads.map(one, range(len(self.rules)))):
            value += float(self.weight[i]) * total
            self.model.pullback(self.sequences, i, node, edge, gradient, float(self.weight[i]))
        return value, gradient
