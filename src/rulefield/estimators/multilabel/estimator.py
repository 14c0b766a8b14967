"""Multi-label classification as a small graph of labels, one for each sample."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from rulefield.data.graphs import Features, TypedGraph, is_forest
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.graph.decoding import (
    NODE,
    Allowed,
    GraphDecoder,
    GraphRules,
    SearchLimits,
    outputs_graph,
)
from rulefield.estimators.graph.estimator import ALGORITHMS, GraphCRF, Rules
from rulefield.estimators.graph.inputs import checked_weight
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.multilabel.samples import (
    allowed_values,
    by_label,
    chosen_edges,
    default_predictors,
    encoded_labels,
    graphs_of_features,
    graphs_of_scores,
    held_out_part,
    score_scale,
)
from rulefield.estimators.parameters import (
    N_JOBS,
    ON_INFEASIBLE,
    RULES,
    check_parameters,
    either,
    instance_of,
    number,
    one_of,
    optional,
    whole,
)
from rulefield.estimators.predictors.cross_fitting import CrossFitting, FittedScores, ScoreTask, cross_fit_scores
from rulefield.estimators.saving import SavedModel, State
from rulefield.estimators.tables import KnownTable, check_feature_names, usable_features
from rulefield.estimators.types import ArrayLike, Transformer
from rulefield.exceptions import InputError, LabelError, ModelFileError
from rulefield.forms import Form, are_labels, check_arrays, part_of
from rulefield.inference.graph.decode import NODE_LIMIT
from rulefield.inference.graph.fields import exact_field_of
from rulefield.inference.graph.reweighted import Sums
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import FitResult

FOLDS = 5
"""Parts of the samples for cross-fitting predictors."""
EXACT_LABELS = 14
"""Labels up to which sums over all label vectors are exact and quick."""
SCORED_SAMPLES = 100
"""Samples from which on ``predictors="auto"`` scores labels by cross-fitted classifiers; with fewer, features are used."""
L2_CHOICES, L2_ELSE = (3.0, 1.0, 0.3, 0.1), 1.0
"""Values of ``l2`` among which ``auto`` chooses by the likelihood of held-out parts; the value if there is no choice."""
CHOICE_TOL = 1e-4
"""``tol`` of the fits by which ``l2`` is chosen."""
DEFAULT_TOL = 1e-6
INNER = "field."
"""Beginning of the names of the inner model's arrays in a file."""


