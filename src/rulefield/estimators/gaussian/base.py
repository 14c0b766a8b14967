"""What the Gaussian classifier and regressor share: inputs, graphs, learning, potentials."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rulefield.encode.similarity import LABEL_BUILDERS, correlation, overfit_correlation
from rulefield.estimators.base import SavedModel
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.gaussian.inputs import Batched, GraphEntry, make_batches, own_graphs, shared_graphs
from rulefield.estimators.gaussian.layouts import (
    Labels,
    Layout,
    NodesLayout,
    ScoresLayout,
    TableLayout,
    is_ragged,
)
from rulefield.estimators.gaussian.order import content_order, taken
from rulefield.estimators.packing import Packer
from rulefield.estimators.parameters import (
    FLAG,
    N_JOBS,
    RANDOM_STATE,
    Requirement,
    check_parameters,
    either,
    number,
    one_of,
    optional,
    whole,
)
from rulefield.estimators.predictors.cross_fitting import CrossFitting, RandomState, ScoreTask, generator_seed
from rulefield.estimators.predictors.files import describe, remake
from rulefield.estimators.tables import KnownTable, known_rows, usable_features
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import FitResult, joined
from rulefield.learning.gaussian import FieldObjective, fit_field
from rulefield.models.gaussian import GaussianModel
from rulefield.problem.gaussian import GaussianPotentials
from rulefield.scikit import seed_of_fit

BUILDERS = (*LABEL_BUILDERS, "residual_correlation", "overfit_correlation")
TOLL = 1.0  # nats for each unit of log(1 + rho) and log(1 + v)
ENTRY = 1.0  # nats that a variance must gain to be kept at all (Akaike's price of a parameter)
PAPER_GRAPHS = ("chi2", "mutual_info", "overfit_correlation", "label_distance")

Graphs = Sequence[Sequence[Any]] | None
"""Graphs that instances bring: for each graph a list of one similarity matrix per instance."""
Predictors = str | Sequence[BaseEstimator | Sequence[BaseEstimator]] | None
GraphSpecs = Sequence[str | ArrayLike | Callable[[np.ndarray], ArrayLike]] | str | None
CrossValidation = int | float | Sequence[tuple[np.ndarray, np.ndarray]] | Any | None


def _is_predictors(value: object) -> bool:
    return value is None or value == "precomputed" or (isinstance(value, list | tuple) and len(value) > 0)


def _is_graphs(value: object) -> bool:
    plain = value is None or isinstance(value, str | list | tuple | np.ndarray) or callable(value)
    return plain or scipy.sparse.issparse(value) or hasattr(value, "adjacency")


def _is_cv(value: object) -> bool:
    if isinstance(value, float):
        return 0 < value < 1
    folds = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 2
    return value is None or folds or hasattr(value, "split") or (isinstance(value, list | tuple) and len(value) > 0)


SHARED_PARAMETERS = {
    "predictors": Requirement('None, "precomputed" or a list of estimators that is not empty', _is_predictors),
    "graphs": Requirement("None or a list of builders' names, similarity matrices or functions", _is_graphs),
    "mean": one_of("auto", "smoothed", "direct"),
    "per_output": either(FLAG, one_of("auto")),
    "signed": FLAG,
    "cv": Requirement(
        "None, a number of folds >= 2, a share between 0 and 1, a splitter or a list of splits", _is_cv
    ),
    "l2": number(),
    "max_iter": optional(whole(1)),
    "tol": optional(number()),
    "n_jobs": N_JOBS,
    "random_state": RANDOM_STATE,
    "joint_predictors": FLAG,
}


DEFAULT_ITERATIONS, DEFAULT_TOL = 300, 1e-6


@dataclass(frozen=True)
class GraphSources:
    """What graphs are built from: rows of X, labels and their weights, residuals of the predictors and theirs."""

    X: Any
    Y: Labels
    weight: np.ndarray | None
    residual: Any
    residual_weight: np.ndarray | None


class GaussianCRFBase(SavedModel, BaseEstimator):
    """Shared parts; see the classifier and the regressor."""

    predictors: Predictors
    graphs: GraphSpecs
    mean: str
    per_output: bool | str
    signed: bool
    cv: CrossValidation
    l2: float
    max_iter: int | None
    tol: float | None
    n_jobs: int | None
    random_state: RandomState
    joint_predictors: bool

    _saved: ClassVar[tuple[str, ...]] = ("objective_", "log_", "n_iter_", "converged_", "stopped_because_")

    @property
    @abstractmethod
    def _task(self) -> ScoreTask:
        """What the predictors are for."""

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, graphs: Graphs = None) -> Self:
        """Cross-fit the predictors, build the graphs, learn the field.

        Parameters
        ----------
        X : array of shape (n_instances, n_features) or (n_instances, n_nodes, n_features), or list of arrays
            A table; or features of each node, (n_nodes_j, n_features) for each instance (predictors then pool all
            nodes). With ``predictors="precomputed"``: logits (of a regressor predictions) in place of the features of nodes.
        y : array of shape (n_instances,), (n_instances, n_outputs) or list of arrays
            0 / 1 or class numbers, of a regressor values; in two dimensions NaN marks what is not known.
        sample_weight : array of shape (n_instances,), optional
            How often each instance counts: for the predictors (which must take weights), the graphs and the field.
        graphs : list, optional
            Graphs of the instances: for each graph a list of one similarity matrix per instance.
        """
        check_parameters(self)
        self._check_options()
        report_fit(self, self._fit(X, y, sample_weight, graphs))
        return self

    def _check_options(self) -> None:
        """Refuse parameters that do not go together."""

    @abstractmethod
    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, graphs: Graphs) -> FitResult:
        """Learn with parameters that are checked."""

    @property
    def _limits(self) -> tuple[int, float]:
        """Most iterations of the optimizer, and the tolerance at which it stops."""
        return self.max_iter or DEFAULT_ITERATIONS, DEFAULT_TOL if self.tol is None else self.tol

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags

    def _layout_of(self, X: Any, same_nodes: bool) -> Layout:
        if isinstance(self.predictors, str):
            return ScoresLayout(same_nodes)
        if is_ragged(X) or getattr(X, "ndim", 2) == 3:
            return NodesLayout()
        return TableLayout()

    def _check_table(self, X: ArrayLike, reset: bool) -> np.ndarray:
        return usable_features(validate_data(self, X, reset=reset, dtype=np.float64))

    def _check_weight(self, X: Any, sample_weight: ArrayLike | None) -> np.ndarray | None:
        """Weights of the instances as floats, (n_instances,); None where all count the same."""
        if sample_weight is None:
            return None
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _in_order(
        self, X: Any, labels: Labels, weight: np.ndarray | None, graphs: Graphs
    ) -> tuple[Any, Labels, np.ndarray | None, Graphs]:
        """Sort the instances by their content, so that no part of the fit depends on the order they come in.

        Splits that are given by place, or by a splitter, keep the order.
        """
        if self.cv is not None and not isinstance(self.cv, int | float | np.integer):
            return X, labels, weight, graphs
        if not isinstance(X, np.ndarray):
            X = [np.asarray(x, dtype=float) for x in X] if is_ragged(X) else np.asarray(X, dtype=float)
        for stack in graphs or ():
            if len(stack) != len(labels):
                raise InputError(f"graphs has {len(stack)} matrices in one list for {len(labels)} instances.")
        order = content_order(X, labels, weight, graphs)
        own = None if graphs is None else [taken(stack, order) for stack in graphs]
        return taken(X, order), taken(labels, order), None if weight is None else weight[order], own

    @abstractmethod
    def _default_predictors(self) -> list[BaseEstimator]:
        """Return the estimators that are used where none are given."""

    def _cross_fitting(self, paper: bool = False) -> CrossFitting:
        predictors = self._default_predictors() if self.predictors is None else self.predictors
        cv = self.cv if self.cv is not None else (0.2 if paper else 5)
        return CrossFitting(predictors, cv, seed_of_fit(self.random_state), self.n_jobs, self.joint_predictors)

    def _resolve_graphs(
        self, sources: "GraphSources", names: GraphSpecs, n_nodes: int | None, own: Graphs
    ) -> list[GraphEntry]:
        """Laplacians of shared graphs, and entries for graphs that instances bring."""
        specs: Any = [] if names is None else names
        if isinstance(specs, str) or not isinstance(specs, (list, tuple)):
            specs = [specs]
        if n_nodes == 1:  # nothing to join
            specs = []
        entries: list[GraphEntry] = []
        for k, spec in enumerate(specs):
            name, similarity = f"graph {k}", spec
            if isinstance(spec, str):
                name, similarity = spec, self._build(spec, sources)
            elif callable(spec):
                name, similarity = getattr(spec, "__name__", name), spec(sources.Y)
            if isinstance(spec, str) and not np.any(similarity):
                continue  # a builder that found no relation
            entries += shared_graphs(similarity, name, self.signed, n_nodes)
        if own is not None:
            entries += own_graphs(own, self.signed)
        return entries

    def _build(self, name: str, sources: "GraphSources") -> np.ndarray:
        if name not in BUILDERS:
            raise InputError(
                f"graphs names no builder {name!r}; choose from {', '.join(BUILDERS)}, or pass a matrix."
            )
        Y, weight = sources.Y, sources.weight
        if not isinstance(Y, np.ndarray):
            raise InputError(
                f"graph builder {name!r} compares outputs, but instances differ in size; pass graphs to fit."
            )
        if name == "residual_correlation":
            return correlation(sources.residual, sources.residual_weight)
        if name == "overfit_correlation":
            if not isinstance(self._layout, TableLayout):
                raise InputError('"overfit_correlation" trains a network on the rows of X; it needs a table.')
            return overfit_correlation(sources.X, Y, generator_seed(seed_of_fit(self.random_state)), weight)
        return LABEL_BUILDERS[name](Y, weight)

    def _learn(
        self,
        model: GaussianModel,
        data: Batched,
        labels: Labels,
        kind: str,
        algorithm: str,
        starts: Sequence[np.ndarray],
    ) -> FitResult:
        toll = 0.0 if model.simplex else TOLL
        objective = FieldObjective(model, data.batches, data.split(labels), kind, algorithm, self.l2, toll, 1e-5)
        found = fit_field(objective, starts, *self._limits)
        if model.bayesian and not model.log_variance and not model.simplex and model.variance(found.theta) > 0:
            found = self._without_variance(objective, found, kind)
        self.model_, self.theta_, self.objective_ = model, found.theta, float(found.objective)
        return found

    def _without_variance(self, objective: FieldObjective, found: FitResult, kind: str) -> FitResult:
        """Return ``found``, or the best field without variance if the variance gains less than its price.

        A variance that the data do not ask for is an estimate of noise: it costs likelihood on new data.
        """
        if found.interrupted:
            return found
        plain_model = replace(objective.model, bayesian=False)
        plain = FieldObjective(plain_model, objective.batches, objective.labels, kind, "map", self.l2, TOLL)
        other = fit_field(plain, [found.theta[:-1]], *self._limits)  # the variance stands last
        if found.objective < other.objective - ENTRY:
            return found
        return joined(found, replace(other, theta=np.append(other.theta, 0.0)))

    @property
    def graph_weights_(self) -> dict[str, float]:
        """Learned strength rho of each graph; exactly 0 where a graph was not wanted."""
        check_is_fitted(self, "theta_")
        return {e.name: float(r) for e, r in zip(self._graph_entries, self.model_.rho(self.theta_))}

    @property
    def predictor_weights_(self) -> np.ndarray:
        """Weights of the predictors, (n_predictors,) or (n_outputs, n_predictors)."""
        check_is_fitted(self, "theta_")
        return self.model_.weights(self.theta_)[0]

    @property
    def bias_(self) -> np.ndarray:
        """Biases (n_classes, 1 or n_outputs)."""
        check_is_fitted(self, "theta_")
        return self.model_.weights(self.theta_)[1]

    @property
    def variance_(self) -> float:
        """Scale v of the latent covariance v A^-1."""
        check_is_fitted(self, "theta_")
        return self.model_.variance(self.theta_)

    def _instances(self, X: Any, graphs: Graphs) -> Batched:
        """Scores and graphs of new instances."""
        check_is_fitted(self, "theta_")
        if isinstance(self._layout, TableLayout):
            X = self._check_table(X, reset=False)
        return make_batches(self._layout.scores(X), self._graph_entries, graphs)

    def _potentials(self, data: Batched) -> list[GaussianPotentials]:
        return [self.model_.potentials(self.theta_, batch) for batch in data.batches]

    def predictor_scores(self, X: Any) -> Any:
        """Scores that the predictors give to new instances, in the form that ``predictors="precomputed"`` reads.

        (n_instances, n_outputs, n_predictors), with several classes (..., n_classes); a list where sizes differ.
        """
        check_is_fitted(self, "theta_")
        if isinstance(self._layout, TableLayout):
            X = self._check_table(X, reset=False)
        scores = self._layout.scores(X)
        last = self.model_.n_classes > 1
        if isinstance(scores, list):
            return [np.moveaxis(s, 0, -1) if last else s[0] for s in scores]
        return np.moveaxis(scores, 1, -1) if last else scores[:, 0]

    def save(self, path: str | Path, *, without_predictors: bool = False) -> None:
        """Write the model to one file, which :func:`rulefield.load` reads; opening it runs no code.

        Parameters
        ----------
        path : path
        without_predictors : bool
            Save the field alone: the loaded one takes what :meth:`predictor_scores` gives in place of X. Linear
            predictors of scikit-learn (and pipelines of them with scalers) are kept in the file; others are refused.
        """
        check_is_fitted(self, "theta_")
        if without_predictors and not isinstance(self._layout, ScoresLayout):
            self._field_alone().save(path)
        else:
            super().save(path)

    def to_bytes(self, *, without_predictors: bool = False) -> bytes:
        """Return what ``save`` would write."""
        check_is_fitted(self, "theta_")
        if without_predictors and not isinstance(self._layout, ScoresLayout):
            return self._field_alone().to_bytes()
        return super().to_bytes()

    def _field_alone(self) -> "GaussianCRFBase":
        """Return the same field without its predictors: it reads their scores."""
        field, layout = copy(self), self._layout
        field.predictors = "precomputed"
        field._layout = ScoresLayout.of(self._task, self.model_.n_scores, layout.same_nodes, layout.ragged)
        for name in ("n_features_in_", "feature_names_in_"):
            field.__dict__.pop(name, None)
        return field

    def _pack(self, packer: Packer, name: str, value: Any) -> Any:
        return super()._pack(packer, name, describe(value) if name == "predictors" else value)

    @classmethod
    def _unpacked(cls, *saved: Any) -> dict[str, Any]:
        params = super()._unpacked(*saved)
        return params | ({"predictors": remake(params["predictors"])} if "predictors" in params else {})

    def _known_vectors(self, data: Batched, known: KnownTable) -> list[np.ndarray]:
        """Known labels of each instance: floats with NaN where unknown, or objects with None."""
        if isinstance(known, np.ndarray) and known.dtype.kind in "iubf":
            rows: list[Any] = list(known.astype(float).reshape(len(known), -1))
        else:
            rows = [row if row is None else _as_vector(row) for row in known_rows(known, data.n_instances)]
        if len(rows) != data.n_instances:
            raise InputError(f"known must hold a row for each of {data.n_instances} instances; got {len(rows)}.")
        vectors = []
        for j, (row, size) in enumerate(zip(rows, data.sizes)):
            if row is not None and len(row) != size:
                raise InputError(f"known[{j}] must hold {size} labels; got {len(row)}.")
            vectors.append(np.full(size, np.nan) if row is None else row)
        return vectors

    _graph_entries: list[GraphEntry]
    _layout: Layout
    model_: GaussianModel
    theta_: np.ndarray


def _as_vector(row: Sequence[Any]) -> np.ndarray:
    """Return numbers as floats with NaN where unknown; anything else as objects with None."""
    if all(value is None or isinstance(value, int | float | np.number | np.bool_) for value in row):
        return np.array([np.nan if value is None else float(value) for value in row])
    out = np.empty(len(row), dtype=object)
    out[:] = list(row)
    return out
