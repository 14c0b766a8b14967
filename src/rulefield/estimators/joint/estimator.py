"""Several labelling tasks over the same tokens, learned jointly from scattered annotation."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.base import SequenceEstimator, State
from rulefield.estimators.expectation_training import (
    check_choices,
    climb,
    climb_options,
    compiled_expectations,
    expectation_reports,
)
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_of
from rulefield.estimators.joint.files import joint_state, restore_joint
from rulefield.estimators.joint.labels import JointLabels
from rulefield.estimators.progress import ProgressLine
from rulefield.estimators.sequences import checked_weights, object_array
from rulefield.exceptions import InputError
from rulefield.inference.joint.exact import joint_marginals, joint_viterbi
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.learning.lbfgs import minimise_lbfgs
from rulefield.metrics import span_f1, token_accuracy
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel
from rulefield.models.pairs import PairTable
from rulefield.parallel import n_threads
from rulefield.rules.expectations import Expectation


class JointCRF(SequenceEstimator):
    """Linear-chain CRF over several tasks, trained on any mixture of annotations.

    The joint state of a token is one label per task. Scores are the tasks' own chain scores plus weights of label pairs
    across tasks; what is not annotated is summed over.

    Parameters
    ----------
    tasks : list of str, optional
        Names of the tasks; by default all that occur in ``y``, sorted.
    scheme : str, or dict of task to scheme, optional
    l2 : float
        Penalty (l2 / 2) |w|^2.
    expectations : list of expectations, optional
        What should hold on average: ``rules.share(ner="B-PER", pos="NOUN").between(.053, .055)``. One with
        ``.at_most(0)`` on a share of tokens forbids those joint labels outright.
    expectation_method : {"pr", "ge"}
        Posterior regularisation, or a penalty on the model's own expectations.
    learning : {"em", "gradient"}
        EM as in the paper, or direct ascent of the same objective.
    slack : float
        How far, in units of shares, expectations may be missed (``slack_norm`` of all misses).
    slack_norm : {"linf", "l2", "l1"}
    dual : {"lbfgs", "proximal"}
        Solver of the multipliers: quasi-Newton, or the paper's proximal gradient.
    strength : float
        Weight of the penalty of ``expectation_method="ge"``.
    expectation_batch : int, optional
        Expectations hold in every batch of that many sequences, not only in the whole corpus (``"pr"`` only).
    joint_features : None, "all" or list of str
        Features that also get weights for joint labels.
    joint_transitions : bool
        Weights for all moves between joint labels (slower: the product is no longer factored).
    features : transformer, optional
        As in :class:`ChainCRF`.
    start_end, all_states, all_transitions, min_count : as in :class:`ChainCRF`
    max_iter : int
        Most EM iterations (or steps of direct ascent).
    tol : float
        Stop where an iteration gains less than this share of the objective.
    n_jobs : int, optional
    verbose : int

    Attributes
    ----------
    classes_ : dict of task to labels
    log_ : list of records
        Objective by iteration; it never falls.
    expectations_ : list of ExpectationReport

    Examples
    --------
    >>> X = [["Ada", "sleeps"], ["Ada", "runs"], ["Bob", "runs"]]
    >>> y = [{"name": ["B", "O"]}, {"pos": ["NOUN", "VERB"]}, {"pos": ["NOUN", "VERB"]}]
    >>> crf = JointCRF(l2=0.1).fit(X, y)
    >>> crf.predict([["Ada", "runs"]])[0]
    {'name': ['B', 'O'], 'pos': ['NOUN', 'VERB']}
    """

    _kind = "joint"
    _saved = ("tasks_", "classes_", "log_", "n_iter_", "converged_", "stopped_because_", "expectations_")

    def __init__(
        self,
        tasks: Sequence[str] | None = None,
        *,
        scheme: str | Mapping[str, str | None] | None = None,
        l2: float = 1.0,
        expectations: Sequence[Expectation] | None = None,
        expectation_method: str = "pr",
        learning: str = "em",
        slack: float = 0.0,
        slack_norm: str = "linf",
        dual: str = "lbfgs",
        strength: float = 10.0,
        expectation_batch: int | None = None,
        joint_features: str | Sequence[str] | None = None,
        joint_transitions: bool = False,
        features: Any = None,
        start_end: bool = True,
        all_states: bool = False,
        all_transitions: bool = False,
        min_count: int = 1,
        max_iter: int = 30,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.tasks = tasks
        self.scheme = scheme
        self.l2 = l2
        self.expectations = expectations
        self.expectation_method = expectation_method
        self.learning = learning
        self.slack = slack
        self.slack_norm = slack_norm
        self.dual = dual
        self.strength = strength
        self.expectation_batch = expectation_batch
        self.joint_features = joint_features
        self.joint_transitions = joint_transitions
        self.features = features
        self.start_end = start_end
        self.all_states = all_states
        self.all_transitions = all_transitions
        self.min_count = min_count
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Sequence[Mapping[str, Any]], sample_weight: Any = None) -> "JointCRF":
        """Learn from sequences of which any task, token or label may be unannotated.

        Parameters
        ----------
        X : list of sequences of tokens, or Sequences
        y : list of dict
            ``{"ner": [...], "pos": None}`` for each sequence; a task may be None or missing, a label None or a set.
        sample_weight : array-like of shape (n_sequences,), optional
        """
        check_choices(self)
        X = as_list(X)
        tasks = self._task_names(y)
        encoder = InputEncoder(copy.deepcopy(self.features))
        data = encoder.fit_transform(X)
        if not data.n_tokens:
            raise InputError("X holds no token to learn from; give at least one sequence with at least one token.")
        names = JointLabels(tasks).fit(y)
        labels = names.encode(y, data.lengths)
        tokens = [tokens_of(X, i) for i in range(len(data))]
        tasks_of = {task: (names.classes[task], self._scheme(task)) for task in tasks}
        weight = checked_weights(sample_weight, len(data))
        forbidden, expected = compiled_expectations(self.expectations, tasks_of, tokens, weight)
        model = self._model(data, labels, names, encoder, forbidden)
        corpus = JointCorpus(model, data, labels, weight, n_threads(self.n_jobs))
        start = self._single_tasks(model, data, labels, weight)
        options = climb_options(self, self.l2, self.max_iter)
        with ProgressLine("fitting (joint)", bool(self.verbose)) as progress:
            outcome = climb(corpus, expected, start, options, progress)
        self.tasks_, self.classes_ = tasks, names.classes
        self.model_, self.theta_ = model, outcome.theta
        self._encoder, self._names = encoder, names
        self.expectations_ = expectation_reports(corpus, expected, outcome, options)
        report_fit(self, outcome)
        return self

    def _task_names(self, y: Any) -> list[str]:
        if self.tasks is not None:
            return list(self.tasks)
        found = {task for row in y if isinstance(row, Mapping) for task, labels in row.items() if labels is not None}
        if not found:
            raise InputError("y names no task with labels; give one dict per sequence, such as {'ner': [...]}.")
        return sorted(found)

    def _scheme(self, task: str) -> str | None:
        return self.scheme.get(task) if isinstance(self.scheme, Mapping) else self.scheme

    def _model(
        self,
        data: Sequences,
        labels: tuple[Labels, ...],
        names: JointLabels,
        encoder: InputEncoder,
        forbidden: np.ndarray,
    ) -> JointModel:
        models = tuple(
            ChainModel.build(
                data,
                known,
                allowed=allowed_transitions([str(c) for c in names.classes[task]], self._scheme(task)),
                all_states=self.all_states,
                all_transitions=self.all_transitions,
                start_end=self.start_end,
                min_count=max(1, self.min_count),
            )
            for task, known in zip(names.tasks, labels)
        )
        S = len(forbidden)
        moves = (np.repeat(np.arange(S), S), np.tile(np.arange(S), S)) if self.joint_transitions else None
        return JointModel.of(
            models, joint_pairs=self._joint_pairs(encoder, S), moves=moves, allowed=np.logical_not(forbidden)
        )

    def _joint_pairs(self, encoder: InputEncoder, n_states: int) -> PairTable | None:
        if self.joint_features is None:
            return None
        names = encoder.names
        if isinstance(self.joint_features, str):
            if self.joint_features != "all":
                raise InputError(f"joint_features must be 'all' or a list of names; got {self.joint_features!r}.")
            return PairTable.full(len(names), n_states)
        wanted = set(self.joint_features)
        missing = wanted - set(names)
        if missing:
            raise InputError(f"joint_features names {sorted(missing)[0]!r}, which does not occur in X.")
        return PairTable.full(len(names), n_states, np.array([i for i, name in enumerate(names) if name in wanted]))

    def _single_tasks(
        self, model: JointModel, data: Sequences, labels: tuple[Labels, ...], weight: np.ndarray | None
    ) -> np.ndarray:
        """Return a start for EM: each task learned alone from its own annotation, a few dozen steps."""
        theta = model.zeros()
        jobs = n_threads(self.n_jobs)
        for k, (task, known) in enumerate(zip(model.tasks, labels)):
            rows = _annotated(known)
            own = ChainLikelihood(
                task,
                data[rows],
                known[rows],
                l2=max(self.l2, 1e-3),
                sample_weight=None if weight is None else weight[rows],
                n_jobs=jobs,
            )
            model.task_theta(theta, k)[:] = minimise_lbfgs(own, task.zeros(), max_iter=40, n_jobs=jobs).theta
        return theta

    # --- prediction -------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the best joint labelling of each sequence: a 1-D object array of dicts of lists."""
        data = self._transform(X)
        states, _ = joint_viterbi(self.model_.potentials(self.theta_, data))
        labels = np.unravel_index(states, self.model_.sizes)
        flat = {task: self._names.encoders[task].decode(ids) for task, ids in zip(self.tasks_, labels)}
        bounds = zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist())
        return object_array([{task: flat[task][a:b] for task in self.tasks_} for a, b in bounds])

    def predict_marginals(self, X: Any) -> list[dict[str, np.ndarray]]:
        """Return the probability of every label of every task at every token, (n, m_k) in ``classes_`` order."""
        data = self._transform(X)
        node = joint_marginals(self.model_.potentials(self.theta_, data)).node
        cube = node.reshape(len(node), *self.model_.sizes)
        axes = range(1, len(self.tasks_) + 1)
        own = {t: cube.sum(axis=tuple(a for a in axes if a != k + 1)) for k, t in enumerate(self.tasks_)}
        bounds = list(zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist()))
        return [{task: own[task][a:b] for task in self.tasks_} for a, b in bounds]

    def score(self, X: Any, y: Sequence[Mapping[str, Any]]) -> float:
        """Mean over tasks of :meth:`score_tasks`."""
        return float(np.mean(list(self.score_tasks(X, y).values())))

    def score_tasks(self, X: Any, y: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Span F1 of tasks with a scheme, token accuracy of the others, on the sequences that have their labels."""
        predicted = self.predict(X)
        scores = {}
        for task in self.tasks_:
            rows = [i for i, row in enumerate(y) if row.get(task) is not None]
            gold, guess = [y[i][task] for i in rows], [predicted[i][task] for i in rows]
            scheme = self._scheme(task)
            scores[task] = span_f1(gold, guess, scheme=scheme) if scheme else token_accuracy(gold, guess)
        return scores

    def _transform(self, X: Any) -> Sequences:
        check_is_fitted(self)
        return self._encoder.transform(as_list(X))

    # --- files and scikit-learn -------------------------------------------------------------------

    def _state(self) -> State:
        return joint_state(self)

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        restore_joint(self, arrays, metadata, **given)


def _annotated(labels: Labels) -> np.ndarray:
    """Sequences of which at least one token is known to be less than anything."""
    if labels.allowed is None:
        return np.arange(len(labels))
    known = np.logical_not(labels.allowed.astype(bool).all(axis=1))
    counts = np.concatenate([[0], np.cumsum(known)])
    return np.flatnonzero(np.diff(counts[labels.offsets]) > 0)
