"""Gaussian CRF for classification: binary, multi-label, multi-class, over any graphs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags

from rulefield.estimators.fitting import report_fit
from rulefield.estimators.gaussian.answers import LabelAnswers
from rulefield.estimators.gaussian.base import (
    GaussianCRFBase,
    by_size,
    samples_by_size,
    weight_of_values,
)
from rulefield.estimators.gaussian.graphs import GraphSources, GraphSpecs, resolve_graphs
from rulefield.estimators.gaussian.inputs import (
    Graphs,
    Instances,
    Layout,
    TableLayout,
    as_table,
    is_ragged,
    layout_of,
)
from rulefield.estimators.gaussian.labels import LabelCodes, read_labels
from rulefield.estimators.gaussian.training import (
    FieldLearner,
    checked_table,
    columns_of_outputs,
    limits_of,
    own_nodes,
    scored_instances,
    training_instances,
)
from rulefield.estimators.graph.decoding import NODE, GraphRules, SearchLimits
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    FLAG,
    ON_INFEASIBLE,
    RULES,
    check_parameters,
    check_value,
    list_of,
    one_of,
    optional,
    rule_list,
    whole,
)
from rulefield.estimators.predictors.cross_fitting import ScoreTask, generator_seed
from rulefield.estimators.tables import KnownTable
from rulefield.estimators.types import RandomState, RulesLike
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.scikit import seed_of_fit

ALGORITHMS = ("auto", "vb", "jj", "map")
PAPER_GRAPHS = ("chi2", "mutual_info", "overfit_correlation", "label_distance")
PAPER_SHARE = 0.2  # of the instances, held out from the predictors for the field


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianCRFClassifier(ClassifierMixin, GaussianCRFBase):
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
        sparse or networkx), or functions of the labels. Negative similarities push apart, with a weight of their own.
        None: ``["residual_correlation"]`` if instances share nodes.
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
    cv : int, float, splitter, list of splits or None, default None
        Folds of the cross-fitting (None: 5); a share is held out from the predictors for the field. Folds are cut by
        what rows hold, so that the order of rows does not matter; a splitter or a list of splits goes by their places.
    l2 : float, default 1
        Ridge on what is each output's own: from 30 instances on that share at most 1000 nodes, outputs have weights and
        biases of their own, shrunk to shared ones.
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
    predictor_weights_, bias_, variance_ : learned weights, biases and scale of the latent covariance
    theta_, model_ : all learned numbers, and what they mean
    objective_ : float
        Minus the likelihood (or its bound), plus penalties, at ``theta_``.
    log_, n_iter_, converged_, stopped_because_ : how the optimizer went, with one record per iteration
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

    algorithm: str = "auto"
    paper: bool = False
    columns: Sequence[Sequence[int | str]] | None = None
    rules: RulesLike | None = None
    on_infeasible: str = "raise"

    _kind = "gaussian classifier"
    _parameters: ClassVar = {
        **GaussianCRFBase._parameters,
        "algorithm": one_of(*ALGORITHMS),
        "paper": FLAG,
        "columns": optional(list_of("a list with one list of columns for each output", list, tuple)),
        "rules": RULES,
        "on_infeasible": ON_INFEASIBLE,
    }
    _saved = ("algorithm_", "_labels", *GaussianCRFBase._saved)
    algorithm_: str = field(init=False)
    _labels: LabelCodes = field(init=False)

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, graphs: Graphs = None) -> Self:
        """Cross-fit the predictors, build the graphs, learn the field.

        Parameters
        ----------
        X : array of shape (n_instances, n_features) or (n_instances, n_nodes, n_features), or list of arrays
            A table; or features of each node, (n_nodes_j, n_features) for each instance (predictors then pool all
            nodes). With ``predictors="precomputed"``: logits in place of the features of nodes.
        y : array of shape (n_instances,), (n_instances, n_outputs) or list of arrays
            0 / 1 or class numbers; in two dimensions NaN marks what is not known.
        sample_weight : array of shape (n_instances,), optional
            How often each instance counts: for the predictors (which must take weights), the graphs and the field.
        graphs : list, optional
            Graphs of the instances: for each graph a list of one similarity matrix per instance.
        """
        check_parameters(self)
        if self.algorithm == "map" and self.mean == "direct":
            raise InputError(
                'algorithm="map" sees graphs only through the mean: use mean="smoothed", or algorithm="vb".'
            )
        if layout_of(self.predictors, X) is TableLayout:
            X = checked_table(self, X, reset=True)
        codes, labels = read_labels(X, y)
        instances = training_instances(self, X, labels, sample_weight, graphs)
        task, default = ScoreTask(codes.kind, codes.n_classes), LogisticRegression(max_iter=1000)
        layout, scored = scored_instances(
            self,
            instances,
            task,
            make_pipeline(StandardScaler(), default),
            PAPER_SHARE if self.paper else None,
            columns_of_outputs(self, instances),
        )
        seed = seed_of_fit(self.random_state)
        sources = GraphSources(instances, _residual(scored, codes), scored.weight, seed)
        entries = resolve_graphs(self._graph_specs(layout, codes, graphs), sources, scored.n_nodes)
        n_own = 0 if self.paper else own_nodes(layout.same_nodes, scored.n_nodes, len(scored))
        learner = FieldLearner(layout, entries, codes, n_own, self.mean, self.paper, self.l2, limits_of(self))
        algorithm = "jj" if self.paper and self.algorithm in ("auto", "vb") else self.algorithm
        learned = learner.best(algorithm, scored, seed)
        self._field, self._labels, self.algorithm_ = learned.field, codes, learned.algorithm
        self.objective_ = float(learned.result.objective)
        report_fit(self, learned.result)
        return self

    def _graph_specs(self, layout: Layout, codes: LabelCodes, own: Graphs) -> GraphSpecs:
        """Return the graphs that were asked for, or the default."""
        binary = codes.kind == "binary"
        if self.graphs is not None:
            return self.graphs
        if self.paper and isinstance(layout, TableLayout):
            return PAPER_GRAPHS if binary else PAPER_GRAPHS[:2]
        if own is not None or not layout.same_nodes:
            return None
        return ["residual_correlation"] if binary else ["correlation"]

    # --- answers ----------------------------------------------------------------------------------

    @property
    def classes_(self) -> Any:
        """The classes, or a list of them (one for each output)."""
        return self._labels.classes

    def _answers(self, X: Any, graphs: Graphs, known: KnownTable, rules: RulesLike | None) -> LabelAnswers:
        """Return what answers about new instances, under the rules that act."""
        potentials, sizes = self._potentials(X, graphs)
        numbers = None if known is None else self._labels.encode(known, sizes)
        acting = GraphRules.of(self, rules, {NODE: self._labels.values})
        method = "jj" if self.algorithm_ == "jj" else "vb"
        return LabelAnswers(self._labels, potentials, numbers, sizes, acting, method)

    def predict_proba(
        self, X: Any, *, rules: RulesLike | None = None, known: KnownTable = None, graphs: Graphs = None
    ) -> Any:
        """Probability of each label, given the labels that are already known.

        Parameters
        ----------
        X, graphs : as in ``fit``
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none. Probabilities are then those of the distribution that ``decode``
            maximizes, over the label vectors that hard rules allow; exact, and refused where the sum grows too large.
        known : array of shape (n_instances, n_outputs) or list, optional
            NaN or None where not known; a row may be None. What is known moves the others through the field.

        Returns
        -------
        ndarray or list
            Probability of 1, (n_instances, n_outputs), for binary outputs; (n_instances, n_outputs, n_classes) for
            several classes, to about 1e-3; (n_instances, n_classes) where ``fit`` got a one-dimensional y.
        """
        answers = self._answers(X, graphs, known, rules)
        proba = answers.proba()
        return answers.full(proba[:, 0]) if self._labels.flat else by_size(proba, X)

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
        are about ``node("label", i)`` and ``nodes("label")``. ``engine`` is one of
        :func:`rulefield.inference.graph.decode.decode_graph`; the other arguments are those of :meth:`predict_proba`.
        """
        search = SearchLimits.checked(engine)
        return self._answers(X, graphs, known, rules).labelings(search)

    def predict(
        self, X: Any, *, rules: RulesLike | None = None, known: KnownTable = None, graphs: Graphs = None
    ) -> Any:
        """Most probable value of each label, or the best label vector that obeys the rules.

        Arguments as in :meth:`predict_proba`.
        """
        if rule_list(self.rules if rules is None else rules):
            labelings = self.decode(X, rules=rules, known=known, graphs=graphs)
            vectors = [np.asarray(labeling.labels) for labeling in labelings]
            labels: Any = vectors if is_ragged(X) else np.stack(vectors)
        else:
            labels = by_size(self._answers(X, graphs, known, []).named(), X)
        return labels[:, 0] if self._labels.flat else labels

    def predict_joint_log_proba(self, X: Any, y: Any, *, graphs: Graphs = None, n_samples: int = 0) -> np.ndarray:
        """Log-probability of each instance's labels together, (n_instances,); unknown labels are summed over.

        A lower bound (exact for ``"map"``); with ``n_samples`` > 0 an importance-sampled estimate (binary outputs).
        Rules do not enter.
        """
        seed = generator_seed(seed_of_fit(self.random_state)) if n_samples else None
        return self._answers(X, graphs, y, []).joint(n_samples, seed)

    def sample(
        self,
        X: Any,
        *,
        rules: RulesLike | None = None,
        known: KnownTable = None,
        n_samples: int = 1,
        random_state: RandomState = None,
        graphs: Graphs = None,
    ) -> Any:
        """Draw label vectors jointly, (n_samples, n_instances, n_outputs), given known labels where there are any.

        A list (one array (n_samples, n_nodes) for each instance) if X is one. Binary outputs. Under rules draws are those
        of the distribution that ``decode`` maximizes and ``predict_proba`` sums.
        """
        check_value("n_samples", n_samples, whole(1))
        if self._labels.kind != "binary":
            raise InputError("sample draws binary labels; this field has several classes.")
        rng = np.random.default_rng(generator_seed(random_state))
        drawn = self._labels.values[self._answers(X, graphs, known, rules).draw(n_samples, rng)]
        return samples_by_size(drawn, X)

    def latent(self, X: Any, *, known: KnownTable = None, graphs: Graphs = None) -> tuple[Any, Any]:
        """Means and variances of the latent values, (n_instances, n_outputs) each, given known labels."""
        means, variances = self._answers(X, graphs, known, []).moments()
        spread = np.broadcast_to(variances, (len(means), means.shape[-1])).copy()
        return by_size(means, X, axes=(-1,)), by_size(spread, X)

    def predict_covariance(self, X: Any, *, known: KnownTable = None, graphs: Graphs = None) -> Any:
        """Covariance of the latent values of each instance, given known labels where there are any.

        (n_instances, n_outputs, n_outputs), a list if X is one; with several classes it is that of every class alike
        (Böhning's contrasts). The covariance of the labels is that of draws (:meth:`sample`).
        """
        return by_size(self._answers(X, graphs, known, []).covariance(), X, axes=(0, 1))

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
        predicted = self.predict(X, rules=rules, known=known, graphs=graphs)
        if self._labels.flat:
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        truth = as_table(y)
        right, weight = as_table(predicted) == truth, weight_of_values(truth, sample_weight)
        return float((right * weight).sum() / weight.sum())

    # --- scikit-learn and files -------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        self._labels.check()
        self._restore_field(ScoreTask(self._labels.kind, self._labels.n_classes), given)


def _residual(scored: Instances, codes: LabelCodes) -> np.ndarray:
    """Return what predictors' mean probability leaves of binary labels; of classes: labels."""
    return scored.labels - expit(scored.X[:, 0].mean(axis=-1)) if codes.kind == "binary" else scored.labels
