"""What a fitted graph model answers: labels by type, probabilities, scores; under rules if any."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rulefield.data.graphs import Pair, TypedGraph
from rulefield.encode.graph_labels import UNKNOWN, GraphLabels
from rulefield.estimators.base import SavedModel
from rulefield.estimators.graph.decoding import GraphDecoder, SearchLimits
from rulefield.estimators.graph.inputs import Known, Labels, checked_graphs, checked_labels, checked_weight
from rulefield.estimators.graph.predictors import FittedPredictors
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import RULES, check_call, check_parameters, check_value, one_of, rule_list
from rulefield.estimators.types import RulesLike
from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.graph.decode import ENGINES, NODE_LIMIT
from rulefield.inference.graph.marginals import METHODS
from rulefield.models.graph import GraphModel
from rulefield.rules.graph.compiler import GraphRuleCompiler

Rules = RulesLike | None


class FittedGraph(SavedModel, BaseEstimator):
    """The half of :class:`rulefield.GraphCRF` that works once weights are there."""

    _structured = True

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    rules: Rules
    on_infeasible: str
    n_jobs: int | None
    classes_: dict[str, np.ndarray]
    model_: GraphModel
    theta_: np.ndarray
    _names: GraphLabels
    _predictors: FittedPredictors | None
    _plain_labels: bool

    @property
    def coef_(self) -> dict[str, np.ndarray]:
        """Weights of each type, (n_labels, n_features)."""
        self._check_fitted()
        return {t: self.model_.weights(self.theta_, t).T for t in sorted(self.classes_)}

    @property
    def edge_coef_(self) -> dict[Pair, np.ndarray]:
        """Weights of each pair of types, (n_labels, n_labels', n_edge_features)."""
        self._check_fitted()
        counts = self._names.counts
        return {
            (a, b): self.model_.weights(self.theta_, (a, b)).T.reshape(counts[a], counts[b], -1)
            for a, b in sorted(self.model_.spec.edge_features)
        }

    # --- prediction -------------------------------------------------------------------------------

    def predict(self, X: Sequence[TypedGraph], *, rules: Rules = None, known: Known = None) -> np.ndarray:
        """Return the labels of each graph: a 1-D object array of dicts by type (arrays, if ``fit`` was given these).

        Parameters
        ----------
        X : list of TypedGraph
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list, optional
            What is known beforehand, one entry per graph, as ``y`` in ``fit``: labels, ``None`` where free, sets.
        """
        graphs = self._graphs(X)
        results = self._decoder(rules).results(graphs, self._allowed(graphs, known))
        out = np.empty(len(graphs), dtype=object)
        for i, (graph, result) in enumerate(zip(graphs, results)):
            if len(result.labels) == 0 < sum(graph.n_nodes.values()):
                raise InfeasibleError(
                    f"graph {i}: no labeling that obeys the hard rules was found within the limits of the search; "
                    "decode() takes a larger node_limit."
                )
            named = self._names.decode(graph, result.labels)
            out[i] = next(iter(named.values())) if self._plain_labels else named
        return out

    def decode(
        self,
        X: Sequence[TypedGraph],
        *,
        rules: Rules = None,
        known: Known = None,
        engine: str = "auto",
        node_limit: int = NODE_LIMIT,
        seconds: float | None = None,
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the best labeling of each graph with score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine : str
            ``"auto"`` walks from cheap to exact; others: :func:`rulefield.inference.graph.decode.decode_graph`.
        node_limit : int
            Search nodes after which the best labeling so far is returned, with its gap.
        seconds : float, optional
            The same in seconds; the answer then depends on the machine.
        verify : bool
            Whether the checker of proofs must accept each answer's proof before it is returned.
        """
        check_value("engine", engine, one_of(*ENGINES))
        check_call(node_limit=node_limit, seconds=seconds)
        graphs = self._graphs(X)
        decoder = self._decoder(rules)
        allowed = self._allowed(graphs, known)
        results = decoder.results(graphs, allowed, SearchLimits(engine, node_limit, seconds))
        names = [rule.label for rule in decoder.rules]
        found = [
            replace(
                Labeling.named(result, self._listed(graph, result.labels), names),
                prover=partial(decoder.prove, graphs, allowed, i, result),
            )
            for i, (graph, result) in enumerate(zip(graphs, results))
        ]
        return [answer.verified() for answer in found] if verify else found

    def predict_marginals(
        self, X: Sequence[TypedGraph], *, rules: Rules = None, known: Known = None, method: str = "auto"
    ) -> list[dict[str, np.ndarray]]:
        """Return the probability of each label at each node: one dict for each graph, by type, (n_nodes, n_labels).

        Without rules exact on forests and the tree-reweighted approximation on graphs with loops. Under rules the sum
        runs over the labelings that hard rules allow, each multiplied by exp(-cost) of the soft rules it breaks; it is
        exact, and refused (:class:`~rulefield.exceptions.InputError`) where its tables would grow too large.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        method : {"auto", "exact", "tree_reweighted", "loopy"}
            ``"exact"`` sums on graphs with loops, too; the last two are approximations and know no rules.
        """
        check_value("method", method, one_of(*METHODS))
        graphs = self._graphs(X)
        decoder = self._decoder(rules)
        if decoder.rules and method in ("tree_reweighted", "loopy"):
            raise InputError(f'method="{method}" knows no rules; use "auto", or rules=[].')
        found = decoder.marginals(graphs, self._allowed(graphs, known), method)
        return [self._names.by_type(graph, marginals) for graph, marginals in zip(graphs, found)]

    def score(
        self,
        X: Sequence[TypedGraph],
        y: Sequence[Labels],
        *,
        rules: Rules = None,
        known: Known = None,
        sample_weight: Sequence[float] | np.ndarray | None = None,
    ) -> float:
        """Share of nodes with a known label (or set) that get it, over all types (weighted by graph)."""
        guesses = self.predict(X, rules=rules, known=known)
        labels = checked_labels(y, len(guesses))
        right, total = self._hits(X, labels, guesses, checked_weight(sample_weight, len(guesses)))
        return float(sum(right.values()) / max(sum(total.values()), 1e-300))

    def score_by_type(
        self, X: Sequence[TypedGraph], y: Sequence[Labels], *, rules: Rules = None, known: Known = None
    ) -> dict[str, float]:
        """Share of nodes with a known label (or set) that get it, for each type."""
        guesses = self.predict(X, rules=rules, known=known)
        right, total = self._hits(X, checked_labels(y, len(guesses)), guesses, np.ones(len(guesses)))
        return {t: float(right[t] / total[t]) for t in total if total[t]}

    def _hits(
        self, X: Sequence[TypedGraph], y: Sequence[Labels], guesses: np.ndarray, weight: np.ndarray
    ) -> tuple[dict[str, float], dict[str, float]]:
        names = self._names
        right, total = dict.fromkeys(self.classes_, 0.0), dict.fromkeys(self.classes_, 0.0)
        for graph, truth, guess, w in zip(X, y, guesses, weight):
            wanted = names.by_type(graph, names.allowed(graph, truth))
            single = names.by_type(graph, names.encode(graph, truth) != UNKNOWN, flat=False)
            for t, numbers in names.by_type(graph, names.encode(graph, guess), flat=False).items():
                told = single[t] | ~wanted[t].all(axis=1)
                right[t] += w * float(wanted[t][np.arange(len(told)), numbers][told].sum())
                total[t] += w * float(told.sum())
        return right, total

    def _listed(self, graph: TypedGraph, numbers: np.ndarray) -> Any:
        """Labels as a list, by type where ``fit`` was given them so."""
        named = {t: labels.tolist() for t, labels in self._names.decode(graph, numbers).items()}
        return next(iter(named.values())) if self._plain_labels else named

    def _decoder(self, rules: Rules) -> GraphDecoder:
        check_parameters(self)
        rules = rule_list(self.rules if rules is None else rules)
        check_value("rules", rules, RULES)
        compiler = GraphRuleCompiler(rules, self._names.classes, self.on_infeasible == "relax")
        return GraphDecoder(
            self.model_, self.theta_, self._names, rules, compiler.compile, self.on_infeasible, self.n_jobs
        )

    def _graphs(self, X: Sequence[TypedGraph]) -> list[TypedGraph]:
        self._check_fitted()
        graphs = checked_graphs(X)
        return graphs if self._predictors is None else self._predictors(graphs)

    def _allowed(self, graphs: Sequence[TypedGraph], known: Known) -> list[np.ndarray] | None:
        """Labels that each graph's nodes may have, flat, when some are known; None where nothing is."""
        if known is None:
            return None
        given = checked_labels(known, len(graphs), "known")
        return [self._names.allowed(graph, labels) for graph, labels in zip(graphs, given)]

    # --- scikit-learn -----------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        check_is_fitted(self)
