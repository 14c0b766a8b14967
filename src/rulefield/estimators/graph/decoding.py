"""From graphs and weights to labelings and marginals: potentials, rules, engine, names."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_labels import GraphLabels
from rulefield.exceptions import InfeasibleError
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.decode import NODE_LIMIT, decode_graph
from rulefield.inference.graph.marginals import exact_sums, graph_marginals
from rulefield.inference.proof.graphs import prove_graph
from rulefield.inference.proof.proof import Proof
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.models.graph import GraphModel
from rulefield.models.graph_batch import GraphBatch, make_batch
from rulefield.parallel import in_threads
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, LogicFactors
from rulefield.rules.rule import Rule

CHUNK = 256

Compiled = tuple[LogicFactors, GraphRows]
Compile = Callable[[TypedGraph], Compiled]
Allowed = Sequence[np.ndarray] | None
"""For each graph the labels that its nodes may have, flat like unary scores; None where nothing is known."""


@dataclass(frozen=True)
class SearchLimits:
    """Which engine looks for the best labeling, and how long."""

    engine: str = "auto"
    node_limit: int = NODE_LIMIT
    seconds: float | None = None


DEFAULT_SEARCH = SearchLimits()


class GraphDecoder:
    """Decodes graphs with one set of weights and rules.

    Parameters
    ----------
    model : GraphModel
    theta : ndarray
    names : GraphLabels
    rules : list of Rule
    compile_rules : callable
        Gives the rules as factors and rows of a graph.
    on_infeasible : {"raise", "relax"}
    n_jobs : int or None
    """

    def __init__(
        self,
        model: GraphModel,
        theta: np.ndarray,
        names: GraphLabels,
        rules: Sequence[Rule],
        compile_rules: Compile,
        on_infeasible: str = "raise",
        n_jobs: int | None = None,
    ):
        self.model, self.theta, self.names, self.n_jobs = model, theta, names, n_jobs
        self.rules, self.on_infeasible = list(rules), on_infeasible
        self._compile = compile_rules
        self._compiled: dict[Hashable, Compiled] = {}

    def results(
        self, graphs: Sequence[TypedGraph], known: Allowed = None, search: SearchLimits = DEFAULT_SEARCH
    ) -> list[Result]:
        """Decode every graph."""

        def decode(item: tuple[TypedGraph, GraphPotentials]) -> Result:
            return self._decode(*item, search)

        found: list[Result] = []
        for chunk, union, batch in self._scored(graphs, known):
            whole = decode_graph(GraphProblem(union)) if self._at_once(search, batch) else None
            if whole is not None and whole.status is Status.optimal:
                found += _split(whole, union, batch)
            else:
                found += in_threads(decode, _pieces(chunk, union, batch), self.n_jobs)
        return found

    def prove(self, graphs: Sequence[TypedGraph], known: Allowed, i: int, result: Result) -> Proof | None:
        """Return a proof of the answer to graph ``i``; none where hard rules gave way."""
        if any(breach.cost == np.inf for breach in result.broken):
            return None
        scored = self._scored(graphs[i : i + 1], None if known is None else known[i : i + 1])
        graph, potentials = next(iter(_pieces(*next(scored))))
        return prove_graph(self._problem(graph, potentials), result, [*map(repr, self.rules)])

    def marginals(
        self, graphs: Sequence[TypedGraph], known: Allowed = None, method: str = "auto"
    ) -> list[np.ndarray]:
        """Node marginals of every graph, flat like its unary scores; under rules they are exact or refused."""

        def infer(item: tuple[TypedGraph, GraphPotentials]) -> np.ndarray:
            return self._marginals(*item, method)

        found: list[np.ndarray] = []
        for chunk, union, batch in self._scored(graphs, known):
            if not self.rules and method == "auto" and batch.is_forest:
                node = graph_marginals(union, method).node
                found += np.split(node, batch.unary_offset[batch.node_pointer[1:-1]])
            else:
                found += in_threads(infer, _pieces(chunk, union, batch), self.n_jobs)
        return found

    def _at_once(self, search: SearchLimits, batch: GraphBatch) -> bool:
        """Whether one exact pass over the union of all graphs does."""
        return not self.rules and search == DEFAULT_SEARCH and batch.is_forest

    def _scored(
        self, graphs: Sequence[TypedGraph], known: Allowed
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

    def _decode(self, graph: TypedGraph, potentials: GraphPotentials, search: SearchLimits) -> Result:
        problem = self._problem(graph, potentials)
        result = decode_graph(problem, search.engine, search.node_limit, search.seconds)
        if result.status is not Status.infeasible:
            return result
        if self.rules and self.on_infeasible == "relax":
            return relax_graph(problem)
        raise self._conflict(problem)

    def _marginals(self, graph: TypedGraph, potentials: GraphPotentials, method: str) -> np.ndarray:
        if not self.rules and method != "exact":
            return graph_marginals(potentials, method).node
        problem = self._problem(graph, potentials)
        sums = exact_sums(problem)
        if sums.log_partition == -np.inf:
            raise self._conflict(problem)
        return sums.node

    def _conflict(self, problem: GraphProblem) -> InfeasibleError:
        names = tuple(self.rules[r].label for r in minimal_conflict_graph(problem)) if self.rules else ()
        prover = partial(prove_graph, problem, INFEASIBLE, [*map(repr, self.rules)])
        if not names:
            return InfeasibleError(
                "the known labels and the model forbid every labeling of a graph; free some labels.", prover=prover
            )
        return InfeasibleError(
            f"no labeling satisfies the hard rules {', '.join(map(repr, names))} together; make one soft, or "
            'decode with on_infeasible="relax".',
            names,
            prover,
        )

    def _problem(self, graph: TypedGraph, potentials: GraphPotentials) -> GraphProblem:
        """Add the rules; without relations they depend on the numbers of the graph's nodes alone."""
        if not self.rules:
            return GraphProblem(potentials)
        if graph.relations:
            return GraphProblem(potentials, *self._compile(graph))
        key = tuple(sorted(graph.n_nodes.items()))
        if key not in self._compiled:
            self._compiled[key] = self._compile(graph)
        return GraphProblem(potentials, *self._compiled[key])


def _pieces(
    chunk: Sequence[TypedGraph], union: GraphPotentials, batch: GraphBatch
) -> list[tuple[TypedGraph, GraphPotentials]]:
    return [(graph, batch.potentials_of(union, k)) for k, graph in enumerate(chunk)]


def _split(result: Result, union: GraphPotentials, batch: GraphBatch) -> list[Result]:
    """Cut the optimum of a union of graphs into the optima of the graphs."""
    out = []
    for g in range(batch.n_graphs):
        labels = result.labels[batch.node_pointer[g] : batch.node_pointer[g + 1]]
        score = batch.potentials_of(union, g).score(labels)
        out.append(Result(labels, score, score, score, Status.optimal, result.engine, result.iterations))
    return out
