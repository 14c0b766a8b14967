"""Rules on the labels of a Gaussian field: the best label vector that obeys them, exactly."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.estimators.labelings import Labeling
from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.result import Result, Status
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, LogicFactors
from rulefield.rules.graph.compiler import GraphRuleCompiler

NODE = "label"  # the type of every output: rules say r.node("label", 3).is_(1), r.nodes("label").is_(1)


class LabelRules:
    r"""Maximises :math:`\sum_i \log p(y_i | x)` minus the cost of broken soft rules, under the hard ones.

    Parameters
    ----------
    rules : list of Rule
        About the nodes ``node("label", 0)``, ``node("label", 1)``, ...
    values : ndarray
        What the labels are called.
    on_infeasible : {"raise", "relax"}
    """

    def __init__(self, rules: Sequence[Any], values: np.ndarray, on_infeasible: str = "raise"):
        if on_infeasible not in ("raise", "relax"):
            raise InputError(f'on_infeasible must be "raise" or "relax"; got {on_infeasible!r}.')
        self.rules, self.values, self.on_infeasible = list(rules), values, on_infeasible
        self.compiler = GraphRuleCompiler(self.rules, {NODE: values}, countable=on_infeasible == "relax")
        self._compiled: dict[int, tuple[LogicFactors, GraphRows]] = {}

    def decode(self, proba: np.ndarray) -> list[Labeling]:
        """Best label vector of each instance; ``proba`` (n_instances, n_nodes, n_classes), 0 forbids."""
        return [
            self._named(self._decode(np.log(np.where(p > 0, p, 1.0)) + np.where(p > 0, 0.0, -np.inf))) for p in proba
        ]

    def _decode(self, scores: np.ndarray) -> Result:
        n, classes = scores.shape
        if n not in self._compiled:
            self._compiled[n] = self.compiler.compile(TypedGraph({NODE: np.zeros((n, 1))}))
        logic, rows = self._compiled[n]
        no_edges = np.empty((0, 2), dtype=np.int64)
        potentials = GraphPotentials(np.full(n, classes), np.ascontiguousarray(scores.ravel()), no_edges, np.empty(0))
        result = decode_graph(GraphProblem(potentials, logic, rows))
        if result.status is not Status.infeasible:
            return result
        if self.on_infeasible == "relax":
            return relax_graph(GraphProblem(potentials, logic, rows))
        names = tuple(self.rules[r].label for r in minimal_conflict_graph(GraphProblem(potentials, logic, rows)))
        raise InfeasibleError(
            f"no label vector satisfies the hard rules {', '.join(map(repr, names))} together with the known labels; "
            'make one soft, or use on_infeasible="relax".',
            names,
        )

    def _named(self, result: Result) -> Labeling:
        return Labeling.of(result, self.values, [rule.label for rule in self.rules])
