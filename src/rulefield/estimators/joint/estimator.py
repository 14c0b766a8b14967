"""Several labeling tasks over the same tokens, learned jointly from scattered annotation."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.base import SEQUENCE_PARAMETERS, Batch, SequenceEstimator
from rulefield.estimators.chain.explanations import ChainExplainer
from rulefield.estimators.expectation_training import ExpectationTraining
from rulefield.estimators.expectations import Keeper, keeper_of
from rulefield.estimators.explanations import ModelExplanation, TokenExplanation
from rulefield.estimators.fitting import ProgressLine, report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_of
from rulefield.estimators.joint.labels import TaskLabels
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    FLAG,
    KEEPER,
    Table,
    anything,
    check_parameters,
    either,
    list_of,
    number,
    one_of,
    optional,
)
from rulefield.estimators.sequences import check_some_tokens, checked_weights, object_array
from rulefield.estimators.types import (
    ArrayLike,
    KnownLike,
    LabelsLike,
    RulesLike,
    SequencesLike,
    TasksLike,
    Transformer,
)
from rulefield.exceptions import InputError, ModelFileError
from rulefield.interrupts import interruptible
from rulefield.learning.chain.likelihood import ChainLikelihood, fit_likelihood
from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.learning.expectations.regularized import ExpectationFit
from rulefield.learning.fit_log import FitResult
from rulefield.metrics import span_f1, token_accuracy
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel, joint_pairs_seen
from rulefield.models.pairs import PairTable
from rulefield.parallel import n_threads
from rulefield.rules.expectations import Expectation
from rulefield.rules.joint import JointRuleCompiler

if TYPE_CHECKING:
    from rulefield.estimators.joint.answers import JointAnswers

START_ITERATIONS = 40
"""Iterations of each task alone before the tasks are learned together."""

LEAST_L2 = 1e-3
"""Penalty of each task alone where ``l2`` is smaller: weights of a start need not be as large as they like."""


@dataclass(kw_only=True, eq=False, repr=False)
class JointCRF(SequenceEstimator):
    """Linear-chain CRF over several tasks, trained on any mixture of annotations.

    The joint state of a token is one label per task. Scores are the tasks' own chain scores plus weights of label pairs
    across tasks; what is not annotated is summed over.

    Parameters
    ----------
    tasks : list of str, optional
        Names of the tasks; by default all that occur in ``y``, sorted.
    scheme : str, or dict of task to scheme, optional
        Label scheme of all tasks, or of each.
    rules : list of rules, optional
        Every prediction obeys the hard ones and pays for breaking soft ones. Patterns name their task where a name is not
        clear by itself: ``rules.segments("person", task="ner") <= 1``; see :mod:`rulefield.rules`.
    l2 : float
        Penalty ``(l2 / 2) |w|^2``.
    expectations : list of expectations, PosteriorRegularization or GeneralizedExpectation, optional
        What should hold on average: ``rules.share(ner="B-PER", pos="NOUN").between(.053, .055)``. One with
        ``.at_most(0)`` on a share of tokens forbids those joint labels outright. A list is kept by
        :class:`PosteriorRegularization` with its defaults.
    joint_features : "all", None or list of str, default "all"
        Features that also have weights with joint labels (section 3.1 of [Goyal16]), where the annotation leaves the pair
        possible; None: the tasks meet in the weights of label pairs alone.
    joint_transitions : bool
        Weights for all moves between joint labels (slower: the product is no longer factored).
    tol : float, optional
        Stop if ten iterations gain less than this share of the objective; 1e-4 by default.
    features, start_end, all_states, all_transitions, min_count, max_iter, on_infeasible, random_state, n_jobs, verbose
        As in :class:`ChainCRF`.

    Attributes
    ----------
    tasks_ : list of str
        Names of the tasks, in the order of joint states.
    classes_ : dict of task to ndarray
        Labels of each task.
    model_ : JointModel
        Which weights there are.
    theta_ : ndarray
        The weights.
    log_ : list of records
        Objective by iteration.
    n_iter_ : int
    converged_ : bool
    stopped_because_ : str
        Why the fit ended, in a sentence.
    expectations_ : list of ExpectationReport
        How each expectation fared in training.
    n_features_in_, feature_names_in_
        Number and names of the features.

    Examples
    --------
    >>> X = [["Ada", "sleeps"], ["Ada", "runs"], ["Bob", "runs"]]
    >>> y = [{"name": ["B", "O"]}, {"pos": ["NOUN", "VERB"]}, {"pos": ["NOUN", "VERB"]}]
    >>> crf = JointCRF(l2=0.1).fit(X, y)
    >>> crf.predict([["Ada", "runs"]])[0]
    {'name': ['B', 'O'], 'pos': ['NOUN', 'VERB']}
    """

    tasks: Sequence[str] | None = None
    scheme: str | Mapping[str, str | None] | None = None
    l2: float = 1.0
    expectations: Sequence[Expectation] | Keeper | None = None
    joint_features: str | Sequence[str] | None = "all"
    joint_transitions: bool = False
    features: Transformer | None = None
    start_end: bool = True
    all_states: bool = False
    all_transitions: bool = False
    min_count: int = 1
    max_iter: int | None = None
    tol: float | None = None

    _kind = "joint"
    tasks_: list[str] = field(init=False)
    classes_: dict[str, np.ndarray] = field(init=False)
    model_: JointModel = field(init=False)
    theta_: np.ndarray = field(init=False)
    expectations_: list[Any] = field(init=False)
    _names: TaskLabels = field(init=False)
    _parameters: ClassVar[Table] = {
        **SEQUENCE_PARAMETERS,
        "tasks": optional(list_of("a list of names", str)),
        "scheme": anything("anything: a scheme, or a dict of task to scheme"),
        "l2": number(),
        "expectations": KEEPER,
        "joint_features": optional(either(one_of("all"), list_of("a list of feature names", str))),
        "joint_transitions": FLAG,
        "start_end": FLAG,
    }
    _saved = (
        "tasks_",
        "classes_",
        "model_",
        "theta_",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
        "expectations_",
    )

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(
        self,
        X: SequencesLike,
        y: TasksLike,
        sample_weight: ArrayLike | None = None,
    ) -> "JointCRF":
        """Learn from sequences of which any task, token or label may be unannotated.

        Parameters
        ----------
        X : list of sequences of tokens, or Sequences
        y : list of dict
            ``{"ner": [...], "pos": None}`` for each sequence; a task may be None or missing, a label None or a set.
        sample_weight : array-like of shape (n_sequences,), optional
        """
        check_parameters(self)
        keeper = keeper_of(self.expectations)
        X = as_list(X)
        tasks = self._task_names(y)
        encoder = InputEncoder(copy.deepcopy(self.features))
        data = encoder.fit_transform(X)
        check_some_tokens(data)
        names = TaskLabels(tasks).fit(y)
        labels = names.encode(y, data.lengths)
        tokens = [tokens_of(X, i) for i in range(len(data))]
        tasks_of = {task: (names.classes[task], self._scheme(task)) for task in tasks}
        weight = checked_weights(sample_weight, len(data))
        how: dict[str, Any] = {"l2": self.l2, "max_iter": self.max_iter, "tol": self.tol}
        training = ExpectationTraining.of(keeper, tasks_of, tokens, weight, **how)
        model = self._model(data, labels, names, encoder, training.forbidden)
        corpus = JointCorpus(model, data, labels, weight, n_threads(self.n_jobs))
        start, interrupted = self._single_tasks(model, data, labels, weight)
        if interrupted is None:
            with ProgressLine("fitting (joint)", bool(self.verbose)) as progress:
                outcome = training.fit(corpus, start, progress)
        else:
            outcome = ExpectationFit.of(replace(interrupted, theta=start), np.zeros(0), np.zeros(0))
        self.tasks_, self.classes_ = tasks, {task: object_array(own) for task, own in names.classes.items()}
        self.model_, self.theta_ = model, outcome.theta
        self._encoder, self._names = encoder, names
        self.expectations_ = [] if interrupted else training.reports(corpus, outcome)
        report_fit(self, outcome)
        if not outcome.interrupted:
            training.warn_of_missed(self.expectations_)
        return self

    def _task_names(self, y: LabelsLike) -> list[str]:
        if self.tasks is not None:
            return list(self.tasks)
        found = {task for row in y if isinstance(row, Mapping) for task, labels in row.items() if labels is not None}
        if not found:
            raise InputError("y names no task with labels; give one dict per sequence, such as {'ner': [...]}.")
        return sorted(found)

    def _model(
        self,
        data: Sequences,
        labels: tuple[Labels, ...],
        names: TaskLabels,
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
        allowed = np.logical_not(forbidden)
        pairs = self._joint_pairs(data, labels, encoder, allowed)
        return JointModel.of(models, joint_pairs=pairs, moves=moves, allowed=allowed)

    def _joint_pairs(
        self, data: Sequences, labels: tuple[Labels, ...], encoder: InputEncoder, allowed: np.ndarray
    ) -> PairTable | None:
        if self.joint_features is None:
            return None
        features = None
        if not isinstance(self.joint_features, str):
            wanted = sorted(set(self.joint_features))
            columns = encoder.find(wanted)
            if (columns < 0).any():
                raise InputError(
                    f"joint_features names {wanted[int(columns.argmin())]!r}, which does not occur in X."
                )
            features = np.unique(columns).astype(np.int64)
        return joint_pairs_seen(data, labels, allowed=allowed, features=features, min_count=max(1, self.min_count))

    def _single_tasks(
        self, model: JointModel, data: Sequences, labels: tuple[Labels, ...], weight: np.ndarray | None
    ) -> tuple[np.ndarray, FitResult | None]:
        """Return a start: each task learned alone from its own annotation, a few dozen steps; and what Ctrl-C ended."""
        theta = model.zeros()
        jobs = n_threads(self.n_jobs)
        for k, (task, known) in enumerate(zip(model.tasks, labels)):
            rows = _annotated(known)
            own = ChainLikelihood(
                task,
                data[rows],
                known[rows],
                l2=max(self.l2, LEAST_L2),
                sample_weight=None if weight is None else weight[rows],
                n_jobs=jobs,
            )
            found = fit_likelihood(own, max_iter=START_ITERATIONS, n_jobs=jobs)
            model.task_theta(theta, k)[:] = found.theta
            if found.interrupted:
                return theta, found
        return theta, None

    # --- answers ----------------------------------------------------------------------------------

    def predict_marginals(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        output: str = "array",
        tolerance: float = 1e-6,
    ) -> list[Any]:
        """Return the probability of every label of every task at every token: for each sequence a dict by task.

        ``output`` as for other models; arrays (n_tokens, n_labels) are the default here.
        """
        return super().predict_marginals(X, rules=rules, known=known, output=output, tolerance=tolerance)

    def score_tasks(
        self, X: SequencesLike, y: TasksLike, *, rules: RulesLike | None = None, known: KnownLike | None = None
    ) -> dict[str, float]:
        """Span F1 of tasks with a scheme, token accuracy of the others, on the sequences that have their labels."""
        return self._task_scores(y, self.predict(X, rules=rules, known=known))

    def _task_scores(self, y: LabelsLike, predicted: LabelsLike) -> dict[str, float]:
        scores = {}
        for task in self.tasks_:
            rows = [i for i, row in enumerate(y) if row.get(task) is not None]
            gold, guess = [y[i][task] for i in rows], [predicted[i][task] for i in rows]
            scheme = self._scheme(task)
            scores[task] = span_f1(gold, guess, scheme=scheme) if scheme else token_accuracy(gold, guess)
        return scores

    # --- the family: what the base asks of a joint model ------------------------------------------

    def _possible(self, known: KnownLike, batch: Batch) -> tuple[Labels, ...]:
        rows: Any = [{} if row is None else row for row in known] if hasattr(known, "__iter__") else known
        return self._names.encode(rows, batch.data.lengths)

    def _answers(self, rules: list[Any], on_infeasible: str, n_jobs: int) -> "JointAnswers":
        from rulefield.estimators.joint.answers import JointAnswers  # loads engines

        tasks = {task: ([str(c) for c in self.classes_[task]], self._scheme(task)) for task in self.tasks_}
        compiler = JointRuleCompiler(rules, tasks)
        return JointAnswers(self.model_, self.theta_, self._names, compiler, on_infeasible == "relax", n_jobs)

    def _explain_weights(self, top: int) -> ModelExplanation:
        raise InputError("explain() of a JointCRF needs a sequence: it explains the labels of each task.")

    def _explain_labels(
        self, batch: Batch, ids: np.ndarray, labeling: Labeling, marginals: Any, top: int
    ) -> dict[str, list[TokenExplanation]]:
        """Explain each task; what labels of another task add at the same token is a transition under ``(task)``."""
        names, reasons = self._encoder.columns, {}
        paths = dict(zip(self.tasks_, np.unravel_index(ids, self.model_.sizes)))
        for k, (task, model) in enumerate(zip(self.tasks_, self.model_.tasks)):
            theta = self.model_.task_theta(self.theta_, k)
            explainer = ChainExplainer(model, theta, self.classes_[task].tolist(), names, top, self._cross(k, paths))
            reasons[task] = explainer.explain(batch.tokens[0], batch.data, paths[task], marginals[task])
        return reasons

    def _score_labels(self, y: LabelsLike, predicted: LabelsLike) -> float:
        return float(np.mean(list(self._task_scores(y, predicted).values())))

    def _scheme(self, task: str) -> str | None:
        return self.scheme.get(task) if isinstance(self.scheme, Mapping) else self.scheme

    def _cross(self, k: int, ids: Mapping[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
        """For each token what the labels of other tasks add to each label of task ``k``: names and (n, m_k) scores."""
        found = []
        for j, pair in enumerate(self.model_.cross):
            if k not in pair:
                continue
            table = self.model_.cross_table(self.theta_, j)
            other = self.tasks_[pair[1] if pair[0] == k else pair[0]]
            own = table.T if pair[0] == k else table
            found.append((other, own[ids[other]]))
        return found

    # --- files ------------------------------------------------------------------------------------

    def _check_restored(self) -> None:
        if list(self.model_.sizes) != [len(self.classes_[task]) for task in self.tasks_]:
            raise ModelFileError("the model file has weights for other labels; save the model again.")
        self._names = TaskLabels(self.tasks_).set_classes(self.classes_)


def _annotated(labels: Labels) -> np.ndarray:
    """Sequences of which at least one token is known to be less than anything."""
    if labels.allowed is None:
        return np.arange(len(labels))
    known = np.logical_not(labels.allowed.astype(bool).all(axis=1))
    counts = np.concatenate([[0], np.cumsum(known)])
    return np.flatnonzero(np.diff(counts[labels.offsets]) > 0)