@dataclass(kw_only=True, eq=False, repr=False)
class MultiLabelCRF(ClassifierMixin, SavedModel, BaseEstimator):
    """Multi-label classifier: one binary node for each label, edges between labels that depend on each other.

    Each label is a linear classifier of the features; each edge adds a score for every pair of values of two labels,
    so that labels which go together are predicted together. A single label (binary or multi-class ``y``) is a graph
    with one node: plain logistic regression, or a linear SVM.

    Parameters
    ----------
    structure : {"auto", "tree", "full", "none"} or array-like of shape (n_edges, 2), default "auto"
        Which labels are joined: the tree of highest mutual information (Chow and Liu), all pairs, no pair. ``auto``: all
        pairs of up to 14 labels if the algorithm is ``likelihood`` (its sums are exact then), else the tree.
    algorithm : {"likelihood", "ssvm"}, default "likelihood"
        See :class:`rulefield.GraphCRF`. On a tree the likelihood is exact.
    l2 : float or "auto", default "auto"
        Weight of the squared weights beside the sum of losses. ``auto``: 3, or 1, .3 or .1 as long as each makes label
        vectors of held-out samples more likely, if labels are scored by predictors and ``algorithm`` is ``likelihood``;
        else 1.
    predictors : "auto", list of classifiers or None, default "auto"
        scikit-learn classifiers, one copy per label: their cross-fitted log-odds stand in the place of the features, and
        change the scores of pairs; refitted on all samples for prediction. A list inside the list holds alternatives.
        ``auto``: logistic regression, its penalty chosen by cross-fitted loss, if several labels have 100 samples or
        more; else None, which uses the features themselves, dense ones brought to mean 0 and variance 1.
    rules : list of rules, optional
        Every prediction obeys the hard ones and pays for breaking soft ones. They are about the nodes
        ``node("label", 0)``, ``node("label", 1)``, ..., whose values are those of ``y``.
    on_infeasible : {"raise", "relax"}, default "raise"
        What to do where hard rules contradict each other: raise, naming them, or break them as little as possible.
    max_iter : int, optional
        Most iterations (passes for ``ssvm``). None: 1000, for ``ssvm`` 200.
    tol : float, optional
        Relative decrease of the objective (for ``ssvm``: relative duality gap) at which learning stops. None: 1e-6.
    n_jobs : int, optional
        Threads (-1: one per core). The result is the same for any number.

    Attributes
    ----------
    classes_ : ndarray, or list of ndarray for a multi-label target
    edges_ : ndarray of int64, shape (n_edges, 2)
    crf_ : GraphCRF
        The fitted field.
    l2_ : float
        The ``l2`` that was used.
    n_features_in_, feature_names_in_, n_iter_, converged_, log_, stopped_because_ : as in :class:`rulefield.ChainCRF`
    predictors_ : list of lists
        Fitted classifiers by predictor and label, where there are any.

    Examples
    --------
    >>> import numpy as np
    >>> import rulefield as rf
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Y = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    >>> rf.MultiLabelCRF(l2=0.1).fit(X, Y).predict(X).tolist()
    [[0, 1], [0, 1], [1, 0], [1, 0]]
    """

    structure: str | Sequence[Sequence[int]] | np.ndarray = "auto"
    algorithm: str = "likelihood"
    l2: float | str = "auto"
    predictors: Sequence[Any] | str | None = "auto"
    rules: Rules = None
    on_infeasible: str = "raise"
    max_iter: int | None = None
    tol: float | None = None
    n_jobs: int | None = None

    _kind = "MultiLabelCRF"
    _given_to_load = ("predictors",)
    _saved = (
        "edges_",
        "l2_",
        "n_features_in_",
        "feature_names_in_",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
        "_multilabel",
        "_class_list",
        "_scaler",
        "_score_scale",
        "_fitted_scores",
    )
    n_features_in_: int = field(init=False)
    crf_: GraphCRF = field(init=False)
    l2_: float = field(init=False)
    edges_: np.ndarray = field(init=False)
    _multilabel: bool = field(init=False)
    _class_list: list[np.ndarray] = field(init=False)
    _scaler: StandardScaler | None = field(init=False)
    _score_scale: np.ndarray | None = field(init=False)
    _fitted_scores: FittedScores | None = field(init=False)
    _parameters: ClassVar = {
        "structure": either(
            one_of("auto", "tree", "full", "none"), instance_of("pairs of labels", list, tuple, np.ndarray)
        ),
        "algorithm": one_of(*ALGORITHMS),
        "l2": either(number(), one_of("auto")),
        "predictors": optional(either(one_of("auto"), instance_of("a list of classifiers", list, tuple))),
        "rules": RULES,
        "on_infeasible": ON_INFEASIBLE,
        "max_iter": optional(whole(1)),
        "tol": optional(number()),
        "n_jobs": N_JOBS,
    }

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from features (n_samples, n_features), which may be sparse, and labels (n_samples, n_labels) of 0 and 1.

        A column of classes (n_samples,) does as well; ``sample_weight`` is (n_samples,).
        """
        check_parameters(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True, dtype=np.float64)
        usable_features(X)
        check_classification_targets(y)
        targets = np.asarray(y)
        self._multilabel = targets.ndim == 2 and targets.shape[1] > 1
        self._class_list, numbers = encoded_labels(targets.reshape(len(targets), -1))
        if not self._multilabel and len(self._class_list[0]) < 2:
            raise LabelError(
                f"y must hold two classes at least; the data has one class: {self._class_list[0].tolist()}."
            )
        exact = self.algorithm == "likelihood" and numbers.shape[1] <= EXACT_LABELS
        self.edges_ = chosen_edges(self.structure, numbers, exact)
        labels = [{name: [int(k)] for name, k in zip(self._names, row)} for row in numbers]
        weight = checked_weight(sample_weight, len(numbers))
        scores = self._cross_fitted(X, numbers, sample_weight)
        self._score_scale = None if scores is None else score_scale(scores, weight)
        plain = scores is None and not sparse.issparse(X)
        self._scaler = StandardScaler().fit(X, sample_weight=sample_weight) if plain else None
        graphs = self._as_graphs(X, scores)
        self.crf_, result = self._learned(graphs, labels, targets, weight)
        self.l2_ = self.crf_.l2
        report_fit(self, result)
        self.n_iter_ = max(self.crf_.n_iter_, 1)
        return self

    def _new_field(self, l2: float, tol: float) -> GraphCRF:
        labels = {name: len(c) for name, c in zip(self._names, self._class_list)}
        return GraphCRF(
            algorithm=self.algorithm, l2=l2, labels=labels, max_iter=self.max_iter, tol=tol, n_jobs=self.n_jobs
        )

    def _learned(
        self, graphs: list[TypedGraph], labels: list[Any], targets: np.ndarray, weight: np.ndarray
    ) -> tuple[GraphCRF, FitResult]:
        """Learn the field, with the ``l2`` under which held-out label vectors are most likely if it is to be chosen.

        The weights of one ``l2`` are the start for the next. Ctrl-C on the way returns what was learned last.
        """
        l2, start = L2_ELSE if isinstance(self.l2, str) else float(self.l2), None
        if self._chooses_l2(len(graphs)):
            kept, rest = held_out_part(len(graphs))
            known = [graphs[i] for i in kept], [labels[i] for i in kept], weight[kept]
            held, allowed = [graphs[i] for i in rest], self._allowed(targets[rest], len(rest))
            best = -np.inf
            result: FitResult | None = None
            for choice in L2_CHOICES:
                field = self._new_field(choice, CHOICE_TOL)
                result = field._learn(*known, start=None if result is None else result.theta)
                if result.interrupted:
                    return field, result
                likelihood = float(weight[rest] @ self._log_joint(self._decoder([], field), held, allowed))
                if likelihood <= best:
                    break
                best, l2, start = likelihood, choice, result.theta
        field = self._new_field(l2, DEFAULT_TOL if self.tol is None else self.tol)
        return field, field._learn(graphs, labels, weight, start=start)

    def _chooses_l2(self, n_samples: int) -> bool:
        """Whether ``l2`` is chosen: few weights, whose likelihood is an exact sum, and enough samples."""
        n_labels = len(self._class_list)
        exact = n_labels <= EXACT_LABELS or is_forest(n_labels, self.edges_)
        asked = isinstance(self.l2, str) and self.algorithm == "likelihood" and self._fitted_scores is not None
        return asked and exact and n_samples >= SCORED_SAMPLES

    def _cross_fitted(self, X: Features, numbers: np.ndarray, weight: ArrayLike | None) -> np.ndarray | None:
        """Scores (n_samples, n_labels, width) of predictors that did not see the sample; None without predictors."""
        self._fitted_scores = None
        predictors = self._chosen_predictors(X, numbers)
        if predictors is None:
            return None
        how = CrossFitting(predictors, FOLDS, 0, self.n_jobs)
        share = None if weight is None else np.asarray(weight, dtype=np.float64)
        scores, _, self._fitted_scores = cross_fit_scores(how, X, numbers.astype(float), self._task, share)
        return by_label(scores)

    def _chosen_predictors(self, X: Features, numbers: np.ndarray) -> Sequence[Any] | None:
        """Return the predictors that were given, or those of ``auto``."""
        if not isinstance(self.predictors, str):
            return self.predictors
        if numbers.shape[1] < 2 or len(numbers) < SCORED_SAMPLES:
            return None
        return default_predictors(centered=not sparse.issparse(X))

    # --- what a fitted model says ---------------------------------------------------------------------

    @property
    def classes_(self) -> Any:
        """Values of the label, or of each label."""
        return list(self._class_list) if self._multilabel else self._class_list[0]

    @property
    def predictors_(self) -> list[list[Any]]:
        """Fitted classifiers by predictor and label, where there are any."""
        if self._fitted_scores is None:
            raise AttributeError("predictors_ are those of a model with predictors.")
        return self._fitted_scores.members

    @property
    def _names(self) -> list[str]:
        """Type of each label's node; sorted by name they are sorted by number."""
        width = len(str(len(self._class_list) - 1))
        return [f"label{k:0{width}d}" for k in range(len(self._class_list))]

    # --- prediction -------------------------------------------------------------------------------

    def predict(self, X: Any, *, rules: Rules = None, known: KnownTable = None) -> np.ndarray:
        """Return the best joint labeling of each sample: (n_samples, n_labels), or (n_samples,) for one label.

        ``rules`` act in place of the model's own, ``[]`` for none; ``known`` are labels known beforehand, of the same shape,
        NaN or None where free (a row may be None).
        """
        X = self._checked(X)
        results = self._decoder(rules, self.crf_).results(self._graphs(X), self._allowed(known, X.shape[0]))
        numbers = np.stack([result.labels for result in results])
        columns = [classes[numbers[:, k]] for k, classes in enumerate(self._class_list)]
        return np.stack(columns, axis=1) if self._multilabel else columns[0]

    def decode(
        self,
        X: Any,
        *,
        rules: Rules = None,
        known: KnownTable = None,
        engine: str = "auto",
        node_limit: int = NODE_LIMIT,
        seconds: float | None = None,
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the best labeling of each sample with score, bound, status and the rules it breaks.

        The other arguments are those of :meth:`predict` and of :meth:`rulefield.GraphCRF.decode`.
        """
        search = SearchLimits.checked(engine, node_limit, seconds)
        X = self._checked(X)
        graphs, allowed = self._graphs(X), self._allowed(known, X.shape[0])

        def named(graph: TypedGraph, numbers: np.ndarray) -> list[Any]:
            return [classes[k].item() for classes, k in zip(self._class_list, numbers)]

        return self._decoder(rules, self.crf_).labelings(graphs, allowed, search, named, verify)

    def predict_proba(self, X: Any, *, rules: Rules = None, known: KnownTable = None) -> Any:
        """Marginal probabilities: a list of (n_samples, n_classes), one for each label; one array for one label.

        Exact under rules, and without them unless too many labels are joined too densely: tree-reweighted then. The
        arguments are those of :meth:`predict`.
        """
        X = self._checked(X)
        decoder, graphs, allowed = self._decoder(rules, self.crf_), self._graphs(X), self._allowed(known, X.shape[0])
        sums = None if decoder.rules else self._sums(decoder, graphs, allowed)
        marginals = decoder.marginals(graphs, allowed) if sums is None else [one.node for one in sums]
        cuts = np.cumsum([len(classes) for classes in self._class_list])[:-1]
        tables = np.split(np.concatenate(marginals).reshape(X.shape[0], -1), cuts, axis=1)
        return tables if self._multilabel else tables[0]

    def predict_joint_log_proba(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of each sample's labels together, (n_samples,); exact. Labels that are NaN or None are summed over.

        A tree of labels may be as large as you like; where all pairs are joined, up to 20 labels of two values are summed.
        """
        X = self._checked(X)
        return self._log_joint(self._decoder([], self.crf_), self._graphs(X), self._allowed(y, X.shape[0]))

    def _log_joint(self, decoder: GraphDecoder, graphs: list[TypedGraph], allowed: Allowed) -> np.ndarray:
        """Log-probability of the label vectors that are allowed, for each sample."""
        held, every = self._sums(decoder, graphs, allowed), self._sums(decoder, graphs, None)
        if held is None or every is None:
            raise InputError(
                f"joint probabilities are exact sums, too large for {len(self._class_list)} labels joined so densely; "
                'use structure="tree".'
            )
        return np.concatenate([one.values for one in held]) - np.concatenate([one.values for one in every])

    @staticmethod
    def _sums(decoder: GraphDecoder, graphs: list[TypedGraph], allowed: Allowed) -> list[Sums] | None:
        """Log-partition values and marginals of chunks of samples; None if exact sums would be too large."""
        sums = []
        for _, union, batch in decoder.scored(graphs, allowed):
            field = exact_field_of(batch)
            if field is None:
                return None
            sums.append(field.marginals(union.unary, union.pairwise))
        return sums

    def score(
        self, X: Any, y: Any, *, rules: Rules = None, known: KnownTable = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of samples all of whose labels are predicted right, as scikit-learn counts multi-label accuracy."""
        predicted, truth = self.predict(X, rules=rules, known=known), np.asarray(y)
        if truth.shape != predicted.shape:
            raise InputError(f"y must have the shape {predicted.shape} of the predictions; got {truth.shape}.")
        right = (predicted == truth).reshape(len(truth), -1).all(axis=1)
        return float(np.average(right, weights=sample_weight))

    def _checked(self, X: Any) -> Features:
        check_is_fitted(self, "crf_")
        return usable_features(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))

    def _decoder(self, rules: Rules, crf: GraphCRF) -> GraphDecoder:
        first = self._class_list[0]
        acting = GraphRules.of(self, rules, {NODE: first})
        if acting and any(not np.array_equal(classes, first) for classes in self._class_list):
            raise InputError("rules need labels that all have the same classes; this target's columns differ.")
        seen = outputs_graph(len(self._class_list))
        return GraphDecoder(crf.model_, crf.theta_, crf._names, acting, self.n_jobs, seen)

    def _allowed(self, known: KnownTable, n_samples: int) -> Allowed:
        return allowed_values(known, self._class_list, n_samples)

    # --- samples as graphs ----------------------------------------------------------------------------

    @property
    def _task(self) -> ScoreTask:
        n_classes = max(map(len, self._class_list))
        return ScoreTask("binary" if n_classes == 2 else "classes", n_classes)

    def _graphs(self, X: Features) -> list[TypedGraph]:
        """Return the graphs of new samples."""
        return self._as_graphs(X, None if self._fitted_scores is None else by_label(self._fitted_scores(X)))

    def _as_graphs(self, X: Features, scores: np.ndarray | None) -> list[TypedGraph]:
        """One graph for each sample, of predictors' scores or of its row of features."""
        if scores is not None:
            return graphs_of_scores(scores / self._score_scale, self._names, self.edges_)
        return graphs_of_features(X if self._scaler is None else self._scaler.transform(X), self._names, self.edges_)

    # --- scikit-learn and files -------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = True
        return tags

    def _params_to_save(self) -> dict[str, Any]:
        return {"predictors": "auto" if self.predictors == "auto" else None}  # others come back with the fitted ones

    def _state(self) -> State:
        arrays, field = self.crf_._whole_state()
        return {f"{INNER}{name}": array for name, array in arrays.items()}, {"field": field}

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        self.crf_ = GraphCRF._from_state(part_of(arrays, INNER), metadata["field"])
        check_feature_names(self)
        if self._fitted_scores is not None:
            self._fitted_scores = self._fitted_scores.filled(given.get("predictors"))
            self.predictors = "auto" if self.predictors == "auto" else self._fitted_scores.chosen
        self._check_restored()

    def _check_restored(self) -> None:
        """Refuse attributes of a file that do not fit each other or the field."""
        scores, n_labels = self._fitted_scores, len(self._class_list)
        width = self.n_features_in_ if scores is None else scores.task.width * len(scores.members)
        check_arrays(
            {"edges": self.edges_}, {"edges": Form(("int64",), ("edges", "2"), below="labels")}, {"labels": n_labels}
        )
        if self._score_scale is not None:
            form = Form(("float64",), ("labels", "width"), least=1e-300)
            check_arrays({"scale": self._score_scale}, {"scale": form}, {"labels": n_labels, "width": width})
        spec, counts = self.crf_.model_.spec, [len(classes) for classes in self._class_list]
        pairs = set(map(tuple, np.array(self._names)[self.edges_].tolist()))
        good = (
            all(c.ndim == 1 and are_labels(c.tolist()) for c in self._class_list)
            and (scores is None) == (self._score_scale is None)
            and (scores is None or (scores.task == self._task and self._scaler is None))
            and (self._scaler is None or self._scaler.n_features_in_ == width)
            and spec.labels == dict(zip(self._names, counts))
            and all(np.array_equal(c, np.arange(len(c))) for c in self.crf_.classes_.values())
            and spec.features == dict.fromkeys(self._names, width + 1)
            and spec.edge_features == dict.fromkeys(pairs, 1 if scores is None else 3)
            and self._multilabel == (n_labels > 1)
        )
        if not good:
            raise ModelFileError("the labels of the model file do not fit its field; save the model again.")
        if scores is not None:
            scores.check(self.n_features_in_)
