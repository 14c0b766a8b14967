"""What a fitted multi-label model answers: one small graph of labels per sample, decoded under rules if any."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rulefield.data.graphs import Features, TypedGraph
from rulefield.estimators.base import SavedModel
from rulefield.estimators.graph.decoding import Compiled, GraphDecoder, SearchLimits
from rulefield.estimators.graph.estimator import GraphCRF
from rulefield.estimators.graph.fitted import Rules
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import RULES, check_call, check_parameters, check_value, one_of, rule_list
from rulefield.estimators.predictors.cross_fitting import FittedScores, ScoreTask
from rulefield.estimators.tables import KnownTable, known_rows, usable_features
from rulefield.estimators.types import ArrayLike
from rulefield.exceptions import InputError, LabelError
from rulefield.inference.graph.decode import ENGINES, NODE_LIMIT
from rulefield.inference.graph.marginals import exact_sums
from rulefield.learning.graph.small import MOST_NODES, small_sums
from rulefield.models.graph_batch import GraphBatch, make_batch
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.rules.graph.compiler import GraphRuleCompiler

NODE = "label"  # the type of every label in rules: r.node("label", 3).is_(1), r.nodes("label").is_(1)


class FittedMultiLabel(ClassifierMixin, SavedModel, BaseEstimator):
    """The half of :class:`rulefield.MultiLabelCRF` that works once weights are there."""

    rules: Rules
    on_infeasible: str
    n_jobs: int | None
    n_features_in_: int
    crf_: GraphCRF
    edges_: np.ndarray
    _multilabel: bool
    _class_list: list[np.ndarray]
    _center: np.ndarray | None
    _spread: np.ndarray | None
    _fitted_scores: FittedScores | None

    @property
    def classes_(self) -> Any:
        """Values of the label, or of each label."""
        if not hasattr(self, "_class_list"):
            raise AttributeError("classes_ is set by fit.")
        return list(self._class_list) if self._multilabel else self._class_list[0]

    @property
    def _names(self) -> list[str]:
        """Type of each label's node; sorted by name they are sorted by number."""
        width = len(str(len(self._class_list) - 1))
        return [f"label{k:0{width}d}" for k in range(len(self._class_list))]

    # --- prediction -------------------------------------------------------------------------------

    def predict(self, X: Any, *, rules: Rules = None, known: KnownTable = None) -> np.ndarray:
        """Return the best joint labeling of each sample: (n_samples, n_labels), or (n_samples,) for one label.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : array-like of shape (n_samples, n_labels), or (n_samples,) for one label, optional
            Labels known beforehand; NaN or None where free. A row may be None.
        """
        X = self._checked(X)
        results = self._decoder(rules).results(self._graphs(X, self._scored(X)), self._allowed(known, X.shape[0]))
        numbers = np.stack([result.labels for result in results])
        columns = [classes[numbers[:, k]] for k, classes in enumerate(self._class_list)]
        return np.stack(columns, axis=1) if self._multilabel else columns[0]

    def decode(
        self,
        X: Any,
        *,
        rules: Rules = None,
        known: KnownTable = None,
        engine: str = "auto",
        node_limit: int = NODE_LIMIT,
        seconds: float | None = None,
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the best labeling of each sample with score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine, node_limit, seconds : as in :meth:`rulefield.GraphCRF.decode`
        verify : bool
            Whether the checker of proofs must accept each answer's proof before it is returned.
        """
        check_value("engine", engine, one_of(*ENGINES))
        check_call(node_limit=node_limit, seconds=seconds)
        X = self._checked(X)
        decoder = self._decoder(rules)
        search = SearchLimits(engine, node_limit, seconds)
        graphs, allowed = self._graphs(X, self._scored(X)), self._allowed(known, X.shape[0])
        results = decoder.results(graphs, allowed, search)
        names = [rule.label for rule in decoder.rules]
        found = [
            replace(
                Labeling.named(result, [c[k].item() for c, k in zip(self._class_list, result.labels)], names),
                prover=partial(decoder.prove, graphs, allowed, i, result),
            )
            for i, result in enumerate(results)
        ]
        return [answer.verified() for answer in found] if verify else found

    def predict_proba(self, X: Any, *, rules: Rules = None, known: KnownTable = None) -> Any:
        """Marginal probabilities: a list of (n_samples, n_classes), one for each label; one array for one label.

        Exact on trees and under rules; tree-reweighted on graphs with loops without rules.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        """
        X = self._checked(X)
        decoder, allowed = self._decoder(rules), self._allowed(known, X.shape[0])
        sums = None if decoder.rules else self._sums(X, allowed)
        found = decoder.marginals(self._graphs(X, self._scored(X)), allowed) if sums is None else list(sums[1])
        cuts = np.cumsum([len(classes) for classes in self._class_list])[:-1]
        tables = np.split(np.stack(found), cuts, axis=1)
        return tables if self._multilabel else tables[0]

    def predict_joint_log_proba(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of each sample's labels together, (n_samples,); exact.

        A tree of labels may be as large as you like; where all pairs are joined, up to 20 labels of two values are summed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels)
            NaN or None where a label is not known: summed over.
        """
        X = self._checked(X)
        return self._log_sums(X, self._allowed(y, X.shape[0])) - self._log_sums(X, None)

    def _log_sums(self, X: Features, allowed: list[np.ndarray] | None) -> np.ndarray:
        """Log-partition value of every sample: all label vectors of few labels, variable elimination for more."""
        if (sums := self._sums(X, allowed)) is not None:
            return sums[0]
        batch, union = self._potentials(X, allowed)
        try:
            parts = [GraphProblem(batch.potentials_of(union, g)) for g in range(batch.n_graphs)]
            return np.array([exact_sums(part).log_partition for part in parts])
        except InputError:
            raise InputError(
                f"joint probabilities are exact sums, too large for {len(self._class_list)} labels joined so densely; "
                'use structure="tree".'
            ) from None

    def _potentials(self, X: Features, allowed: list[np.ndarray] | None) -> tuple[GraphBatch, GraphPotentials]:
        """Scores of all samples, -inf for labels that are not allowed."""
        batch = make_batch(self._graphs(X, self._scored(X)), self.crf_._names.counts)
        union = self.crf_.model_.potentials(self.crf_.theta_, batch)
        if allowed is not None:
            union = replace(union, unary=np.where(np.concatenate(allowed), union.unary, -np.inf))
        return batch, union

    def _sums(self, X: Features, allowed: list[np.ndarray] | None) -> tuple[np.ndarray, np.ndarray] | None:
        """Log-partition value (n,) and marginals (n, 2 n_labels) of every sample; None where they are not small."""
        if len(self._class_list) > MOST_NODES or any(len(classes) != 2 for classes in self._class_list):
            return None
        batch, union = self._potentials(X, allowed)
        values, node, _ = small_sums(batch, union.unary, union.pairwise)
        return values, node.reshape(X.shape[0], -1)

    def score(
        self, X: Any, y: Any, *, rules: Rules = None, known: KnownTable = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of samples all of whose labels are predicted right, as scikit-learn counts multi-label accuracy."""
        predicted, truth = self.predict(X, rules=rules, known=known), np.asarray(y)
        if truth.shape != predicted.shape:
            raise InputError(f"y must have the shape {predicted.shape} of the predictions; got {truth.shape}.")
        right = (predicted == truth).reshape(len(truth), -1).all(axis=1)
        return float(np.average(right, weights=sample_weight))

    def _checked(self, X: Any) -> Features:
        check_is_fitted(self, "crf_")
        return usable_features(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))

    def _decoder(self, rules: Rules) -> GraphDecoder:
        check_parameters(self)
        rules = rule_list(self.rules if rules is None else rules)
        check_value("rules", rules, RULES)
        compiler = _SampleRules(rules, self._class_list, self.on_infeasible == "relax")
        crf = self.crf_
        return GraphDecoder(
            crf.model_, crf.theta_, crf._names, compiler.rules, compiler, self.on_infeasible, self.n_jobs
        )

    def _allowed(self, known: KnownTable, n_samples: int) -> list[np.ndarray] | None:
        """Values that each sample's labels may have, flat; None where nothing is known."""
        if known is None:
            return None
        sizes = [len(classes) for classes in self._class_list]
        rows = known_rows(known, n_samples)
        return [
            np.ones(sum(sizes), bool) if row is None else np.concatenate(self._row_allowed(row, i))
            for i, row in enumerate(rows)
        ]

    def _row_allowed(self, row: list[Any], i: int) -> list[np.ndarray]:
        if len(row) != len(self._class_list):
            raise InputError(f"known[{i}] must hold {len(self._class_list)} labels; got {len(row)}.")
        masks = []
        for value, classes in zip(row, self._class_list):
            mask = np.ones(len(classes), bool) if value is None else classes == value
            if not mask.any():
                raise LabelError(f"known[{i}] holds {value!r}, which is none of the classes {classes.tolist()}.")
            masks.append(mask)
        return masks

    # --- samples as graphs ----------------------------------------------------------------------------

    @property
    def _task(self) -> ScoreTask:
        n_classes = max(map(len, self._class_list))
        return ScoreTask("binary" if n_classes == 2 else "classes", n_classes)

    def _scored(self, X: Features) -> np.ndarray | None:
        return None if self._fitted_scores is None else by_label(self._fitted_scores(X))

    def _score_graphs(self, scores: np.ndarray) -> list[TypedGraph]:
        """One graph for each sample; a label has its own scores, a pair those of both labels, each a constant more."""
        n, n_labels, width = scores.shape
        nodes = np.concatenate([scores, np.ones((n, n_labels, 1))], axis=2)
        names, first = self._names, scores[:, :, :1]
        pair = np.zeros((1, 2), dtype=np.int64)
        ends = {(names[a], names[b]): (a, b) for a, b in self.edges_.tolist()}
        bent = {
            key: np.concatenate([np.ones((n, 1)), first[:, a], first[:, b]], axis=1) for key, (a, b) in ends.items()
        }
        return [
            TypedGraph(
                {name: nodes[i, k][None] for k, name in enumerate(names)},
                {key: (pair, rows[i][None]) for key, rows in bent.items()},
            )
            for i in range(n)
        ]

    def _graphs(self, X: Features, scores: np.ndarray | None) -> list[TypedGraph]:
        """One graph for each sample; all labels share its row of features and a constant."""
        if scores is not None:
            return self._score_graphs(scores)
        if sparse.issparse(X):
            rows = sparse.csr_array(sparse.hstack([X, np.ones((X.shape[0], 1))]))
            parts = [rows[[i]] for i in range(rows.shape[0])]
        else:
            scaled = X if self._center is None else (X - self._center) / self._spread
            parts = list(np.hstack([scaled, np.ones((len(scaled), 1))])[:, None, :])
        pair = np.zeros((1, 2), dtype=np.int64)
        names = self._names
        edges = {(names[a], names[b]): pair for a, b in self.edges_.tolist()}
        return [TypedGraph(dict.fromkeys(names, part), edges) for part in parts]


def by_label(scores: np.ndarray) -> np.ndarray:
    """(n, width, n_labels, n_predictors) -> (n, n_labels, width * n_predictors)."""
    n, width, n_labels, k = scores.shape
    return np.moveaxis(scores, 2, 1).reshape(n, n_labels, width * k)


class _SampleRules:
    """Rules about the nodes ``node("label", k)``, compiled for the graph of one sample; the same for all samples."""

    def __init__(self, rules: Sequence[Any], classes: Sequence[np.ndarray], countable: bool = False):
        self.rules, self._n_labels = list(rules), len(classes)
        if self.rules and any(not np.array_equal(c, classes[0]) for c in classes):
            raise InputError("rules need labels that all have the same classes; this target's columns differ.")
        self._compiler = GraphRuleCompiler(self.rules, {NODE: classes[0]}, countable)

    @cached_property
    def _compiled(self) -> Compiled:
        return self._compiler.compile(TypedGraph({NODE: np.zeros((self._n_labels, 1))}))

    def __call__(self, graph: TypedGraph) -> Compiled:
        return self._compiled
