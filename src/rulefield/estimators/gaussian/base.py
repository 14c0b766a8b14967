"""What the Gaussian classifier and regressor share: inputs, graphs, learning, potentials."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rulefield.encode.similarity import LABEL_BUILDERS, correlation, overfit_correlation
from rulefield.estimators.base import SavedModel
from rulefield.estimators.gaussian.files import refuse_predictors
from rulefield.estimators.gaussian.inputs import Batched, GraphEntry, make_batches, own_graphs, shared_graphs
from rulefield.estimators.gaussian.layouts import (
    Labels,
    Layout,
    NodesLayout,
    ScoresLayout,
    TableLayout,
    is_ragged,
)
from rulefield.estimators.gaussian.scores import CrossFitting
from rulefield.exceptions import InputError
from rulefield.learning.fit_log import FitResult, joined
from rulefield.learning.gaussian import FieldObjective, fit_field
from rulefield.models.gaussian import GaussianModel
from rulefield.problem.gaussian import GaussianPotentials

BUILDERS = (*LABEL_BUILDERS, "residual_correlation", "overfit_correlation")
TOLL = 1.0  # nats for each unit of log(1 + rho) and log(1 + v)
ENTRY = 1.0  # nats that a variance must gain to be kept at all (Akaike's price of a parameter)
PAPER_GRAPHS = ("chi2", "mutual_info", "overfit_correlation", "label_distance")


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

    _saved = ("objective_", "log_", "n_iter_", "converged_", "stopped_because_")

    predictors: Any
    graphs: Any
    mean: str
    signed: bool
    cv: Any
    l2: float
    max_iter: int
    tol: float
    n_jobs: int | None
    random_state: int | None
    joint_predictors: bool

    def _layout_of(self, X: Any, same_nodes: bool) -> Layout:
        if isinstance(self.predictors, str):
            if self.predictors != "precomputed":
                raise InputError(
                    f'predictors must be a list of estimators or "precomputed"; got {self.predictors!r}.'
                )
            return ScoresLayout(same_nodes)
        if is_ragged(X) or getattr(X, "ndim", 2) == 3:
            return NodesLayout()
        return TableLayout()

    def _check_table(self, X: Any, reset: bool) -> Any:
        return validate_data(self, X, reset=reset, dtype=np.float64)

    def _check_weight(self, X: Any, sample_weight: Any) -> np.ndarray | None:
        """Weights of the instances as floats, (n_instances,); None where all count the same."""
        if sample_weight is None:
            return None
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    @abstractmethod
    def _default_predictors(self) -> list[Any]:
        """Return the estimators that are used where none are given."""

    def _cross_fitting(self, paper: bool = False) -> CrossFitting:
        predictors = self.predictors
        if predictors is None:
            predictors = self._default_predictors()
        elif not isinstance(predictors, str) and not isinstance(predictors, (list, tuple)):
            raise InputError(f"predictors must be a list of estimators; got {type(predictors).__name__}.")
        if not isinstance(predictors, str) and not predictors:
            raise InputError("predictors is empty; give at least one estimator, or None for the default.")
        cv = self.cv if self.cv is not None else (0.2 if paper else 5)
        return CrossFitting(predictors, cv, self.random_state, self.n_jobs, self.joint_predictors)

    def _resolve_graphs(self, sources: "GraphSources", names: Any, n_nodes: int | None, own: Any) -> list[GraphEntry]:
        """Laplacians of shared graphs, and entries for graphs that instances bring."""
        specs = [] if names is None else names
        if isinstance(specs, str) or not isinstance(specs, (list, tuple)):
            specs = [specs]
        if n_nodes == 1:  # nothing to join
            specs = []
        entries: list[GraphEntry] = []
        for number, spec in enumerate(specs):
            name, similarity = f"graph {number}", spec
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
                f"There is no graph builder {name!r}; choose from {', '.join(BUILDERS)}, or pass a matrix."
            )
        Y, weight = sources.Y, sources.weight
        if not isinstance(Y, np.ndarray):
            raise InputError(
                f"Graph builder {name!r} compares outputs, but instances differ in size; pass graphs to fit."
            )
        if name == "residual_correlation":
            return correlation(sources.residual, sources.residual_weight)
        if name == "overfit_correlation":
            if not isinstance(self.layout_, TableLayout):
                raise InputError('"overfit_correlation" trains a network on the rows of X; it needs a table.')
            return overfit_correlation(sources.X, Y, self.random_state, weight)
        return LABEL_BUILDERS[name](Y, weight)

    def _learn(
        self,
        model: GaussianModel,
        data: Batched,
        labels: Labels,
        kind: str,
        method: str,
        starts: Sequence[np.ndarray],
    ) -> FitResult:
        toll = 0.0 if model.simplex else TOLL
        objective = FieldObjective(model, data.batches, data.split(labels), kind, method, self.l2, toll, 1e-5)
        found = fit_field(objective, starts, self.max_iter, self.tol)
        if model.bayesian and not model.log_variance and not model.simplex and model.variance(found.theta) > 0:
            found = self._without_variance(objective, found, kind)
        self.model_, self.theta_, self.objective_ = model, found.theta, found.objective
        return found

    def _without_variance(self, objective: FieldObjective, found: FitResult, kind: str) -> FitResult:
        """Return ``found``, or the best field without variance if the variance gains less than its price.

        A variance that the data do not ask for is an estimate of noise: it costs likelihood on new data.
        """
        if found.interrupted:
            return found
        plain_model = replace(objective.model, bayesian=False)
        plain = FieldObjective(plain_model, objective.batches, objective.labels, kind, "map", self.l2, TOLL)
        other = fit_field(plain, [found.theta[:-1]], self.max_iter, self.tol)  # the variance stands last
        if found.objective < other.objective - ENTRY:
            return found
        return joined(found, replace(other, theta=np.append(other.theta, 0.0)))

    @property
    def graph_weights_(self) -> dict[str, float]:
        """Learned strength rho of each graph; exactly 0 where a graph was not wanted."""
        check_is_fitted(self, "theta_")
        return {e.name: float(r) for e, r in zip(self.graph_entries_, self.model_.rho(self.theta_))}

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

    def _instances(self, X: Any, graphs: Any) -> Batched:
        """Scores and graphs of new instances."""
        check_is_fitted(self, "theta_")
        if isinstance(self.layout_, TableLayout):
            X = self._check_table(X, reset=False)
        scores = self.layout_.scores(X)
        return make_batches(scores, self.graph_entries_, graphs)

    def _potentials(self, data: Batched) -> list[GaussianPotentials]:
        return [self.model_.potentials(self.theta_, batch) for batch in data.batches]

    def predictor_scores(self, X: Any) -> Any:
        """Scores that the predictors give to new instances, in the form that ``predictors="precomputed"`` reads.

        (n_instances, n_outputs, n_predictors), with several classes (..., n_classes); a list where sizes differ.
        """
        check_is_fitted(self, "theta_")
        if isinstance(self.layout_, TableLayout):
            X = self._check_table(X, reset=False)
        scores = self.layout_.scores(X)
        last = self.model_.n_classes > 1
        if isinstance(scores, list):
            return [np.moveaxis(s, 0, -1) if last else s[0] for s in scores]
        return np.moveaxis(scores, 1, -1) if last else scores[:, 0]

    def save(self, path: str | Path, without_predictors: bool = False) -> None:
        """Write the field to one file, which :func:`rulefield.load` reads; opening it runs no code.

        A file holds no predictors: where there are some, ``without_predictors=True`` saves the field alone, and the
        loaded one takes what :meth:`predictor_scores` gives in place of X.
        """
        check_is_fitted(self, "theta_")
        if not without_predictors:
            refuse_predictors(self)
        super().save(path)

    def to_bytes(self, without_predictors: bool = False) -> bytes:
        """Return what ``save`` would write."""
        check_is_fitted(self, "theta_")
        if not without_predictors:
            refuse_predictors(self)
        return super().to_bytes()

    def _params_to_save(self) -> dict[str, Any]:
        return {"predictors": "precomputed"}  # a file holds none; `save` refuses where that would lose some

    def _known(self, data: Batched, labels: Any) -> list[np.ndarray]:
        """Known labels of each batch, checked for shape."""
        parts = data.split(labels)
        for part, batch in zip(parts, data.batches):
            expected = (batch.scores.shape[0], batch.scores.shape[2])
            if part.shape != expected:
                raise InputError(f"Labels must have shape {expected} here; got {part.shape}.")
        return parts

    graph_entries_: list[GraphEntry]
    layout_: Layout
    model_: GaussianModel
    theta_: np.ndarray


def label_array(Y: Any) -> Labels:
    """Labels as a float array (NaN: unknown), or a list of them where instances differ in size."""
    if isinstance(Y, (list, tuple)) and len(Y) and np.ndim(Y[0]) == 1:
        parts = [np.asarray(y, dtype=float) for y in Y]
        return parts if len({len(p) for p in parts}) > 1 else np.stack(parts)
    return np.asarray(Y, dtype=float)
