"""From graphs and weights to labelings and marginals: potentials, rules, engine, names."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_labels import GraphLabels
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import RULES, check_call, check_parameters, check_value, one_of, rule_list
from rulefield.estimators.types import RulesLike
from rulefield.exceptions import InfeasibleError
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.decode import ENGINES, NODE_LIMIT, decode_graph
from rulefield.inference.graph.marginals import exact_draws, exact_sums, graph_marginals
from rulefield.inference.proof.graphs import prove_graph
from rulefield.inference.proof.proof import Proof
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.models.graph import GraphModel
from rulefield.models.graph_batch import GraphBatch, make_batch
from rulefield.parallel import in_threads
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, LogicFactors
from rulefield.rules.graph.compiler import GraphRuleCompiler
from rulefield.rules.rule import Rule

CHUNK = 256
NODE = "label"
"""Type of the outputs of tables in rules: ``r.node("label", 3).is_(1)``, ``r.nodes("label").is_(1)``."""

Allowed = Sequence[np.ndarray] | None
"""For each graph the labels that its nodes may have, flat like unary scores; None where nothing is known."""


def outputs_graph(n: int) -> TypedGraph:
    """Return the graph that rules on the ``n`` outputs of a table speak of."""
    return TypedGraph({NODE: np.zeros((n, 1))})


@dataclass(frozen=True)
class SearchLimits:
    """Which engine looks for the best labeling, and how long."""

    engine: str = "auto"
    node_limit: int = NODE_LIMIT
    seconds: float | None = None

    @classmethod
    def checked(cls, engine: str, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> "SearchLimits":
        """Return the limits that ``decode`` was given."""
        check_value("engine", engine, one_of(*ENGINES))
        check_call(node_limit=node_limit, seconds=seconds)
        return cls(engine, node_limit, seconds)


DEFAULT_SEARCH = SearchLimits()


class GraphRules:
    """Answers to single problems on graphs under rules: the best labeling, sums, draws, proofs.

    ``classes`` are the labels, by type, of the nodes that rules speak of.
    """

    def __init__(self, rules: Sequence[Rule], classes: Mapping[str, np.ndarray], on_infeasible: str = "raise"):
        self.rules, self.on_infeasible = list(rules), on_infeasible
        self._compiler = GraphRuleCompiler(self.rules, dict(classes), on_infeasible == "relax")
        self._compiled: dict[Hashable, tuple[LogicFactors, GraphRows]] = {}

    @classmethod
    def of(cls, estimator: Any, rules: RulesLike | None, classes: Mapping[str, np.ndarray]) -> "GraphRules":
        """Return the rules that a method was given, or the estimator's own."""
        check_parameters(estimator)
        acting = rule_list(estimator.rules if rules is None else rules)
        check_value("rules", acting, RULES)
        return cls(acting, classes, estimator.on_infeasible)

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def names(self) -> list[str]:
        """What the rules are called."""
        return [rule.label for rule in self.rules]

    def problem(self, graph: TypedGraph, potentials: GraphPotentials) -> GraphProblem:
        """Add the rules; without relations they depend on the numbers of the graph's nodes alone."""
        if not self.rules:
            return GraphProblem(potentials)
        if graph.relations:
            return GraphProblem(potentials, *self._compiler.compile(graph))
        key = tuple(sorted(graph.n_nodes.items()))
        if key not in self._compiled:
            self._compiled[key] = self._compiler.compile(graph)
        return GraphProblem(potentials, *self._compiled[key])

    def decode(self, problem: GraphProblem, search: SearchLimits = DEFAULT_SEARCH) -> Result:
        """Return the best labeling; hard rules that no labeling obeys are named, or broken as little as possible."""
        result = decode_graph(problem, search.engine, search.node_limit, search.seconds)
        if result.status is not Status.infeasible:
            return result
        if self.rules and self.on_infeasible == "relax":
            return relax_graph(problem)
        raise self._conflict(problem)

    def prove(self, problem: GraphProblem, result: Result) -> Proof | None:
        """Return a proof of an answer; none where hard rules gave way."""
        if any(breach.cost == np.inf for breach in result.broken):
            return None
        return prove_graph(problem, result, [*map(repr, self.rules)])

    def marginals(self, problem: GraphProblem) -> np.ndarray:
        """Node marginals, flat like unary scores: exact sums, or a refusal."""
        sums = exact_sums(problem)
        if sums.log_partition == -np.inf:
            raise self._conflict(problem)
        return sums.node

    def draw(self, problem: GraphProblem, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw label numbers, (n_draws, n_nodes)."""
        drawn = exact_draws(problem, n_draws, rng)
        if drawn is None:
            raise self._conflict(problem)
        return drawn

    def _conflict(self, problem: GraphProblem) -> InfeasibleError:
        names = tuple(self.rules[r].label for r in minimal_conflict_graph(problem)) if self.rules else ()
        prover = partial(prove_graph, problem, INFEASIBLE, [*map(repr, self.rules)])
        if not names:
            return InfeasibleError(
                "the known labels and the model forbid every labeling of a graph; free some labels.", prover=prover
            )
        return InfeasibleError(
            f"no labeling satisfies the hard rules {', '.join(map(repr, names))} together with what is known; make one "
            'soft, or use on_infeasible="relax".',
            names,
            prover,
        )


class GraphDecoder:
    """Decodes many graphs with one set of weights and rules, which may speak of another graph (``seen``) than has scores."""

    def __init__(
        self,
        model: GraphModel,
        theta: np.ndarray,
        names: GraphLabels,
        rules: GraphRules,
        n_jobs: int | None = None,
        seen: TypedGraph | None = None,
    ):
        self.model, self.theta, self.names, self.rules = model, theta, names, rules
        self.n_jobs, self.seen = n_jobs, seen

    def results(
        self, graphs: Sequence[TypedGraph], known: Allowed = None, search: SearchLimits = DEFAULT_SEARCH
    ) -> list[Result]:
        """Decode every graph."""

        def decode(item: tuple[TypedGraph, GraphPotentials]) -> Result:
            return self.rules.decode(self._problem(*item), search)

        results: list[Result] = []
        for chunk, union, batch in self.scored(graphs, known):
            whole = decode_graph(GraphProblem(union)) if self._at_once(search, batch) else None
            if whole is not None and whole.status is Status.optimal:
                results += _split(whole, union, batch)
            else:
                results += in_threads(decode, _pieces(chunk, union, batch), self.n_jobs)
        return results

    def labelings(
        self,
        graphs: Sequence[TypedGraph],
        known: Allowed,
        search: SearchLimits,
        spell: Callable[[TypedGraph, np.ndarray], Any],
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the answers as users see them; ``spell`` names the labels of a graph."""
        names = self.rules.names
        labelings = []
        for i, (graph, result) in enumerate(zip(graphs, self.results(graphs, known, search))):
            prover = partial(self._prove, graphs, known, i, result)
            labelings.append(Labeling.named(result, spell(graph, result.labels), names, prover))
        return [answer.verified() for answer in labelings] if verify else labelings

    def _prove(self, graphs: Sequence[TypedGraph], known: Allowed, i: int, result: Result) -> Proof | None:
        scored = self.scored(graphs[i : i + 1], None if known is None else known[i : i + 1])
        (item,) = _pieces(*next(scored))
        return self.rules.prove(self._problem(*item), result)

    def marginals(
        self, graphs: Sequence[TypedGraph], known: Allowed = None, method: str = "auto"
    ) -> list[np.ndarray]:
        """Node marginals of every graph, flat like its unary scores; under rules they are exact or refused."""

        def infer(item: tuple[TypedGraph, GraphPotentials]) -> np.ndarray:
            return self._marginals(*item, method)

        found: list[np.ndarray] = []
        for chunk, union, batch in self.scored(graphs, known):
            if not self.rules and method == "auto" and batch.is_forest:
                node = graph_marginals(union, method).node
                found += np.split(node, batch.unary_offset[batch.node_pointer[1:-1]])
            else:
                found += in_threads(infer, _pieces(chunk, union, batch), self.n_jobs)
        return found

    def _at_once(self, search: SearchLimits, batch: GraphBatch) -> bool:
        """Whether one exact pass over the union of all graphs does."""
        return not self.rules and search == DEFAULT_SEARCH and batch.is_forest

    def scored(
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

    def _marginals(self, graph: TypedGraph, potentials: GraphPotentials, method: str) -> np.ndarray:
        if not self.rules and method != "exact":
            return graph_marginals(potentials, method).node
        return self.rules.marginals(self._problem(graph, potentials))

    def _problem(self, graph: TypedGraph, potentials: GraphPotentials) -> GraphProblem:
        return self.rules.problem(graph if self.seen is None else self.seen, potentials)


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
