"""What the Gaussian classifier and regressor share: parameters, what a field has learned, files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from rulefield.estimators.gaussian.field import FittedField
from rulefield.estimators.gaussian.graphs import GraphSpecs
from rulefield.estimators.gaussian.inputs import Graphs, TableLayout, is_ragged, node_counts
from rulefield.estimators.gaussian.training import checked_table
from rulefield.estimators.parameters import (
    FLAG,
    N_JOBS,
    RANDOM_STATE,
    Requirement,
    Table,
    number,
    one_of,
    optional,
    whole,
)
from rulefield.estimators.predictors.cross_fitting import ScoreTask
from rulefield.estimators.saving import SavedModel
from rulefield.estimators.tables import check_feature_names
from rulefield.estimators.types import RandomState
from rulefield.models.gaussian import GaussianModel
from rulefield.problem.gaussian import GaussianPotentials

Predictors = str | Sequence[BaseEstimator | Sequence[BaseEstimator]] | None
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


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianCRFBase(SavedModel, BaseEstimator):
    """Parameters, learned weights and files of both Gaussian estimators."""

    predictors: Predictors = None
    graphs: GraphSpecs = None
    mean: str = "auto"
    cv: CrossValidation = None
    l2: float = 1.0
    max_iter: int | None = None
    tol: float | None = None
    n_jobs: int | None = None
    random_state: RandomState = None
    joint_predictors: bool = False

    _parameters: ClassVar[Table] = {
        "predictors": Requirement('None, "precomputed" or a list of estimators that is not empty', _is_predictors),
        "graphs": Requirement("None or a list of builders' names, similarity matrices or functions", _is_graphs),
        "mean": one_of("auto", "smoothed", "direct"),
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
    _given_to_load = ("predictors",)
    _saved: ClassVar[tuple[str, ...]] = (
        "_field",
        "n_features_in_",
        "feature_names_in_",
        "objective_",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
    )
    objective_: float = field(init=False)
    _field: FittedField = field(init=False)

    # --- what was learned -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_field")

    @property
    def theta_(self) -> np.ndarray:
        """All learned numbers."""
        return self._field.theta

    @property
    def model_(self) -> GaussianModel:
        """What ``theta_`` means."""
        return self._field.model

    @property
    def graph_weights_(self) -> dict[str, float]:
        """Learned strength rho of each graph; exactly 0 where a graph was not wanted."""
        check_is_fitted(self)
        return {e.name: float(r) for e, r in zip(self._field.graphs, self.model_.rho(self.theta_))}

    @property
    def predictors_(self) -> list[list[Any]]:
        """Fitted predictors, by predictor and output; one for all outputs if it serves all of them."""
        check_is_fitted(self)
        if self._field.fitted is None:
            raise AttributeError("predictors_ are those of a model with predictors; this one reads scores.")
        return self._field.fitted.members

    @property
    def predictor_weights_(self) -> np.ndarray:
        """Weights of the predictors, (n_predictors,) or (n_outputs, n_predictors)."""
        check_is_fitted(self)
        return self.model_.weights(self.theta_)[0]

    @property
    def bias_(self) -> np.ndarray:
        """Biases (n_classes, 1 or n_outputs)."""
        check_is_fitted(self)
        return self.model_.weights(self.theta_)[1]

    @property
    def variance_(self) -> float:
        """Scale v of the latent covariance v A^-1."""
        check_is_fitted(self)
        return self.model_.variance(self.theta_)

    def predictor_scores(self, X: Any) -> Any:
        """Scores that the predictors give to new instances, in the form that ``predictors="precomputed"`` reads.

        (n_instances, n_outputs, n_predictors), with several classes (..., n_classes); a list if X is one.
        """
        X = self._read(X)
        scores = self._field.layout.scores(X)
        return by_size(np.moveaxis(scores, 1, -1) if self.model_.n_classes > 1 else scores[:, 0], X)

    def _read(self, X: Any) -> Any:
        """Return X, checked where it is a table."""
        check_is_fitted(self)
        return checked_table(self, X, reset=False) if isinstance(self._field.layout, TableLayout) else X

    def _potentials(self, X: Any, graphs: Graphs) -> tuple[GaussianPotentials, np.ndarray]:
        """Potentials of new instances, padded where they differ in size, and their numbers of nodes."""
        X = self._read(X)
        potentials = self._field.potentials(X, graphs)
        n_instances, n_nodes = len(potentials.mean), potentials.mean.shape[-1]
        sizes = node_counts(X)
        return potentials, np.full(n_instances, n_nodes) if sizes is None else sizes

    # --- scikit-learn and files -------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags

    def _params_to_save(self) -> dict[str, Any]:
        return {"predictors": clone(self.predictors, safe=False)}

    def _restore_field(self, task: ScoreTask, given: dict[str, Any]) -> None:
        """Put ``given`` predictors in the place of those that a file could not hold; refuse a field that does not fit."""
        check_feature_names(self)
        self._field = self._field.filled(given.get("predictors"))
        if self._field.fitted is not None and given.get("predictors") is not None:
            self.predictors = self._field.fitted.chosen
        self._field.check(task, getattr(self, "n_features_in_", None))


def by_size(answers: np.ndarray, X: Any, axes: tuple[int, ...] = (0,)) -> Any:
    """Answers about instances; if X is a list, a list without the padding on those axes of an answer that are nodes."""
    sizes = node_counts(X)
    if sizes is None:
        return answers
    return [reduce(lambda part, axis: np.take(part, range(n), axis), axes, one) for one, n in zip(answers, sizes)]


def samples_by_size(drawn: np.ndarray, X: Any) -> Any:
    """Draws (n_samples, n_instances, n_nodes); if X is a list, a list of (n_samples, n_nodes) for each instance."""
    return by_size(np.swapaxes(drawn, 0, 1), X, axes=(1,)) if is_ragged(X) else drawn


def weight_of_values(truth: np.ndarray, sample_weight: ArrayLike | None) -> np.ndarray:
    """Weight of each entry of a table: that of its row; 0 if it is not known."""
    weight = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    return weight[:, None] * ~np.isnan(truth)
