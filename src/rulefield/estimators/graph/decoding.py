"""From graphs and weights to labellings: potentials, rules, engine, names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_labels import GraphLabels
from rulefield.estimators.labelings import BrokenRule
from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.decode import decode_graph, graph_marginals
from rulefield.inference.result import Result, Status
from rulefield.models.graph import GraphModel
from rulefield.models.graph_batch import GraphBatch, make_batch
from rulefield.parallel import in_threads
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, LogicFactors
from rulefield.rules.graph.compiler import GraphRuleCompiler

CHUNK = 256


@dataclass(frozen=True)
class GraphLabelling:
    """The best labelling of one graph, and how sure it is.

    Parameters
    ----------
    labels : dict of type to ndarray
    score : float
        The model's log-score.
    objective : float
        Score minus the cost of broken soft rules.
    upper_bound : float
        No labelling has a higher objective.
    status : Status
        ``optimal`` where the bound meets the objective.
    engine : str
    iterations : int
    broken : tuple of BrokenRule
        Rules that the labelling breaks.
    """

    labels: dict[str, np.ndarray]
    score: float
    objective: float
    upper_bound: float
    status: Status
    engine: str
    iterations: int
    broken: tuple[BrokenRule, ...] = ()

    @property
    def gap(self) -> float:
        """Distance of the objective from its bound."""
        return max(0.0, self.upper_bound - self.objective)


class GraphDecoder:
    """Decodes graphs with one set of weights and rules.

    Parameters
    ----------
    model : GraphModel
    theta : ndarray
    names : GraphLabels
    rules : list of Rule
    on_infeasible : {"raise", "relax"}
    n_jobs : int
    """

    def __init__(
        self,
        model: GraphModel,
        theta: np.ndarray,
        names: GraphLabels,
        rules: Sequence[Any] = (),
        on_infeasible: str = "raise",
        n_jobs: int = 1,
    ):
        if on_infeasible not in ("raise", "relax"):
            raise InputError(f'on_infeasible must be "raise" or "relax"; got {on_infeasible!r}.')
        self.model, self.theta, self.names, self.n_jobs = model, theta, names, n_jobs
        self.rules, self.on_infeasible = list(rules), on_infeasible
        self.compiler = GraphRuleCompiler(self.rules, names.classes) if self.rules else None
        self._compiled: dict[Any, tuple[LogicFactors, GraphRows]] = {}

    def results(
        self, graphs: Sequence[TypedGraph], known: Sequence[np.ndarray] | None = None, **limits: Any
    ) -> list[Result]:
        """Decode every graph; ``known`` holds, for each, the labels that nodes may have, flat like unary scores."""

        def decode(item: tuple[TypedGraph, GraphPotentials]) -> Result:
            return self._decode(*item, limits)

        found: list[Result] = []
        for chunk, union, batch in self._scored(graphs, known):
            if self.compiler is None and not limits and batch.is_forest:
                found += _split(decode_graph(GraphProblem(union)), union, batch)
            else:
                found += in_threads(decode, _pieces(chunk, union, batch), self.n_jobs)
        return found

    def labellings(
        self, graphs: Sequence[TypedGraph], known: Sequence[np.ndarray] | None = None, **limits: Any
    ) -> list[GraphLabelling]:
        """Decode every graph and translate the answer into names."""
        return [self._named(graph, result) for graph, result in zip(graphs, self.results(graphs, known, **limits))]

    def marginals(self, graphs: Sequence[TypedGraph], method: str = "auto") -> list[np.ndarray]:
        """Node marginals of every graph, flat like its unary scores; rules do not enter."""

        def infer(item: tuple[TypedGraph, GraphPotentials]) -> np.ndarray:
            return graph_marginals(item[1], method).node

        found: list[np.ndarray] = []
        for chunk, union, batch in self._scored(graphs, None):
            if method == "auto" and batch.is_forest:
                node = graph_marginals(union, method).node
                found += np.split(node, batch.unary_offset[batch.node_pointer[1:-1]])
            else:
                found += in_threads(infer, _pieces(chunk, union, batch), self.n_jobs)
        return found

    def _scored(
        self, graphs: Sequence[TypedGraph], known: Sequence[np.ndarray] | None
    ) -> Iterator[tuple[Sequence[TypedGraph], GraphPotentials, GraphBatch]]:
        """Score graphs in chunks of bounded size, so that memory does not grow with their number."""
        for begin in range(0, len(graphs), CHUNK):
            chunk = graphs[begin : begin + CHUNK]
            batch = make_batch(chunk, self.names.counts)
            union = self.model.potentials(self.theta, batch)
            if known is not None:
                allowed = np.concatenate(known[begin : begin + CHUNK])
                union = replace(union, unary=np.where(allowed, union.unary, -np.inf))
            yield chunk, union, batch

    def _decode(self, graph: TypedGraph, potentials: GraphPotentials, limits: dict[str, Any]) -> Result:
        if self.compiler is None:
            return decode_graph(GraphProblem(potentials), **limits)
        problem = GraphProblem(potentials, *self._compile(graph, self.compiler))
        result = decode_graph(problem, **limits)
        if result.status is not Status.infeasible:
            return result
        if self.on_infeasible == "relax":
            return relax_graph(problem)
        names = tuple(self.rules[r].label for r in minimal_conflict_graph(problem))
        if not names:
            raise InfeasibleError(
                "the known labels and the model forbid every labelling of a graph; free some labels."
            )
        raise InfeasibleError(
            f"no labelling satisfies the hard rules {', '.join(map(repr, names))} together; make one soft, or "
            'use on_infeasible="relax".',
            names,
        )

    def _compile(self, graph: TypedGraph, compiler: GraphRuleCompiler) -> tuple[LogicFactors, GraphRows]:
        """Compile the rules for a graph; without relations they depend on the numbers of its nodes alone."""
        if graph.relations:
            return compiler.compile(graph)
        key = tuple(sorted(graph.n_nodes.items()))
        if key not in self._compiled:
            self._compiled[key] = compiler.compile(graph)
        return self._compiled[key]

    def _named(self, graph: TypedGraph, result: Result) -> GraphLabelling:
        return GraphLabelling(
            self.names.decode(graph, result.labels),
            result.score,
            result.objective,
            result.upper_bound,
            result.status,
            result.engine,
            result.iterations,
            tuple(BrokenRule(self.rules[b.rule].label, b.amount, b.cost) for b in result.broken),
        )


def _pieces(
    chunk: Sequence[TypedGraph], union: GraphPotentials, batch: GraphBatch
) -> list[tuple[TypedGraph, GraphPotentials]]:
    return [(graph, batch.potentials_of(union, k)) for k, graph in enumerate(chunk)]


def _split(result: Result, union: GraphPotentials, batch: GraphBatch) -> list[Result]:
    """Cut the optimum of a union of graphs into the optima of the graphs."""
    if result.status is not Status.optimal:
        pieces = [batch.potentials_of(union, g) for g in range(batch.n_graphs)]
        return [decode_graph(GraphProblem(piece)) for piece in pieces]
    out = []
    for g in range(batch.n_graphs):
        labels = result.labels[batch.node_pointer[g] : batch.node_pointer[g + 1]]
        score = batch.potentials_of(union, g).score(labels)
        out.append(Result(labels, score, score, score, Status.optimal, result.engine, result.iterations))
    return out
