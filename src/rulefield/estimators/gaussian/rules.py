"""Rules on the labels of a Gaussian field: the best label vector that obeys them, marginals and draws under them."""

from collections.abc import Sequence

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.estimators.labelings import Labeling
from rulefield.exceptions import InfeasibleError
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.marginals import exact_draws, exact_sums
from rulefield.inference.result import Result, Status
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, LogicFactors
from rulefield.rules.graph.compiler import GraphRuleCompiler
from rulefield.rules.rule import Rule

NODE = "label"  # the type of every output: rules say r.node("label", 3).is_(1), r.nodes("label").is_(1)


class LabelRules:
    r"""Label vectors under rules, by :math:`\sum_i \log p(y_i | x)` minus the cost of broken soft rules.

    Parameters
    ----------
    rules : list of Rule
        About the nodes ``node("label", 0)``, ``node("label", 1)``, ...
    values : ndarray
        What the labels are called.
    on_infeasible : {"raise", "relax"}
    """

    def __init__(self, rules: Sequence[Rule], values: np.ndarray, on_infeasible: str = "raise"):
        self.rules, self.values, self.on_infeasible = list(rules), values.tolist(), on_infeasible
        self.compiler = GraphRuleCompiler(self.rules, {NODE: values}, countable=on_infeasible == "relax")
        self._compiled: dict[int, tuple[LogicFactors, GraphRows]] = {}

    def decode(self, proba: np.ndarray, engine: str = "auto") -> list[Labeling]:
        """Best label vector of each instance; ``proba`` (n_instances, n_nodes, n_classes), 0 forbids."""
        names = [rule.label for rule in self.rules]
        return [Labeling.of(self._decode(self._problem(p), engine), self.values, names) for p in proba]

    def marginals(self, proba: np.ndarray) -> np.ndarray:
        """Probabilities of single labels under the rules, like ``proba``: exact sums, or a refusal."""
        out = np.empty_like(proba)
        for found, p in zip(out, proba):
            problem = self._problem(p)
            sums = exact_sums(problem)
            if sums.log_partition == -np.inf:
                raise self._conflict(problem)
            found[:] = sums.node.reshape(p.shape)
        return out

    def draw(self, proba: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw class numbers under the rules, (n_instances, n_draws, n_nodes)."""
        out = np.empty((len(proba), n_draws, proba.shape[1]), dtype=np.int64)
        for found, p in zip(out, proba):
            problem = self._problem(p)
            if exact_sums(problem).log_partition == -np.inf:
                raise self._conflict(problem)
            found[:] = exact_draws(problem, n_draws, rng)
        return out

    def _problem(self, proba: np.ndarray) -> GraphProblem:
        n, classes = proba.shape
        if n not in self._compiled:
            self._compiled[n] = self.compiler.compile(TypedGraph({NODE: np.zeros((n, 1))}))
        with np.errstate(divide="ignore"):
            scores = np.log(proba).ravel()
        no_edges = np.empty((0, 2), dtype=np.int64)
        return GraphProblem(GraphPotentials(np.full(n, classes), scores, no_edges, np.empty(0)), *self._compiled[n])

    def _decode(self, problem: GraphProblem, engine: str) -> Result:
        result = decode_graph(problem, engine)
        if result.status is not Status.infeasible:
            return result
        if self.on_infeasible == "relax":
            return relax_graph(problem)
        raise self._conflict(problem)

    def _conflict(self, problem: GraphProblem) -> InfeasibleError:
        names = tuple(self.rules[r].label for r in minimal_conflict_graph(problem))
        return InfeasibleError(
            f"no label vector satisfies the hard rules {', '.join(map(repr, names))} together with the known labels; "
            'make one soft, or use on_infeasible="relax".',
            names,
        )
