"""Gaussian CRF for classification: binary, multi-label, multi-class, over any graphs."""

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags

from rulefield.estimators.base import State
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.gaussian.base import PAPER_GRAPHS, GraphSources
from rulefield.estimators.gaussian.files import MOST_OUTPUTS, class_values, field_state, restore_field
from rulefield.estimators.gaussian.inputs import Batched, GaussianTraining, make_batches
from rulefield.estimators.gaussian.joint import JointLabels
from rulefield.estimators.gaussian.labels import LabelCodes, read_labels
from rulefield.estimators.gaussian.layouts import TableLayout
from rulefield.estimators.gaussian.rules import LabelRules
from rulefield.estimators.gaussian.scores import ScoreTask
from rulefield.estimators.labelings import Labeling
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import check_typed
from rulefield.inference.gaussian.field import expected_logistic
from rulefield.inference.gaussian.softmax import expected_softmax
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import FitResult
from rulefield.models.gaussian import GaussianModel
from rulefield.problem.gaussian import GaussianPotentials

METHODS = ("auto", "vb", "jj", "map")
FEWEST = 30  # instances from which a fifth of them can tell which method is better


class GaussianCRFClassifier(ClassifierMixin, JointLabels):
    r"""Join unstructured classifiers through a Gaussian field over graphs of outputs.

    Each output has a latent value z and :math:`P(y_i = 1 | z) = \sigma(z_i)`; the latent values of an instance are
    Gaussian, :math:`z \sim N(\mu, v A^{-1})` with :math:`A = I + \sum_l \rho_l L_l`, where the L are Laplacians of
    graphs and mu comes from the predictors. Weights of predictors and graphs are learned.

    Parameters
    ----------
    predictors : list of classifiers, "precomputed" or None
        Cross-fitted inside, one copy for each output, so that the field learns from scores of unseen rows. A list in
        the list holds alternatives; the one with the least cross-fitted log-loss is used. None: a logistic
        regression. ``"precomputed"``: X holds logits, (n_instances, n_outputs, n_predictors).
    graphs : list or None
        Graphs shared by all instances: names of builders (``"mutual_info"``, ``"chi2"``, ``"correlation"``,
        ``"label_distance"``, ``"residual_correlation"``, ``"overfit_correlation"``), similarity matrices (dense,
        sparse or networkx), or functions of the labels. None: ``["residual_correlation"]`` if instances share nodes.
        Graphs of single instances are given to ``fit`` and ``predict``.
    method : {"auto", "vb", "jj", "map"}
        ``"map"`` (the paper's GCRFBCnb) has no latent variance; ``"jj"`` (GCRFBCb) maximises Jaakkola and Jordan's
        bound; ``"vb"`` that of the best Gaussian, which is tighter. With several classes both use Böhning's bound.
        ``"auto"``: ``"vb"`` or ``"map"``, whichever gives a held-out fifth of the instances (if there are 30) the
        higher joint likelihood.
    mean : {"auto", "smoothed", "direct"}
        ``"smoothed"``: mu = A^-1 f; ``"direct"``: mu = f, so the graphs shape only the covariance and leave marginals
        to the predictors. ``"auto"``: direct for ``"vb"`` where instances share their nodes, else smoothed.
    paper : bool
        Faithful to the paper: weights on the simplex, no bias, smoothed mean, ``"jj"`` in place of ``"vb"``, its four
        graphs, and predictors that see 80 % of the data while the field sees the rest.
    per_output : bool or "auto"
        Whether each output has weights and a bias of its own, shrunk to shared ones by ``l2``.
    signed : bool
        Whether similarities may be negative (they then pull apart; with a weight of their own).
    cv : int, float, splitter or None
        Folds of the cross-fitting (None: 5); a share is held out from the predictors for the field.
    l2 : float
        Ridge on what is each output's own.
    max_iter, tol : int, float
    n_jobs : int or None
        For cross-fitting.
    random_state : int or None
    joint_predictors : bool
        Fit one copy of a predictor for all outputs where it can (forests, neighbours, networks) and no label is
        unknown: cheaper by the number of outputs, and often as good.
    rules : list of rules or None
        Obeyed by ``predict``; hard or soft, about ``node("label", i)``.

    Attributes
    ----------
    classes_ : ndarray, or list of ndarray (one for each output)
    method_ : str
        The method that was used.
    graph_weights_ : dict
        Learned strength of each graph, exactly 0 where it is not wanted.
    predictor_weights_, bias_, variance_ : learned weights, biases and scale of the latent covariance.

    References
    ----------
    [Petrovic19]; errors of the print are corrected.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> z = X[:, :1] + rng.normal(size=(200, 1))          # a common cause that X does not tell
    >>> Y = (z + 0.5 * rng.normal(size=(200, 4)) > 0).astype(int)
    >>> field = GaussianCRFClassifier().fit(X, Y)
    >>> known = np.array([[1, 1, np.nan, np.nan]])
    >>> before, after = field.predict_proba(X[:1]), field.predict_proba(X[:1], known)
    >>> bool(after[0, 2] > before[0, 2])
    True
    """

    def __init__(
        self,
        predictors: Any = None,
        graphs: Any = None,
        method: str = "auto",
        mean: str = "auto",
        paper: bool = False,
        per_output: bool | str = "auto",
        signed: bool = True,
        cv: Any = None,
        l2: float = 1.0,
        max_iter: int = 300,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: int | None = 0,
        rules: Any = None,
        joint_predictors: bool = False,
    ):
        self.predictors = predictors
        self.graphs = graphs
        self.method = method
        self.mean = mean
        self.paper = paper
        self.per_output = per_output
        self.signed = signed
        self.cv = cv
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.rules = rules
        self.joint_predictors = joint_predictors

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.input_tags.three_d_array = True
        return tags

    def _default_predictors(self) -> list[Any]:
        return [make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))]

    classes_: Any
    _kind = "gaussian classifier"

    def _state(self) -> State:
        arrays, metadata = field_state(self, ScoreTask(self._labels.kind, self._labels.n_classes))
        outputs = len(self.classes_) if isinstance(self.classes_, list) else 0
        values = self._labels.values
        labels = {"values": values.tolist(), "type": values.dtype.str, "flat": self._labels.flat, "outputs": outputs}
        return arrays, {**metadata, "labels": labels, "method_used": self.method_}

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        restore_field(self, arrays, metadata)
        labels = metadata["labels"]
        check_typed(metadata["method_used"], str, "the method")
        values = class_values(labels)
        self._labels = LabelCodes(values, labels["flat"])
        task = ScoreTask(self._labels.kind, self._labels.n_classes)
        if not 0 <= labels["outputs"] <= MOST_OUTPUTS or asdict(task) != metadata["task"]:
            raise ModelFileError("the labels of the model file do not fit its weights; save the model again.")
        self.classes_ = [values] * labels["outputs"] if labels["outputs"] else values
        self.method_ = metadata["method_used"]

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None, graphs: Any = None) -> "GaussianCRFClassifier":
        """Cross-fit the predictors, build the graphs, learn the field.

        Parameters
        ----------
        X : array of shape (n_instances, n_features) or (n_instances, n_nodes, n_features), or list of arrays
            A table; or features of each node, (n_nodes_j, n_features) for each instance (predictors then pool all
            nodes). With ``predictors="precomputed"``: logits in place of the features of nodes.
        y : array of shape (n_instances,), (n_instances, n_outputs) or list of arrays
            0 / 1, or class numbers; in two dimensions NaN marks an unknown label.
        sample_weight : array of shape (n_instances,), optional
            How often each instance counts: for the predictors (which must take weights), the graphs and the field.
        graphs : list, optional
            Graphs of the instances: for each graph a list of one similarity matrix per instance.
        """
        method = self._check_options()
        layout = self.layout_ = self._layout_of(X, graphs is None)
        if isinstance(layout, TableLayout):
            X = self._check_table(X, reset=True)
        self._labels, everything = read_labels(X, y)
        self.classes_ = self._labels.values
        if isinstance(everything, np.ndarray) and not self._labels.flat:
            self.classes_ = [self._labels.values] * everything.shape[1]
        task = ScoreTask(self._labels.kind, self._labels.n_classes)
        weight = self._check_weight(X, sample_weight)
        scores, labels, share = layout.fit(X, everything, task, self._cross_fitting(self.paper), weight)
        n_nodes = labels.shape[1] if isinstance(labels, np.ndarray) else None
        residual = labels - self._plain_prediction(scores) if isinstance(labels, np.ndarray) else None
        specs = self._graph_specs(layout, graphs)
        sources = GraphSources(X, everything, weight, residual, share)
        self.graph_entries_ = self._resolve_graphs(sources, specs, n_nodes, graphs)
        training = GaussianTraining(scores, labels, graphs, share, n_nodes)
        start = None
        if method == "auto":
            method, start = self._choose_method(training)
        report_fit(self, self._learn_field(method, training, start))
        return self

    def _choose_method(self, training: GaussianTraining) -> tuple[str, np.ndarray | None]:
        """Take ``"vb"`` or ``"map"``, whichever gives labels of held-out instances the higher joint likelihood.

        Returns the method and what it learned from the other instances, a start for the field of all.
        """
        if training.n_nodes == 1:
            return "map", None  # nothing to join, no variance to learn
        if self.mean == "direct" or len(training.scores) < FEWEST:
            return "vb", None
        order = np.random.default_rng(self.random_state).permutation(len(training.scores))
        held = len(order) // 5
        kept, rest = training.part(np.sort(order[held:])), training.part(np.sort(order[:held]))
        likelihood, learned = {}, {}
        data = make_batches(rest.scores, self.graph_entries_, rest.graphs, rest.weight)
        for method in ("map", "vb"):
            if self._learn_field(method, kept).interrupted:
                raise KeyboardInterrupt
            pairs = zip(self._potentials(data), data.split(rest.labels))
            likelihood[method] = sum(float(p.counts @ self._joint(p, known).bound) for p, known in pairs)
            learned[method] = self.theta_
        best = "vb" if likelihood["vb"] > likelihood["map"] else "map"
        return best, learned[best]

    def _learn_field(self, method: str, training: GaussianTraining, start: np.ndarray | None = None) -> FitResult:
        self.method_ = method
        data = make_batches(training.scores, self.graph_entries_, training.graphs, training.weight)
        model = self._make_model(method, self.layout_, data, training.n_nodes)
        strengths = (0.5, 4.0) if method == "map" and model.n_graphs else (0.5,)
        starts = [model.start(r) for r in strengths] if start is None else [start]
        return self._learn(model, data, training.labels, self._labels.kind, method, starts)

    def _check_options(self) -> str:
        if self.method not in METHODS:
            raise InputError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}.")
        if self.mean not in ("auto", "smoothed", "direct"):
            raise InputError(f'mean must be "auto", "smoothed" or "direct"; got {self.mean!r}.')
        if self.method == "map" and self.mean == "direct":
            raise InputError('method="map" sees graphs only through the mean: use mean="smoothed", or method="vb".')
        return "jj" if self.paper and self.method in ("auto", "vb") else self.method

    def _graph_specs(self, layout: Any, own: Any) -> Any:
        if self.graphs is not None:
            return self.graphs
        if self.paper and isinstance(layout, TableLayout):
            return PAPER_GRAPHS if self._labels.kind == "binary" else PAPER_GRAPHS[:2]
        if own is None and layout.same_nodes and self._labels.kind == "binary" and not layout.ragged:
            return ["residual_correlation"]
        return None if own is not None or not layout.same_nodes else ["correlation"]

    def _plain_prediction(self, scores: Any) -> np.ndarray | float:
        """Mean probability of the predictors, (n_instances, n_outputs), for residuals; 0 where labels are classes."""
        return expit(scores[:, 0].mean(axis=-1)) if self._labels.kind == "binary" else 0.0

    def _make_model(self, method: str, layout: Any, data: Batched, n_nodes: int | None) -> GaussianModel:
        own = self.per_output
        if own == "auto":
            many = layout.same_nodes and n_nodes is not None and 1 < n_nodes <= 1000 and data.n_instances >= 30
            own = bool(many and not self.paper)
        direct = self.mean == "direct" or (
            self.mean == "auto" and method == "vb" and layout.same_nodes and not self.paper and n_nodes != 1
        )
        return GaussianModel(
            n_scores=data.batches[0].scores.shape[-1],
            n_graphs=len(self.graph_entries_),
            n_classes=1 if self._labels.kind == "binary" else self._labels.n_classes,
            n_nodes=(n_nodes or 0) if own else 0,
            smoothed=not direct,
            simplex=self.paper,
            bayesian=method != "map" and n_nodes != 1,
        )

    def _batch_proba(self, potentials: GaussianPotentials, known: np.ndarray | None) -> np.ndarray:
        """P(y = 1), (n, n_nodes), or class probabilities (n, n_nodes, n_classes); known labels are certain."""
        mean, variance = self._moments(potentials, known)
        if self._labels.kind == "binary":
            p = expected_logistic(mean, variance)
            return p if known is None else np.where(np.isnan(known), p, known)
        p = expected_softmax(mean, np.broadcast_to(variance, (len(mean), mean.shape[-1])))
        if known is None:
            return p
        hot = np.nan_to_num(known, nan=-1)[..., None] == np.arange(self._labels.n_classes)
        return np.where(np.isnan(known)[..., None], p, hot)

    def _answers(self, X: Any, Y_known: Any, graphs: Any) -> tuple[Batched, list[np.ndarray]]:
        data = self._instances(X, graphs)
        known = self._known_labels(data, Y_known)
        return data, [self._batch_proba(p, k) for p, k in zip(self._potentials(data), known)]

    def predict_proba(self, X: Any, Y_known: Any = None, graphs: Any = None) -> Any:
        """Probability of each label, given the labels that are already known.

        Parameters
        ----------
        X : as in ``fit``
        Y_known : array of shape (n_instances, n_outputs) or list, optional
            NaN where not known. What is known moves the others through the field.
        graphs : as in ``fit``

        Returns
        -------
        ndarray or list
            Probability of 1, (n_instances, n_outputs), for binary outputs; (n_instances, n_outputs, n_classes) for
            several classes; (n_instances, n_classes) where ``fit`` got a one-dimensional y. Marginals are accurate to
            1e-8 at any latent variance (several classes: quasi Monte Carlo, about 1e-3).
        """
        data, parts = self._answers(X, Y_known, graphs)
        proba = data.join(parts, self.layout_.ragged)
        if not self._labels.flat:
            return proba
        if self._labels.kind == "binary":
            return np.column_stack([1 - proba[:, 0], proba[:, 0]])
        return proba[:, 0]

    def decode(
        self, X: Any, Y_known: Any = None, graphs: Any = None, rules: Any = None, on_infeasible: str = "raise"
    ) -> list[Labeling]:
        """Best labels of each instance under rules, with their score, its bound and the rules that they break.

        Maximises the sum of log p(y_i | x, known labels) minus the cost of broken soft rules; hard rules hold.
        ``rules`` (default: those of the constructor) speak of ``node("label", i)`` and ``nodes("label")``.
        """
        data, parts = self._answers(X, Y_known, graphs)
        rules = self.rules if rules is None else rules
        decoder = LabelRules(rules or [], self._labels.values, on_infeasible)
        found: list[Any] = [None] * data.n_instances
        for rows, part in zip(data.rows, parts):
            full = np.stack([1 - part, part], axis=-1) if self._labels.kind == "binary" else part
            for j, labelling in zip(rows, decoder.decode(full)):
                found[j] = labelling
        return found

    def predict(
        self, X: Any, Y_known: Any = None, graphs: Any = None, rules: Any = None, on_infeasible: str = "raise"
    ) -> Any:
        """Most probable value of each label, or the best label vector that obeys the rules.

        Arguments as in :meth:`predict_proba` and :meth:`decode`.
        """
        if rules or (rules is None and self.rules):
            labellings = self.decode(X, Y_known, graphs, rules, on_infeasible)
            vectors = [np.asarray(labelling.labels) for labelling in labellings]
            if self.layout_.ragged:
                return vectors
            return np.stack(vectors)[:, 0] if self._labels.flat else np.stack(vectors)
        data, parts = self._answers(X, Y_known, graphs)
        if self._labels.kind == "binary":
            codes = [(p > 0.5).astype(int) for p in parts]
        else:
            codes = [p.argmax(axis=-1) for p in parts]
        labels = data.join([self._labels.values[c] for c in codes], self.layout_.ragged)
        return labels[:, 0] if self._labels.flat else labels

    def score(self, X: Any, y: Any, sample_weight: Any = None, graphs: Any = None) -> float:
        """Share of labels predicted right (Hamming accuracy; unknown labels do not count)."""
        if self._labels.flat:
            return float(super().score(X, y, sample_weight))
        found = self.predict(X, graphs=graphs)
        right = [np.asarray(a) == np.asarray(b, dtype=float) for a, b in zip(found, y)]
        known = [~np.isnan(np.asarray(b, dtype=float)) for b in y]
        weight = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        total = sum(w * k.sum() for w, k in zip(weight, known))
        return float(sum(w * r[k].sum() for w, r, k in zip(weight, right, known)) / total)
