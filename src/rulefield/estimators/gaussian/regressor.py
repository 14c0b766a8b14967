"""Gaussian CRF for continuous outputs."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_array

from rulefield.data.limits import LARGEST_OUTPUT
from rulefield.estimators.base import State
from rulefield.estimators.gaussian.base import (
    SHARED_PARAMETERS,
    CrossValidation,
    GaussianCRFBase,
    Graphs,
    GraphSources,
    GraphSpecs,
    Predictors,
)
from rulefield.estimators.gaussian.files import field_state, restore_field, restored_task
from rulefield.estimators.gaussian.inputs import Batched, make_batches
from rulefield.estimators.gaussian.layouts import Labels, Layout, TableLayout, is_ragged
from rulefield.estimators.parameters import check_value, whole
from rulefield.estimators.predictors.cross_fitting import RandomState, ScoreTask, generator_seed
from rulefield.estimators.tables import KnownTable
from rulefield.exceptions import InputError, LabelError, ModelFileError
from rulefield.forms import Form, check_arrays, weights
from rulefield.inference.gaussian.regression import gaussian_likelihood
from rulefield.inference.gaussian.sampling import colored_noise, latent_covariance
from rulefield.learning.fit_log import FitResult
from rulefield.models.gaussian import FieldBatch, GaussianModel
from rulefield.problem.gaussian import DenseCoupling

EXACTLY = 1e12  # precision of a known value when values are drawn around it


class GaussianCRFRegressor(RegressorMixin, GaussianCRFBase):
    r"""Join unstructured regressors through a Gaussian field over graphs of outputs.

    Values of an instance are Gaussian, :math:`y \sim N(\mu, v A^{-1})` with :math:`A = I + \sum_l \rho_l L_l`;
    weights of predictors, of graphs and v maximize the exact likelihood. In the usual terms of Gaussian CRFs
    alpha_k = w_k / (2 v) and beta_l = rho_l / (2 v).

    Parameters
    ----------
    predictors : list of regressors, "precomputed" or None, default None
        Cross-fitted inside, one copy for each output. None: ridge regression. ``"precomputed"``: X holds their
        predictions, (n_instances, n_outputs, n_predictors).
    graphs : list or None, default None
        Graphs shared by all instances, as in :class:`GaussianCRFClassifier`.
    mean : {"auto", "smoothed", "direct"}, default "auto"
        ``"smoothed"``: mu = A^-1 f, each prediction is averaged with its neighbors'; ``"direct"``: mu = f and the
        graphs shape only the covariance. ``"auto"``: direct where instances share their nodes, else smoothed.
    per_output : bool or "auto", default "auto"
        Whether each output has weights and a bias of its own, shrunk to shared ones by ``l2``.
    signed : bool, default True
        Whether similarities may be negative (they then push apart; with a weight of their own).
    cv : int, float, splitter, list of splits or None, default None
        Folds of the cross-fitting (None: 5), as in :class:`GaussianCRFClassifier`.
    l2 : float, default 1
        Ridge on what is each output's own.
    max_iter : int, optional
        Most iterations of the field's optimizer. None: 300.
    tol : float, optional
        The optimizer stops where the objective falls by less than this share of itself in ten iterations.
    n_jobs : int, optional
        Threads of the cross-fitting (-1: one per core). The result is the same for any number.
    random_state : int or RandomState, optional
        Seed of the folds.
    joint_predictors : bool, default False
        Fit one copy of a predictor for all outputs where it can and no value is unknown.

    Attributes
    ----------
    graph_weights_ : dict
    predictor_weights_, bias_, variance_
        In units of the standardized outputs (``center_``, ``scale_``).
    theta_ : ndarray
        All learned numbers.
    model_ : GaussianModel
        What they mean.
    objective_ : float
        Minus the log-likelihood, plus penalties, at ``theta_``.
    log_ : list of FitRecord
        One record per iteration of the optimizer.
    n_iter_ : int
    converged_ : bool
    stopped_because_ : str
        Why the optimizer ended.
    n_features_in_, feature_names_in_ : of a table X

    References
    ----------
    [Radosavljevic10]

    Examples
    --------
    >>> import numpy as np
    >>> import rulefield as rf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> Y = X[:, :1] + rng.normal(size=(100, 1)) + 0.1 * rng.normal(size=(100, 3))   # outputs err together
    >>> field = rf.GaussianCRFRegressor().fit(X, Y)
    >>> known = np.column_stack([Y[:, 0], np.full((100, 2), np.nan)])
    >>> field.score(X, Y) < 0.8 < field.score(X, Y, known=known)
    True
    """

    _parameters: ClassVar = SHARED_PARAMETERS

    def __init__(
        self,
        *,
        predictors: Predictors = None,
        graphs: GraphSpecs = None,
        mean: str = "auto",
        per_output: bool | str = "auto",
        signed: bool = True,
        cv: CrossValidation = None,
        l2: float = 1.0,
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        joint_predictors: bool = False,
    ):
        self.predictors = predictors
        self.graphs = graphs
        self.mean = mean
        self.per_output = per_output
        self.signed = signed
        self.cv = cv
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.joint_predictors = joint_predictors

    def _default_predictors(self) -> list[BaseEstimator]:
        return [make_pipeline(StandardScaler(), Ridge())]

    _kind = "gaussian regressor"
    _saved = ("center_", "scale_", "_flat", *GaussianCRFBase._saved)

    @property
    def _task(self) -> ScoreTask:
        return ScoreTask("values", 1)

    def _state(self) -> State:
        return field_state(self)

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        restore_field(self, arrays, metadata)
        units = {"center": self.center_, "scale": self.scale_}
        forms = {"center": weights("outputs"), "scale": Form(("float64",), ("outputs",), least=1e-300)}
        sizes = check_arrays(units, forms, {})
        if (self._flat and sizes["outputs"] > 1) or (
            self.model_.n_nodes and sizes["outputs"] not in (1, self.model_.n_nodes)
        ):
            raise ModelFileError(f"the model file scales {sizes['outputs']} outputs; save the model again.")
        if self._task != restored_task(self._layout):
            raise ModelFileError("the predictors of the model file do not give values; save the model again.")

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, graphs: Graphs) -> FitResult:
        layout = self._layout = self._layout_of(X, graphs is None)
        if isinstance(layout, TableLayout):
            X = self._check_table(X, reset=True)
        values = self._read_values(X, y)
        weight = self._check_weight(X, sample_weight)
        X, values, weight, graphs = self._in_order(X, values, weight, graphs)
        scores, values, share = layout.fit(X, values, self._task, self._cross_fitting(), weight)
        self._standardize(values, layout.same_nodes, share)
        scores, values = self._scaled(scores), self._to_units(values)
        n_nodes = values.shape[1] if isinstance(values, np.ndarray) else None
        residual = values - scores[:, 0].mean(axis=-1) if isinstance(values, np.ndarray) else None
        sources = GraphSources(X, values, share, residual, share)
        self._graph_entries = self._resolve_graphs(sources, self._specs(layout, graphs), n_nodes, graphs)
        data = make_batches(scores, self._graph_entries, graphs, share)
        model = self._make_model(layout, data, n_nodes)
        return self._learn(model, data, values, "values", "exact", [model.start(0.5, 0.5)])

    def _read_values(self, X: Any, y: Any) -> Labels:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        self._flat = False
        if is_ragged(X):
            parts = [np.asarray(v, dtype=float) for v in y]
            if len(parts) != n:
                raise LabelError(f"y must hold values of {n} instances; got {len(parts)}.")
            return parts
        y = np.asarray(y)
        self._flat = y.ndim == 1
        finite = True if self._flat else "allow-nan"
        table = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=finite, input_name="y")
        if np.nanmax(np.abs(table), initial=0.0) > LARGEST_OUTPUT:
            raise LabelError(
                f"y must be at most {LARGEST_OUTPUT:g} in magnitude, so that its squares are finite; scale it."
            )
        if len(table) != n:
            raise LabelError(f"Found input variables with inconsistent numbers of samples: {[n, len(table)]}.")
        return table[:, None] if self._flat else table

    def _standardize(self, values: Labels, same_nodes: bool, weight: np.ndarray | None) -> None:
        """Center and scale of each output, or of all nodes where they are not the same from instance to instance."""
        table = values if isinstance(values, np.ndarray) and same_nodes and len(values) > 1 else None
        if table is not None and not np.isnan(table).all(axis=0).any():
            center, scale = _moments(table, np.ones(len(table)) if weight is None else weight)
        else:
            flat = np.concatenate([np.ravel(v) for v in values])
            if np.isnan(flat).all():
                raise LabelError("y holds no known value; there is nothing to learn from.")
            rows = np.ones(len(values)) if weight is None else weight
            center, scale = _moments(flat[:, None], np.repeat(rows, [np.size(v) for v in values]))
        self.center_, self.scale_ = center, np.where(scale > 1e-12 * (1 + np.abs(center)), scale, 1.0)

    def _to_units(self, values: Any) -> Any:
        if isinstance(values, list):
            return [(np.asarray(v, dtype=float) - self.center_) / self.scale_ for v in values]
        return (np.asarray(values, dtype=float) - self.center_) / self.scale_

    def _scaled(self, scores: Any) -> Any:
        center, scale = self.center_[:, None], self.scale_[:, None]
        if isinstance(scores, list):
            return [(s - center) / scale for s in scores]
        return (scores - center) / scale

    def _specs(self, layout: Layout, own: Graphs) -> GraphSpecs:
        if self.graphs is not None or own is not None:
            return self.graphs
        return ["residual_correlation"] if layout.same_nodes and not layout.ragged else None

    def _make_model(self, layout: Layout, data: Batched, n_nodes: int | None) -> GaussianModel:
        own = self.per_output
        if own == "auto":
            own = bool(layout.same_nodes and n_nodes is not None and 1 < n_nodes <= 1000 and data.n_instances >= 30)
        direct = self.mean == "direct" or (self.mean == "auto" and layout.same_nodes and data.n_instances > 1)
        return GaussianModel(
            n_scores=data.batches[0].scores.shape[-1],
            n_graphs=len(self._graph_entries),
            n_nodes=(n_nodes or 0) if own else 0,
            smoothed=not direct,
            log_variance=True,
        )

    def _instances(self, X: Any, graphs: Graphs) -> Batched:
        data = super()._instances(X, graphs)
        batches = [FieldBatch(self._scaled(b.scores), b.graphs) for b in data.batches]
        return Batched(batches, data.rows, data.n_instances)

    def _known_values(self, data: Batched, known: KnownTable) -> list[np.ndarray]:
        """Known values of each batch in the field's units, NaN where unknown."""
        if known is None:
            return [np.full((len(b.scores), b.scores.shape[2]), np.nan) for b in data.batches]
        rows = self._known_vectors(data, known)
        for j, row in enumerate(rows):
            if row.dtype == object:
                raise InputError(f"known[{j}] must hold numbers; got {row.tolist()}.")
        return data.split(self._to_units(rows))

    def _given(self, X: Any, known: KnownTable, graphs: Graphs) -> tuple[Batched, list[Any]]:
        """Posterior of each batch given known values."""
        data = self._instances(X, graphs)
        values = self._known_values(data, known)
        return data, [gaussian_likelihood(p, k) for p, k in zip(self._potentials(data), values)]

    def predict(self, X: Any, *, known: KnownTable = None, graphs: Graphs = None, return_std: bool = False) -> Any:
        """Predict expected values, given those that are known.

        Parameters
        ----------
        X, graphs : as in ``fit``
        known : array of shape (n_instances, n_outputs) or list, optional
            NaN or None where not known; a row may be None.
        return_std : bool
            Also return standard deviations.
        """
        if known is None and not return_std:  # means alone need no factorization
            data = self._instances(X, graphs)
            means = [p.mean * self.scale_ + self.center_ for p in self._potentials(data)]
            return self._shape(data, means)
        data, found = self._given(X, known, graphs)
        means = [f.mean * self.scale_ + self.center_ for f in found]
        if known is not None:  # a known value is itself, not what is left of it after a change of units
            given = data.split(self._known_vectors(data, known))
            means = [np.where(np.isnan(k), m, k) for m, k in zip(means, given)]
        mean = self._shape(data, means)
        if not return_std:
            return mean
        return mean, self._shape(data, [np.sqrt(f.variance) * self.scale_ for f in found])

    def _shape(self, data: Batched, parts: list[np.ndarray]) -> Any:
        joined = data.join(parts, self._layout.ragged)
        return joined[:, 0] if self._flat else joined

    def predict_joint_log_proba(self, X: Any, y: Any, *, graphs: Graphs = None) -> np.ndarray:
        """Log-density of each instance's values together, (n_instances,); NaN values are integrated out."""
        data, found = self._given(X, y, graphs)
        known = self._known_values(data, y)
        parts = []
        for answer, values in zip(found, known):
            log_scale = np.broadcast_to(np.log(self.scale_), values.shape)
            parts.append(answer.bound - np.where(np.isnan(values), 0.0, log_scale).sum(axis=1))
        return data.join(parts, False)

    def sample(
        self,
        X: Any,
        *,
        known: KnownTable = None,
        n_samples: int = 1,
        random_state: RandomState = None,
        graphs: Graphs = None,
    ) -> Any:
        """Draw values jointly, (n_samples, n_instances, n_outputs); a list by instance where sizes differ."""
        check_value("n_samples", n_samples, whole(1))
        data, found = self._given(X, known, graphs)
        rng = np.random.default_rng(generator_seed(random_state))
        parts = []
        for potentials, answer in zip(self._potentials(data), found):
            fixed = answer.variance == 0
            if not fixed.any() and known is None:
                precision = np.zeros_like(answer.mean)
            else:
                precision = np.where(fixed, EXACTLY, 0.0)
            noise = colored_noise(potentials, precision, rng.normal(size=(n_samples, *answer.mean.shape)))
            drawn = (answer.mean + np.where(fixed, 0.0, noise)) * self.scale_ + self.center_
            parts.append(np.swapaxes(drawn, 0, 1))
        joined = data.join(parts, self._layout.ragged)
        return joined if self._layout.ragged else np.swapaxes(joined, 0, 1)

    def covariance(self, X: Any, *, graphs: Graphs = None) -> Any:
        """Covariance of the outputs, (n_outputs, n_outputs) where graphs are shared, else one for each instance."""
        data = self._instances(X, graphs)
        parts = []
        for potentials in self._potentials(data):
            scale = np.broadcast_to(self.scale_, potentials.mean.shape[-1:])
            if not isinstance(potentials.coupling, DenseCoupling):
                raise InputError(
                    "the field is too large for a whole covariance; predict(return_std=True) gives its diagonal."
                )
            parts.append(potentials.variance * potentials.coupling.inverse * np.outer(scale, scale))
        if len(parts) == 1 and parts[0].ndim == 2:
            return parts[0]
        stacks = [p if p.ndim == 3 else np.repeat(p[None], len(r), axis=0) for p, r in zip(parts, data.rows)]
        return data.join(stacks, self._layout.ragged)

    def predict_covariance(self, X: Any, *, known: KnownTable = None, graphs: Graphs = None) -> Any:
        """Covariance of the outputs of each instance given those that are known (which have none).

        (n_instances, n_outputs, n_outputs); a list where sizes differ. O(n_outputs^3) per instance.
        """
        data = self._instances(X, graphs)
        parts = [
            latent_covariance(p, np.zeros_like(p.mean)) * np.outer(s, s)
            for p in self._potentials(data)
            for s in [np.broadcast_to(self.scale_, p.mean.shape[-1:])]
        ]
        if known is not None:
            for part, given in zip(parts, self._known_values(data, known)):
                for covariance, values in zip(part, given):
                    _condition(covariance, ~np.isnan(values))
        return data.join(parts, self._layout.ragged)

    def score(
        self,
        X: Any,
        y: Any,
        *,
        known: KnownTable = None,
        sample_weight: ArrayLike | None = None,
        graphs: Graphs = None,
    ) -> float:
        """R² over all outputs; values that are unknown, or were given, do not count."""
        found = self.predict(X, known=known, graphs=graphs)
        if self._flat:
            return float(r2_score(y, found, sample_weight=sample_weight))
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        truth = [np.asarray(v, dtype=float) for v in y]
        given = [np.full_like(t, np.nan) for t in truth]
        if known is not None:
            given = self._known_vectors(self._instances(X, graphs), known)
        counts = [~np.isnan(t) & np.isnan(k) for t, k in zip(truth, given)]
        weights = np.concatenate([np.full(c.sum(), w) for c, w in zip(counts, weight)])
        expected = np.concatenate([t[c] for t, c in zip(truth, counts)])
        return float(r2_score(expected, np.concatenate([f[c] for f, c in zip(found, counts)]), sample_weight=weights))


def _condition(covariance: np.ndarray, known: np.ndarray) -> None:
    """Take what known values explain out of a covariance, in place."""
    if known.any():
        explained = np.linalg.solve(covariance[np.ix_(known, known)], covariance[known])
        covariance -= covariance[:, known] @ explained
        covariance[known] = 0.0
        covariance[:, known] = 0.0


def _moments(table: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the known values of each column, by the rows' weights."""
    share = np.where(np.isnan(table), 0.0, weight[:, None])
    total = np.maximum(share.sum(axis=0), np.finfo(float).tiny)
    filled = np.nan_to_num(table)
    center = (share * filled).sum(axis=0) / total
    return center, np.sqrt((share * (filled - center) ** 2).sum(axis=0) / total)
