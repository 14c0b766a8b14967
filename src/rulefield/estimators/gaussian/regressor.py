"""Gaussian CRF for continuous outputs."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_array

from rulefield.data.limits import LARGEST_OUTPUT
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.gaussian.base import GaussianCRFBase, by_size, samples_by_size, weight_of_values
from rulefield.estimators.gaussian.field import FittedField, Units
from rulefield.estimators.gaussian.graphs import GraphSources, GraphSpecs, make_batch, resolve_graphs
from rulefield.estimators.gaussian.inputs import (
    Graphs,
    Instances,
    Layout,
    TableLayout,
    as_table,
    check_count,
    is_ragged,
    layout_of,
    node_counts,
)
from rulefield.estimators.gaussian.labels import known_vectors
from rulefield.estimators.gaussian.training import (
    checked_table,
    limits_of,
    own_nodes,
    scored_instances,
    training_instances,
)
from rulefield.estimators.parameters import check_parameters, check_value, whole
from rulefield.estimators.predictors.cross_fitting import ScoreTask, generator_seed
from rulefield.estimators.tables import KnownTable
from rulefield.estimators.types import RandomState
from rulefield.exceptions import InputError, LabelError, ModelFileError
from rulefield.inference.gaussian.field import gaussian_likelihood
from rulefield.inference.gaussian.joint import colored_noise, latent_covariance
from rulefield.interrupts import interruptible
from rulefield.learning.gaussian import TOLL, FieldObjective, fit_field
from rulefield.models.gaussian import GaussianModel
from rulefield.problem.gaussian import FieldPosterior, GaussianPotentials
from rulefield.scikit import seed_of_fit

EXACTLY = 1e12  # precision of a known value when values are drawn around it
TASK = ScoreTask("values", 1)


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
    cv, l2, max_iter, tol, n_jobs, random_state, joint_predictors : as in :class:`GaussianCRFClassifier`

    Attributes
    ----------
    predictor_weights_, bias_, variance_
        In units of the standardized outputs (``center_``, ``scale_``).
    graph_weights_, theta_, model_, objective_, log_, n_iter_, converged_, stopped_because_, n_features_in_, feature_names_in_
        As in :class:`GaussianCRFClassifier`.

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

    _kind = "gaussian regressor"
    _saved = ("_flat", *GaussianCRFBase._saved)

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, graphs: Graphs = None) -> Self:
        """Cross-fit the predictors, build the graphs, learn the field.

        The arguments are those of :meth:`GaussianCRFClassifier.fit`: y holds values, in two dimensions NaN marks what is not
        known; with ``predictors="precomputed"`` X holds predictions.
        """
        check_parameters(self)
        if layout_of(self.predictors, X) is TableLayout:
            X = checked_table(self, X, reset=True)
        values, flat = _read_values(X, y)
        instances = training_instances(self, X, values, sample_weight, graphs)
        layout, scored = scored_instances(self, instances, TASK, make_pipeline(StandardScaler(), Ridge()))
        units = Units.of(scored.labels, layout.same_nodes, scored.weight)
        scores, values = units.scores(scored.X), units.values(scored.labels)
        residual = values - scores[:, 0].mean(axis=-1)
        compared = replace(instances, labels=units.values(instances.labels))
        sources = GraphSources(compared, residual, scored.weight, seed_of_fit(self.random_state))
        entries = resolve_graphs(self._graph_specs(layout, graphs), sources, scored.n_nodes)
        batch = make_batch(scores, scored.sizes, entries, scored.graphs, scored.weight)
        model = self._model(layout, scored, len(entries))
        objective = FieldObjective(model, batch, values, "values", "exact", self.l2, TOLL, 1e-5)
        result = fit_field(objective, [model.start(0.5, 0.5)], *limits_of(self))
        self._field, self._flat = FittedField(layout, entries, model, result.theta, units), flat
        self.objective_ = float(result.objective)
        report_fit(self, result)
        return self

    def _graph_specs(self, layout: Layout, own: Graphs) -> GraphSpecs:
        """Return the graphs that were asked for, or the default."""
        if self.graphs is not None or own is not None:
            return self.graphs
        return ["residual_correlation"] if layout.same_nodes else None

    def _model(self, layout: Layout, scored: Instances, n_graphs: int) -> GaussianModel:
        direct = self.mean == "direct" or (self.mean == "auto" and layout.same_nodes and len(scored) > 1)
        return GaussianModel(
            n_scores=scored.X.shape[-1],
            n_graphs=n_graphs,
            n_nodes=own_nodes(layout.same_nodes, scored.n_nodes, len(scored)),
            smoothed=not direct,
            log_variance=True,
        )

    # --- answers ----------------------------------------------------------------------------------

    @property
    def center_(self) -> np.ndarray:
        """Center of each output, or of all."""
        return self._units.center

    @property
    def scale_(self) -> np.ndarray:
        """Scale of each output, or of all."""
        return self._units.scale

    @property
    def _units(self) -> Units:
        units = self._field.units
        assert units is not None
        return units

    def _known(self, known: KnownTable, sizes: np.ndarray) -> np.ndarray:
        """Known values, (n_instances, n_nodes), NaN where unknown."""
        if known is None:
            return np.full((len(sizes), sizes.max(initial=0)), np.nan)
        rows = known_vectors(known, sizes)
        for j, row in enumerate(rows):
            if row.dtype == object:
                raise InputError(f"known[{j}] must hold numbers; got {row.tolist()}.")
        return as_table(rows)

    def _posterior(self, X: Any, graphs: Graphs, known: KnownTable) -> tuple[GaussianPotentials, FieldPosterior]:
        """Potentials of new instances, and their values given the known ones."""
        potentials, sizes = self._potentials(X, graphs)
        return potentials, gaussian_likelihood(potentials, self._units.values(self._known(known, sizes)))

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
        potentials, sizes = self._potentials(X, graphs)
        if known is None and not return_std:  # means alone need no factorization
            return self._shape(potentials.mean * self.scale_ + self.center_, X)
        values = self._known(known, sizes)
        posterior = gaussian_likelihood(potentials, self._units.values(values))
        mean = np.where(np.isnan(values), posterior.mean * self.scale_ + self.center_, values)
        if not return_std:
            return self._shape(mean, X)
        return self._shape(mean, X), self._shape(np.sqrt(posterior.variance) * self.scale_, X)

    def _shape(self, answers: np.ndarray, X: Any) -> Any:
        return answers[:, 0] if self._flat else by_size(answers, X)

    def predict_joint_log_proba(self, X: Any, y: Any, *, graphs: Graphs = None) -> np.ndarray:
        """Log-density of each instance's values together, (n_instances,); NaN values are integrated out."""
        potentials, sizes = self._potentials(X, graphs)
        values = self._known(y, sizes)
        bound = gaussian_likelihood(potentials, self._units.values(values)).bound
        return bound - (~np.isnan(values) * np.log(self.scale_)).sum(axis=1)

    def sample(
        self,
        X: Any,
        *,
        known: KnownTable = None,
        n_samples: int = 1,
        random_state: RandomState = None,
        graphs: Graphs = None,
    ) -> Any:
        """Draw values jointly, (n_samples, n_instances, n_outputs); a list by instance if X is one."""
        check_value("n_samples", n_samples, whole(1))
        rng = np.random.default_rng(generator_seed(random_state))
        potentials, posterior = self._posterior(X, graphs, known)
        fixed = posterior.variance == 0
        noise = rng.normal(size=(n_samples, *fixed.shape))
        noise = np.where(fixed, 0.0, colored_noise(potentials, np.where(fixed, EXACTLY, 0.0), noise))
        return samples_by_size((posterior.mean + noise) * self.scale_ + self.center_, X)

    def predict_covariance(self, X: Any, *, known: KnownTable = None, graphs: Graphs = None) -> Any:
        """Covariance of the outputs of each instance given those that are known (which have none).

        (n_instances, n_outputs, n_outputs), a list if X is one. O(n_outputs^3) per instance.
        """
        potentials, sizes = self._potentials(X, graphs)
        units = np.broadcast_to(self.scale_, potentials.mean.shape[-1:])
        covariances = latent_covariance(potentials, np.zeros_like(potentials.mean)) * np.outer(units, units)
        for covariance, values in zip(covariances, self._known(known, sizes)):
            _condition(covariance, ~np.isnan(values))
        return by_size(covariances, X, axes=(0, 1))

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
        predicted = self.predict(X, known=known, graphs=graphs)
        if self._flat:
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        truth, counts = as_table(y), node_counts(X)
        hidden = np.isnan(self._known(known, np.full(len(truth), truth.shape[1]) if counts is None else counts))
        weight = weight_of_values(truth, sample_weight) * hidden
        counted = hidden & ~np.isnan(truth)
        return float(r2_score(truth[counted], as_table(predicted)[counted], sample_weight=weight[counted]))

    # --- files ------------------------------------------------------------------------------------

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        self._restore_field(TASK, given)
        units, n_nodes = self._field.units, self.model_.n_nodes
        n_units = 0 if units is None else len(units.center)
        if n_units != 1 and (n_units == 0 or self._flat or n_nodes not in (0, n_units)):
            raise ModelFileError("the units of the model file do not fit its outputs; save the model again.")


def _read_values(X: Any, y: Any) -> tuple[np.ndarray, bool]:
    """Check the values of a training set; return them, (n_instances, n_outputs), and whether y was flat."""
    check_count(X, y)
    if is_ragged(X):
        return as_table(y), False
    y = np.asarray(y)
    flat = y.ndim == 1
    finite = True if flat else "allow-nan"
    table = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=finite, input_name="y")
    if np.nanmax(np.abs(table), initial=0.0) > LARGEST_OUTPUT:
        raise LabelError(
            f"y must be at most {LARGEST_OUTPUT:g} in magnitude, so that its squares are finite; scale it."
        )
    return (table[:, None] if flat else table), flat


def _condition(covariance: np.ndarray, known: np.ndarray) -> None:
    """Take what known values explain out of a covariance, in place."""
    if known.any():
        explained = np.linalg.solve(covariance[np.ix_(known, known)], covariance[known])
        covariance -= covariance[:, known] @ explained
        covariance[known] = 0.0
        covariance[:, known] = 0.0
