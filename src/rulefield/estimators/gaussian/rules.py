"""Rules on the labels of a Gaussian field: the best label vector that obeys them, marginals and draws under them."""

from functools import partial

import numpy as np

from rulefield.estimators.graph.decoding import GraphRules, SearchLimits, outputs_graph
from rulefield.estimators.labelings import Labeling
from rulefield.problem.graph import GraphPotentials, GraphProblem


class LabelRules:
    r"""Label vectors under rules, by :math:`\sum_i \log p(y_i | x)` minus the cost of broken soft rules.

    Parameters
    ----------
    rules : GraphRules
        About the nodes ``node("label", 0)``, ``node("label", 1)``, ...
    values : ndarray
        What the labels are called.

    Notes
    -----
    Probabilities of single labels are (n_instances, n_nodes, n_classes); 0 forbids.
    """

    def __init__(self, rules: GraphRules, values: np.ndarray):
        self.rules, self.values = rules, values.tolist()

    def decode(self, proba: np.ndarray, search: SearchLimits) -> list[Labeling]:
        """Return the best label vector of each instance."""
        found = []
        for p in proba:
            problem = self._problem(p)
            result = self.rules.decode(problem, search)
            labels = [self.values[k] for k in result.labels.tolist()]
            prover = partial(self.rules.prove, problem, result)
            found.append(Labeling.named(result, labels, self.rules.names, prover))
        return found

    def marginals(self, proba: np.ndarray) -> np.ndarray:
        """Probabilities of single labels under the rules, like ``proba``: exact sums, or a refusal."""
        return np.stack([self.rules.marginals(self._problem(p)).reshape(p.shape) for p in proba])

    def draw(self, proba: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw class numbers under the rules, (n_instances, n_draws, n_nodes)."""
        return np.stack([self.rules.draw(self._problem(p), n_draws, rng) for p in proba])

    def _problem(self, proba: np.ndarray) -> GraphProblem:
        n, classes = proba.shape
        with np.errstate(divide="ignore"):
            scores = np.log(proba).ravel()
        potentials = GraphPotentials(np.full(n, classes), scores, np.empty((0, 2), dtype=np.int64), np.empty(0))
        return self.rules.problem(outputs_graph(n), potentials)
