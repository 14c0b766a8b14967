"""A learned Gaussian field: what it reads, its graphs, its weights, the units of its values."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np

from rulefield.estimators.gaussian.graphs import OwnGraph, SharedGraph, make_batch
from rulefield.estimators.gaussian.inputs import Graphs, NodesLayout, ScoresLayout, TableLayout, node_counts
from rulefield.estimators.predictors.cross_fitting import FittedScores, ScoreTask
from rulefield.exceptions import LabelError, ModelFileError
from rulefield.forms import Form, check_arrays, check_typed, weights
from rulefield.models.gaussian import GaussianModel
from rulefield.problem.gaussian import GaussianPotentials


@dataclass(frozen=True)
class Units:
    """Center and scale of each output, or of all nodes if they are not the same from instance to instance."""

    center: Annotated[np.ndarray, weights("outputs")]
    scale: Annotated[np.ndarray, Form(("float64",), ("outputs",), least=1e-300)]

    @classmethod
    def of(cls, values: np.ndarray, same_nodes: bool, weight: np.ndarray | None) -> Self:
        """Return those of training values (n_instances, n_nodes), instances by their weights."""
        if np.isnan(values).all():
            raise LabelError("y holds no known value; there is nothing to learn from.")
        rows = np.ones(len(values)) if weight is None else weight
        if not same_nodes or len(values) == 1 or np.isnan(values).all(axis=0).any():
            rows = np.repeat(rows, values.shape[1])
            values = values.reshape(-1, 1)
        center, scale = _moments(values, rows)
        return cls(center, np.where(scale > 1e-12 * (1 + np.abs(center)), scale, 1.0))

    def values(self, values: np.ndarray) -> np.ndarray:
        """Turn values into these units."""
        return (values - self.center) / self.scale

    def scores(self, scores: np.ndarray) -> np.ndarray:
        """Turn predictions (..., n_outputs, n_scores) into these units."""
        return (scores - self.center[:, None]) / self.scale[:, None]


def _moments(table: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the known values of each column, by the rows' weights."""
    share = np.where(np.isnan(table), 0.0, weight[:, None])
    total = np.maximum(share.sum(axis=0), np.finfo(float).tiny)
    filled = np.nan_to_num(table)
    center = (share * filled).sum(axis=0) / total
    return center, np.sqrt((share * (filled - center) ** 2).sum(axis=0) / total)


@dataclass(frozen=True)
class FittedField:
    """A learned field: how X becomes scores, its graphs, its weights, and the units of its values (None: labels)."""

    layout: TableLayout | NodesLayout | ScoresLayout
    graphs: list[SharedGraph | OwnGraph]
    model: GaussianModel
    theta: np.ndarray
    units: Units | None = None

    def potentials(self, X: Any, graphs: Graphs) -> GaussianPotentials:
        """Potentials of new instances, padded where they differ in size."""
        scores = self.layout.scores(X)
        if self.units is not None:
            scores = self.units.scores(scores)
        return self.model.potentials(self.theta, make_batch(scores, node_counts(X), self.graphs, graphs))

    @property
    def fitted(self) -> FittedScores | None:
        """The predictors; None if X holds scores."""
        return None if isinstance(self.layout, ScoresLayout) else self.layout.fitted

    def filled(self, given: Any) -> Self:
        """Put ``given`` fitted predictors in the place of those that a file could not hold."""
        if isinstance(self.layout, ScoresLayout):
            return self
        return replace(self, layout=replace(self.layout, fitted=self.layout.fitted.filled(given)))

    # --- what a file may hold ---------------------------------------------------------------------

    def check(self, task: ScoreTask, n_features: int | None) -> None:
        """Refuse parts of a file that do not fit each other."""
        model, layout = self.model, self.layout
        sizes = (model.n_scores >= 1, model.n_graphs >= 0, model.n_nodes >= 0, model.n_classes == task.width)
        if not all(sizes):
            raise ModelFileError("the sizes of the model file's field do not fit together; save the model again.")
        self._check_theta()
        self._check_graphs()
        if isinstance(layout, ScoresLayout):
            good = layout.n_scores == model.n_scores and layout.task == task
        else:
            fitted = layout.fitted
            good = len(fitted.members) == model.n_scores and fitted.task == task
            good = good and (isinstance(layout, NodesLayout) or model.n_nodes in (0, fitted.n_outputs))
            fitted.check(n_features)
        if not good:
            raise ModelFileError("the predictors of the model file do not fit its field; save the model again.")

    def _check_theta(self) -> None:
        """Hold the weights against their bounds: strengths of graphs are not negative, so that fields have a maximum."""
        check_arrays({"theta": self.theta}, {"theta": weights("weights")}, {"weights": self.model.size})
        bounds = np.array(self.model.bounds(), dtype=float).reshape(
            -1, 2
        )  # None becomes NaN, which nothing is beyond
        if (self.theta < bounds[:, 0]).any() or (self.theta > bounds[:, 1]).any():
            raise ModelFileError("a strength or a variance of the model file is out of range; save the model again.")

    def _check_graphs(self) -> None:
        shared = [entry.matrix for entry in self.graphs if isinstance(entry, SharedGraph)]
        sizes = {matrix.shape[0] for matrix in shared} | ({self.model.n_nodes} - {0})
        good = len(self.graphs) == self.model.n_graphs and len(sizes) <= 1
        if not good or not all(map(_is_laplacian, shared)):
            raise ModelFileError("the graphs of the model file are no Laplacians of one size; save the model again.")
        for entry in self.graphs:
            if isinstance(entry, OwnGraph):
                check_typed(entry.index, int, "the number of a graph")
                if entry.sign not in (1, -1) or not 0 <= entry.index < len(self.graphs):
                    raise ModelFileError("a graph of the model file has no sign or no number; save the model again.")


def _is_laplacian(matrix: Any) -> bool:
    """Whether a matrix is symmetric, its mean degree at most 1, no diagonal entry smaller than the sum of its row.

    So it is semidefinite, and the field's own matrix can be inverted.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype != np.float64:
        return False
    diagonal = matrix.diagonal()
    if not diagonal.sum() <= (1.0 + 1e-6) * len(diagonal):
        return False
    rows = np.asarray(abs(matrix).sum(axis=1)).ravel()
    most = 1e-9 * max(1.0, float(rows.max(initial=0.0)))
    return bool(abs(matrix - matrix.T).max() <= most and (2 * diagonal >= rows - most).all()) if len(rows) else True
