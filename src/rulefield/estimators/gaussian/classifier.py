"""Gaussian CRF for classification: binary, multi-label, multi-class, over any graphs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags, check_random_state

from rulefield.estimators.base import State
from rulefield.estimators.gaussian.base import (
    PAPER_GRAPHS,
    SHARED_PARAMETERS,
    CrossValidation,
    Graphs,
    GraphSources,
    GraphSpecs,
    Predictors,
)
from rulefield.estimators.gaussian.files import (
    MOST_OUTPUTS,
    class_values,
    field_state,
    restore_field,
    restored_task,
)
from rulefield.estimators.gaussian.inputs import Batched, GaussianTraining, make_batches
from rulefield.estimators.gaussian.joint import GaussianJointMixin
from rulefield.estimators.gaussian.labels import LabelCodes, read_labels
from rulefield.estimators.gaussian.layouts import Layout, TableLayout
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    FLAG,
    ON_INFEASIBLE,
    RULES,
    check_value,
    list_of,
    one_of,
    optional,
    rule_list,
)
from rulefield.estimators.predictors.cross_fitting import RandomState, ScoreTask
from rulefield.estimators.tables import KnownTable
from rulefield.estimators.types import RulesLike
from rulefield.exceptions import InputError, ModelFileError
from rulefield.inference.gaussian.field import expected_logistic
from rulefield.inference.gaussian.softmax import expected_softmax
from rulefield.inference.graph.decode import ENGINES
from rulefield.learning.fit_log import FitResult
from rulefield.models.gaussian import GaussianModel
from rulefield.problem.gaussian import GaussianPotentials
from rulefield.scikit import seed_of_fit

ALGORITHMS = ("auto", "vb", "jj", "map")
FEWEST = 30  # instances from which a fifth of them can tell which algorithm is better


class GaussianCRFClassifier(ClassifierMixin, GaussianJointMixin):
    r"""Join unstructured classifiers through a Gaussian field over graphs of outputs.

    Each output has a latent value z and :math:`P(y_i = 1 | z) = \sigma(z_i)`; the latent values of an instance are
    Gaussian, :math:`z \sim N(\mu, v A^{-1})` with :math:`A = I + \sum_l \rho_l L_l`, where the L are Laplacians of
    graphs and mu comes from the predictors. Weights of predictors and graphs are learned.

    Parameters
    ----------
    predictors : list of classifiers, "precomputed" or None, default None
        Cross-fitted inside, one copy for each output, so that the field learns from scores of unseen rows. A list in
        the list holds alternatives; the one with the least cross-fitted log-loss is used. None: a logistic
        regression. ``"precomputed"``: X holds logits, (n_instances, n_outputs, n_predictors).
    graphs : list or None, default None
        Graphs shared by all instances: names of builders (``"mutual_info"``, ``"chi2"``, ``"correlation"``,
        ``"label_distance"``, ``"residual_correlation"``, ``"overfit_correlation"``), similarity matrices (dense,
        sparse or networkx), or functions of the labels. None: ``["residual_correlation"]`` if instances share nodes.
        Graphs of single instances are given to ``fit`` and ``predict``.
    algorithm : {"auto", "vb", "jj", "map"}, default "auto"
        ``"map"`` (GCRFBCnb of [Petrovic19]_) has no latent variance; ``"jj"`` (GCRFBCb) maximizes Jaakkola and Jordan's
        bound; ``"vb"`` that of the best Gaussian, which is tighter. With several classes both use Böhning's bound.
        ``"auto"``: ``"vb"`` or ``"map"``, whichever gives a held-out fifth of the instances (if there are 30) the
        higher joint likelihood.
    mean : {"auto", "smoothed", "direct"}, default "auto"
        ``"smoothed"``: mu = A^-1 f; ``"direct"``: mu = f, so the graphs shape only the covariance and leave marginals
        to the predictors. ``"auto"``: direct for ``"vb"`` where instances share their nodes, else smoothed.
    paper : bool, default False
        Faithful to [Petrovic19]_: weights on the simplex, no bias, smoothed mean, ``"jj"`` in place of ``"vb"``, its
        four graphs, and predictors that see 80 % of the data while the field sees the rest.
    per_output : bool or "auto", default "auto"
        Whether each output has weights and a bias of its own, shrunk to shared ones by ``l2``. ``"auto"``: from 30
        instances on, where these share at most 1000 nodes.
    signed : bool, default True
        Whether similarities may be negative (they then push apart; with a weight of their own).
    cv : int, float, splitter, list of splits or None, default None
        Folds of the cross-fitting (None: 5); a share is held out from the predictors for the field. Folds are cut by
        what rows hold, so that the order of rows does not matter; a splitter or a list of splits goes by their places.
    l2 : float, default 1
        Ridge on what is each output's own.
    max_iter : int, optional
        Most iterations of the field's optimizer. None: 300.
    tol : float, optional
        The optimizer stops where the objective falls by less than this share of itself in ten iterations.
    n_jobs : int, optional
        Threads of the cross-fitting (-1: one per core). The result is the same for any number.
    random_state : int or RandomState, optional
        Seed of the folds and of the held-out instances.
    joint_predictors : bool, default False
        Fit one copy of a predictor for all outputs where it can (forests, neighbors, networks) and no label is
        unknown: cheaper by the number of outputs, and often as good.
    columns : list of lists, optional
        Columns of a table X that the predictors of each output see, by number or by name: ``[[0, 1], [2, 3]]`` if each of
        two outputs has features of its own. None: all outputs see all columns.
    rules : list of rules, optional
        Every prediction obeys the hard ones and pays for breaking soft ones; about ``node("label", i)``.
    on_infeasible : {"raise", "relax"}, default "raise"
        What to do where hard rules contradict each other: raise, naming them, or break them as little as possible.

    Attributes
    ----------
    classes_ : ndarray, or list of ndarray (one for each output)
    algorithm_ : str
        The algorithm that was used.
    graph_weights_ : dict
        Learned strength of each graph, exactly 0 where it is not wanted.
    predictor_weights_, bias_, variance_ : learned weights, biases and scale of the latent covariance.
    theta_ : ndarray
        All learned numbers.
    model_ : GaussianModel
        What they mean.
    objective_ : float
        Minus the likelihood (or its bound), plus penalties, at ``theta_``.
    log_ : list of FitRecord
        One record per iteration of the optimizer.
    n_iter_ : int
    converged_ : bool
    stopped_because_ : str
        Why the optimizer ended.
    n_features_in_, feature_names_in_ : of a table X

    References
    ----------
    [Petrovic19], errors of the print corrected.

    Examples
    --------
    >>> import numpy as np
    >>> import rulefield as rf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> z = X[:, :1] + rng.normal(size=(200, 1))          # a common cause that X does not tell
    >>> Y = (z + 0.5 * rng.normal(size=(200, 4)) > 0).astype(int)
    >>> field = rf.GaussianCRFClassifier().fit(X, Y)
    >>> known = np.array([[1, 1, np.nan, np.nan]])
    >>> before, after = field.predict_proba(X[:1]), field.predict_proba(X[:1], known=known)
    >>> bool(after[0, 2] > before[0, 2])
    True
    """

    _parameters: ClassVar = {
        **SHARED_PARAMETERS,
        "algorithm": one_of(*ALGORITHMS),
        "paper": FLAG,
        "columns": optional(list_of("a list with one list of columns for each output", list, tuple)),
        "rules": RULES,
        "on_infeasible": ON_INFEASIBLE,
    }

    def __init__(
        self,
        *,
        predictors: Predictors = None,
        graphs: GraphSpecs = None,
        algorithm: str = "auto",
        mean: str = "auto",
        paper: bool = False,
        per_output: bool | str = "auto",
        signed: bool = True,
        cv: CrossValidation = None,
        l2: float = 1.0,
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        joint_predictors: bool = False,
        columns: Sequence[Sequence[int | str]] | None = None,
        rules: RulesLike | None = None,
        on_infeasible: str = "raise",
    ):
        self.predictors = predictors
        self.graphs = graphs
        self.algorithm = algorithm
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
        self.joint_predictors = joint_predictors
        self.columns = columns
        self.rules = rules
        self.on_infeasible = on_infeasible

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _default_predictors(self) -> list[BaseEstimator]:
        return [make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))]

    classes_: Any
    _kind = "gaussian classifier"
    _saved = ("algorithm_", *GaussianJointMixin._saved)

    @property
    def _task(self) -> ScoreTask:
        return ScoreTask(self._labels.kind, self._labels.n_classes)

    def _state(self) -> State:
        arrays, metadata = field_state(self)
        outputs = len(self.classes_) if isinstance(self.classes_, list) else 0
        values = self._labels.values
        labels = {"values": values.tolist(), "type": values.dtype.str, "flat": self._labels.flat, "outputs": outputs}
        return arrays, {**metadata, "labels": labels}

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        restore_field(self, arrays, metadata)
        labels = metadata["labels"]
        values = class_values(labels)
        self._labels = LabelCodes(values, labels["flat"])
        most = 0 if labels["flat"] else MOST_OUTPUTS
        if not 0 <= labels["outputs"] <= most or self._task != restored_task(self._layout):
            raise ModelFileError("the labels of the model file do not fit its weights; save the model again.")
        self.classes_ = [values] * labels["outputs"] if labels["outputs"] else values

    def _check_options(self) -> None:
        if self.algorithm == "map" and self.mean == "direct":
            raise InputError(
                'algorithm="map" sees graphs only through the mean: use mean="smoothed", or algorithm="vb".'
            )

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, graphs: Graphs) -> FitResult:
        layout = self._layout = self._layout_of(X, graphs is None)
        if isinstance(layout, TableLayout):
            X = self._check_table(X, reset=True)
        self._labels, everything = read_labels(X, y)
        self.classes_ = self._labels.values
        if isinstance(everything, np.ndarray) and not self._labels.flat:
            self.classes_ = [self._labels.values] * everything.shape[1]
        weight = self._check_weight(X, sample_weight)
        X, everything, weight, graphs = self._in_order(X, everything, weight, graphs)
        how = replace(self._cross_fitting(self.paper), columns=self._columns_of_outputs(everything))
        scores, labels, share = layout.fit(X, everything, self._task, how, weight)
        n_nodes = labels.shape[1] if isinstance(labels, np.ndarray) else None
        residual = labels - self._plain_prediction(scores) if isinstance(labels, np.ndarray) else None
        specs = self._graph_specs(layout, graphs)
        sources = GraphSources(X, everything, weight, residual, share)
        self._graph_entries = self._resolve_graphs(sources, specs, n_nodes, graphs)
        own = self._nodes_of_their_own(layout, len(scores), n_nodes)
        training = GaussianTraining(scores, labels, graphs, share, n_nodes, own)
        chosen = self._choose(training)
        return chosen if isinstance(chosen, FitResult) else self._learn_field(chosen[0], training, chosen[1])

    def _columns_of_outputs(self, labels: Any) -> list[list[int]] | None:
        """Return the numbers of the columns that each output sees; None if all see all."""
        if self.columns is None:
            return None
        if not isinstance(self._layout, TableLayout):
            raise InputError("columns go with a table X of shape (n_instances, n_features); leave them out.")
        if len(self.columns) != labels.shape[1]:
            raise InputError(
                f"columns must hold one list for each of {labels.shape[1]} outputs; got {len(self.columns)}."
            )
        places: dict[Any, int] = {i: i for i in range(self.n_features_in_)}
        places |= {str(name): i for i, name in enumerate(getattr(self, "feature_names_in_", ()))}
        strange = [column for own in self.columns for column in own if column not in places]
        if strange or not all(map(len, self.columns)):
            wrong = f"X has no column {strange[0]!r}" if strange else "an output has none"
            raise InputError(f"columns must hold numbers or names of columns of X for each output; {wrong}.")
        return [[places[column] for column in own] for own in self.columns]

    def _choose(self, training: GaussianTraining) -> tuple[str, np.ndarray | None] | FitResult:
        """Take ``"vb"`` or ``"map"``, whichever gives labels of held-out instances the higher joint likelihood.

        Returns the algorithm and what it learned from the other instances, a start for the field of all; the one
        that was asked for, and no start, where there is no choice; the fit of the other instances where Ctrl-C ended it.
        """
        if self.paper and self.algorithm in ("auto", "vb"):
            return "jj", None
        if self.algorithm != "auto":
            return self.algorithm, None
        if training.n_nodes == 1:
            return "map", None  # nothing to join, no variance to learn
        if self.mean == "direct" or len(training.scores) < FEWEST:
            return "vb", None
        order = check_random_state(seed_of_fit(self.random_state)).permutation(len(training.scores))
        held = len(order) // 5
        kept, rest = training.part(np.sort(order[held:])), training.part(np.sort(order[:held]))
        likelihood, learned = {}, {}
        data = make_batches(rest.scores, self._graph_entries, rest.graphs, rest.weight)
        for algorithm in ("map", "vb"):
            found = self._learn_field(algorithm, kept)
            if found.interrupted:
                return found
            pairs = zip(self._potentials(data), data.split(rest.labels))
            likelihood[algorithm] = sum(float(p.counts @ self._joint(p, known).bound) for p, known in pairs)
            learned[algorithm] = self.theta_
        best = "vb" if likelihood["vb"] > likelihood["map"] else "map"
        return best, learned[best]

    def _learn_field(self, algorithm: str, training: GaussianTraining, start: np.ndarray | None = None) -> FitResult:
        self.algorithm_ = algorithm
        data = make_batches(training.scores, self._graph_entries, training.graphs, training.weight)
        model = self._make_model(algorithm, self._layout, data, training)
        strengths = (0.5, 4.0) if algorithm == "map" and model.n_graphs else (0.5,)
        starts = [model.start(r) for r in strengths] if start is None else [start]
        return self._learn(model, data, training.labels, self._labels.kind, algorithm, starts)

    def _graph_specs(self, layout: Layout, own: Graphs) -> GraphSpecs:
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

    def _nodes_of_their_own(self, layout: Layout, n_instances: int, n_nodes: int | None) -> int:
        """Return how many nodes have weights and biases of their own: all or none."""
        own = self.per_output
        if own == "auto":
            many = layout.same_nodes and n_nodes is not None and 1 < n_nodes <= 1000 and n_instances >= 30
            own = bool(many and not self.paper)
        return (n_nodes or 0) if own else 0

    def _make_model(self, algorithm: str, layout: Layout, data: Batched, training: GaussianTraining) -> GaussianModel:
        n_nodes = training.n_nodes
        direct = self.mean == "direct" or (
            self.mean == "auto" and algorithm == "vb" and layout.same_nodes and not self.paper and n_nodes != 1
        )
        return GaussianModel(
            n_scores=data.batches[0].scores.shape[-1],
            n_graphs=len(self._graph_entries),
            n_classes=1 if self._labels.kind == "binary" else self._labels.n_classes,
            n_nodes=training.own,
            smoothed=not direct,
            simplex=self.paper,
            bayesian=algorithm != "map" and n_nodes != 1,
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

    def _answers(self, X: Any, known: KnownTable, graphs: Graphs) -> tuple[Batched, list[np.ndarray]]:
        """Probabilities of single labels of each batch, without rules."""
        data = self._instances(X, graphs)
        given = self._known_labels(data, known)
        return data, [self._batch_proba(p, k) for p, k in zip(self._potentials(data), given)]

    def predict_proba(
        self, X: Any, *, rules: RulesLike | None = None, known: KnownTable = None, graphs: Graphs = None
    ) -> Any:
        """Probability of each label, given the labels that are already known.

        Parameters
        ----------
        X : as in ``fit``
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none. Probabilities are then those of the distribution that
            ``decode`` maximizes, the product of single labels' probabilities times exp(-cost), over the label vectors
            that hard rules allow; exact, and refused where the sum grows too large.
        known : array of shape (n_instances, n_outputs) or list, optional
            NaN or None where not known; a row may be None. What is known moves the others through the field.
        graphs : as in ``fit``

        Returns
        -------
        ndarray or list
            Probability of 1, (n_instances, n_outputs), for binary outputs; (n_instances, n_outputs, n_classes) for
            several classes; (n_instances, n_classes) where ``fit`` got a one-dimensional y. Marginals are accurate to
            1e-8 at any latent variance (several classes: quasi Monte Carlo, about 1e-3).
        """
        data, parts = self._answers(X, known, graphs)
        decoder = self._label_rules(rules)
        if decoder.rules:
            ruled = [decoder.marginals(self._full(part)) for part in parts]
            parts = [part[..., 1] for part in ruled] if self._labels.kind == "binary" else ruled
        proba = data.join(parts, self._layout.ragged)
        if not self._labels.flat:
            return proba
        return self._full(proba[:, 0])

    def decode(
        self,
        X: Any,
        *,
        rules: RulesLike | None = None,
        known: KnownTable = None,
        engine: str = "auto",
        graphs: Graphs = None,
    ) -> list[Labeling]:
        """Best labels of each instance under rules, with their score, its bound and the rules that they break.

        Maximizes the sum of log p(y_i | x, known labels) minus the cost of broken soft rules; hard rules hold. Rules
        are about ``node("label", i)`` and ``nodes("label")``.

        Parameters
        ----------
        X, rules, known, graphs : as in :meth:`predict_proba`
        engine : str
            ``"auto"`` walks from cheap to exact; others: :func:`rulefield.inference.graph.decode.decode_graph`.
        """
        check_value("engine", engine, one_of(*ENGINES))
        data, parts = self._answers(X, known, graphs)
        decoder = self._label_rules(rules)
        found: list[Any] = [None] * data.n_instances
        for rows, part in zip(data.rows, parts):
            for j, labeling in zip(rows, decoder.decode(self._full(part), engine)):
                found[j] = labeling
        return found

    def predict(
        self, X: Any, *, rules: RulesLike | None = None, known: KnownTable = None, graphs: Graphs = None
    ) -> Any:
        """Most probable value of each label, or the best label vector that obeys the rules.

        Arguments as in :meth:`predict_proba`.
        """
        if rule_list(self.rules if rules is None else rules):
            labelings = self.decode(X, rules=rules, known=known, graphs=graphs)
            vectors = [np.asarray(labeling.labels) for labeling in labelings]
            if self._layout.ragged:
                return vectors
            return np.stack(vectors)[:, 0] if self._labels.flat else np.stack(vectors)
        data, parts = self._answers(X, known, graphs)
        if self._labels.kind == "binary":
            codes = [(p > 0.5).astype(int) for p in parts]
        else:
            codes = [p.argmax(axis=-1) for p in parts]
        labels = data.join([self._labels.values[c] for c in codes], self._layout.ragged)
        return labels[:, 0] if self._labels.flat else labels

    def score(
        self,
        X: Any,
        y: Any,
        *,
        rules: RulesLike | None = None,
        known: KnownTable = None,
        sample_weight: ArrayLike | None = None,
        graphs: Graphs = None,
    ) -> float:
        """Share of labels predicted right (Hamming accuracy; unknown labels do not count)."""
        found = self.predict(X, rules=rules, known=known, graphs=graphs)
        if self._labels.flat:
            return float(accuracy_score(y, found, sample_weight=sample_weight))
        right = [np.asarray(a) == np.asarray(b, dtype=float) for a, b in zip(found, y)]
        told = [~np.isnan(np.asarray(b, dtype=float)) for b in y]
        weight = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        total = sum(w * k.sum() for w, k in zip(weight, told))
        return float(sum(w * r[k].sum() for w, r, k in zip(weight, right, told)) / total)
