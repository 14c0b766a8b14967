"""What fits of Gaussian fields are made of: the training instances with their scores, and the learning of a field."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from rulefield.estimators.gaussian.answers import LabelAnswers
from rulefield.estimators.gaussian.field import FittedField
from rulefield.estimators.gaussian.graphs import GraphEntry, make_batch
from rulefield.estimators.gaussian.inputs import Graphs, Instances, Layout, TableLayout, layout_of, node_counts
from rulefield.estimators.gaussian.labels import LabelCodes
from rulefield.estimators.predictors.cross_fitting import Columns, CrossFitting, ScoreTask
from rulefield.estimators.tables import usable_features
from rulefield.estimators.types import RandomState
from rulefield.exceptions import InputError
from rulefield.learning.fit_log import FitResult
from rulefield.learning.gaussian import TOLL, FieldObjective, fit_sparing_variance
from rulefield.models.gaussian import GaussianModel
from rulefield.scikit import seed_of_fit

DEFAULT_ITERATIONS, DEFAULT_TOL, DEFAULT_FOLDS = 300, 1e-6, 5
MOST_OWN, FEWEST_INSTANCES = 1000, 30  # shared nodes and instances with which nodes get weights of their own


def checked_table(model: BaseEstimator, X: ArrayLike, reset: bool) -> np.ndarray:
    """Return a table X, checked; with ``reset`` its columns are those of the model from now on."""
    return usable_features(validate_data(model, X, reset=reset, dtype=np.float64))


def training_instances(
    model: Any, X: Any, labels: np.ndarray, sample_weight: ArrayLike | None, graphs: Graphs
) -> Instances:
    """Return the instances of a fit with their weights, in an order that does not depend on that of the rows."""
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return Instances(X, labels, weight, graphs, node_counts(X)).in_order(model.cv)


def scored_instances(
    model: Any,
    instances: Instances,
    task: ScoreTask,
    default: BaseEstimator,
    held_out: float | None = None,
    columns: Columns = None,
) -> tuple[Layout, Instances]:
    """Cross-fit the predictors; return how X becomes scores, and the instances with scores in the place of features.

    ``default`` is the predictor if the model names none; ``held_out`` the share of the instances that predictors do not see,
    in place of folds, unless the model says otherwise; ``columns`` those of a table that the predictors of each output see.
    """
    predictors = [default] if model.predictors is None else model.predictors
    cv = model.cv if model.cv is not None else held_out or DEFAULT_FOLDS
    seed = seed_of_fit(model.random_state)
    how = CrossFitting(predictors, cv, seed, model.n_jobs, model.joint_predictors, columns)
    return layout_of(model.predictors, instances.X).fit(instances, task, how)


def limits_of(model: Any) -> tuple[int, float]:
    """Most iterations of the optimizer, and the tolerance at which it stops."""
    return model.max_iter or DEFAULT_ITERATIONS, DEFAULT_TOL if model.tol is None else model.tol


def columns_of_outputs(model: Any, instances: Instances) -> Columns:
    """Return the numbers of the columns that each output sees; None if all see all."""
    columns: Sequence[Sequence[int | str]] | None = model.columns
    if columns is None:
        return None
    if layout_of(model.predictors, instances.X) is not TableLayout:
        raise InputError("columns go with a table X of shape (n_instances, n_features); leave them out.")
    if len(columns) != instances.n_nodes:
        raise InputError(f"columns must hold one list for each of {instances.n_nodes} outputs; got {len(columns)}.")
    places: dict[Any, int] = {i: i for i in range(model.n_features_in_)}
    places |= {str(name): i for i, name in enumerate(getattr(model, "feature_names_in_", ()))}
    strange = [column for own in columns for column in own if column not in places]
    if strange or not all(map(len, columns)):
        wrong = f"X has no column {strange[0]!r}" if strange else "an output has none"
        raise InputError(f"columns must hold numbers or names of columns of X for each output; {wrong}.")
    return [[places[column] for column in own] for own in columns]


def own_nodes(same_nodes: bool, n_nodes: int | None, n_instances: int) -> int:
    """Return how many nodes get weights and biases of their own, shrunk to shared ones: all or none."""
    many = same_nodes and n_nodes is not None and 1 < n_nodes <= MOST_OWN and n_instances >= FEWEST_INSTANCES
    return (n_nodes or 0) if many else 0


class Learned(NamedTuple):
    """A learned field, how its fit went, and its algorithm."""

    field: FittedField
    result: FitResult
    algorithm: str


@dataclass(frozen=True)
class FieldLearner:
    """Learns fields over the same graphs by one algorithm or another.

    ``n_own`` is the number of nodes with weights of their own. It is decided once, for all instances: what is learned from
    some of them is a start for the whole, and must be as long.
    """

    layout: Layout
    graphs: list[GraphEntry]
    codes: LabelCodes
    n_own: int
    mean: str
    paper: bool
    l2: float
    limits: tuple[int, float]

    def best(self, algorithm: str, instances: Instances, random_state: RandomState) -> Learned:
        """Learn by the algorithm that was asked for; ``auto``: by the one that is better on held-out instances.

        Better is ``"vb"`` or ``"map"``, whichever gives labels of a held-out fifth the higher joint likelihood. Ctrl-C on
        the way returns what was learned last.
        """
        if algorithm != "auto":
            return self.learn(algorithm, instances)
        if instances.n_nodes == 1:
            return self.learn("map", instances)  # nothing to join, no variance to learn
        if self.mean == "direct" or len(instances) < FEWEST_INSTANCES:
            return self.learn("vb", instances)
        order = check_random_state(random_state).permutation(len(instances))
        held = len(order) // 5
        kept, rest = instances.part(np.sort(order[held:])), instances.part(np.sort(order[:held]))
        likelihood, trials = {}, {}
        for name in ("map", "vb"):
            trials[name] = self.learn(name, kept)
            if trials[name].result.interrupted:
                return trials[name]
            likelihood[name] = self._joint_likelihood(trials[name].field, rest)
        chosen = "vb" if likelihood["vb"] > likelihood["map"] else "map"
        return self.learn(chosen, instances, trials[chosen].field.theta)

    def learn(self, algorithm: str, instances: Instances, start: np.ndarray | None = None) -> Learned:
        """Learn from scored instances by one algorithm."""
        batch = make_batch(instances.X, instances.sizes, self.graphs, instances.graphs, instances.weight)
        model = self._model(algorithm, instances)
        strengths = (0.5, 4.0) if algorithm == "map" and model.n_graphs else (0.5,)
        starts = [model.start(r) for r in strengths] if start is None else [start]
        toll = 0.0 if model.simplex else TOLL
        objective = FieldObjective(model, batch, instances.labels, self.codes.kind, algorithm, self.l2, toll, 1e-5)
        result = fit_sparing_variance(objective, starts, *self.limits)
        return Learned(FittedField(self.layout, self.graphs, model, result.theta), result, algorithm)

    def _model(self, algorithm: str, instances: Instances) -> GaussianModel:
        several = self.layout.same_nodes and instances.n_nodes != 1
        direct = self.mean == "direct" or (self.mean == "auto" and algorithm == "vb" and several and not self.paper)
        return GaussianModel(
            n_scores=instances.X.shape[-1],
            n_graphs=len(self.graphs),
            n_classes=1 if self.codes.kind == "binary" else self.codes.n_classes,
            n_nodes=self.n_own,
            smoothed=not direct,
            simplex=self.paper,
            bayesian=algorithm != "map" and instances.n_nodes != 1,
        )

    def _joint_likelihood(self, field: FittedField, rest: Instances) -> float:
        batch = make_batch(rest.X, rest.sizes, self.graphs, rest.graphs, rest.weight)
        potentials = field.model.potentials(field.theta, batch)
        answers = LabelAnswers(self.codes, potentials, rest.labels, np.full(len(rest), rest.labels.shape[1]))
        return float(potentials.counts @ answers.joint())
