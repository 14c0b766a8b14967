"""What a fitted joint model answers: labels by task, probabilities, k best, samples, explanations; under rules."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.base import SequenceEstimator
from rulefield.estimators.chain.explanations import ChainExplainer
from rulefield.estimators.explanations import Explanation, with_rules_or_without
from rulefield.estimators.inputs import InputEncoder, as_list
from rulefield.estimators.joint.decoding import JointDecoder, Known
from rulefield.estimators.joint.labels import TaskLabels
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import check_call, rule_list
from rulefield.estimators.sequences import object_array, refuse_weights, token_lists
from rulefield.estimators.types import ArrayLike, KnownLike, RandomState, RulesLike, SequencesLike, TasksLike, Tokens
from rulefield.exceptions import InfeasibleError
from rulefield.metrics import span_f1, token_accuracy
from rulefield.models.joint import JointModel
from rulefield.rules.joint import JointRuleCompiler
from rulefield.scikit import check_is_fitted, check_random_state

Rules = RulesLike | None
TaskRows = dict[str, list[Any]]


class FittedJoint(SequenceEstimator):
    """The half of :class:`rulefield.JointCRF` that works once weights are there."""

    scheme: str | Mapping[str, str | None] | None
    rules: Rules
    on_infeasible: str
    n_jobs: int | None
    tasks_: list[str]
    classes_: dict[str, list[Any]]
    model_: JointModel
    theta_: np.ndarray
    _encoder: InputEncoder
    _names: TaskLabels

    def predict(self, X: SequencesLike, *, rules: Rules = None, known: KnownLike | None = None) -> np.ndarray:
        """Return the best joint labeling of each sequence: a 1-D object array of dicts of lists.

        Parameters
        ----------
        X : as in ``fit``
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list of dict, optional
            Labels known beforehand, by task; a sequence, a task or a label may be None (unknown), a label a set.
        """
        X, data = self._data(X)
        found = self._decoder(rules).best(data, token_lists(X, data), self._known(known, data))
        for i, states in enumerate(found):
            if len(states) != data.lengths[i]:
                raise InfeasibleError(
                    f"sequence {i}: no labeling that obeys the hard rules was found, and none is disproved; give known "
                    "labels, or decode with a larger node_limit."
                )
        return object_array([self._labels(states) for states in found])

    def decode(
        self,
        X: SequencesLike,
        *,
        rules: Rules = None,
        known: KnownLike | None = None,
        engine: str = "auto",
        node_limit: int | None = None,
        seconds: float | None = None,
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the best joint labeling of each sequence with its score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine : str
            ``auto`` takes the factored maximum, and searches only where rules are broken; an engine of chains runs on the
            dense product of the label sets.
        node_limit, seconds : limits of each search
        verify : bool
            Whether the checker of proofs must accept each answer's proof before it is returned.
        """
        check_call(node_limit=node_limit, seconds=seconds)
        X, data = self._data(X)
        how: dict[str, Any] = {"engine": engine, "seconds": seconds}
        how |= {} if node_limit is None else {"node_limit": node_limit}
        decoder = self._decoder(rules)
        given = data, token_lists(X, data), self._known(known, data)
        found = [
            replace(
                Labeling.named(result, self._labels(result.labels), decoder.names),
                prover=partial(decoder.prove, *given, i, result),
            )
            for i, result in enumerate(decoder.decode(*given, **how))
        ]
        return [answer.verified() for answer in found] if verify else found

    def predict_marginals(
        self, X: SequencesLike, *, rules: Rules = None, known: KnownLike | None = None
    ) -> list[dict[str, np.ndarray]]:
        """Return the probability of every label of every task at every token, (n, m_k) in ``classes_`` order.

        Under rules, labelings that break a hard one do not count and soft ones are paid for.
        """
        X, data = self._data(X)
        nodes = self._decoder(rules).marginals(data, token_lists(X, data), self._known(known, data))
        return [self._by_task(node) for node in nodes]

    def predict_kbest(
        self, X: SequencesLike, *, rules: Rules = None, known: KnownLike | None = None, k: int = 5
    ) -> list[list[tuple[TaskRows, float]]]:
        """Return the k best joint labelings of each sequence, best first, and their probabilities under the rules."""
        check_call(k=k)
        X, data = self._data(X)
        answers = self._decoder(rules).kbest(data, token_lists(X, data), self._known(known, data), k)
        return [[(self._labels(states), p) for states, p in row] for row in answers]

    def sample(
        self,
        X: SequencesLike,
        *,
        rules: Rules = None,
        known: KnownLike | None = None,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> list[list[TaskRows]]:
        """Draw ``n_samples`` joint labelings of each sequence from the model's distribution under the rules."""
        check_call(n_samples=n_samples)
        X, data = self._data(X)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        drawn = self._decoder(rules).sample(data, token_lists(X, data), self._known(known, data), n_samples, seed)
        return [[self._labels(states) for states in rows] for rows in drawn]

    def explain(
        self, x: Tokens, *, rules: Rules = None, known: KnownLike | None = None, top: int = 5
    ) -> dict[str, Explanation]:
        """Say for each task which features and transitions decided the labels of ``x`` under the rules.

        What the labels of another task add at the same token is listed among the transitions, under ``(task)``.
        """
        X = x if isinstance(x, Sequences) else [x]
        given = None if known is None else [known]
        X, data = self._data(X)
        labels = self.predict(X, rules=rules, known=given)[0]
        (chances,), note = with_rules_or_without(
            lambda: self.predict_marginals(X, rules=rules, known=given),
            lambda: self.predict_marginals(X, rules=[], known=given),
        )
        ids = {task: self._names.encoders[task].encode([labels[task]], data.lengths).ids for task in self.tasks_}
        tokens, names = token_lists(X, data)[0], self._encoder.names_in(X)
        found = {}
        for k, (task, model) in enumerate(zip(self.tasks_, self.model_.tasks)):
            explainer = ChainExplainer(
                model, self.model_.task_theta(self.theta_, k), self.classes_[task], names, top, self._cross(k, ids)
            )
            found[task] = explainer.explain(tokens, data, ids[task], chances[task], note=note)
        return found

    def score(
        self,
        X: SequencesLike,
        y: TasksLike,
        *,
        rules: Rules = None,
        known: KnownLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean over tasks of :meth:`score_tasks`."""
        refuse_weights(sample_weight)
        return float(np.mean(list(self.score_tasks(X, y, rules=rules, known=known).values())))

    def score_tasks(
        self, X: SequencesLike, y: TasksLike, *, rules: Rules = None, known: KnownLike | None = None
    ) -> dict[str, float]:
        """Span F1 of tasks with a scheme, token accuracy of the others, on the sequences that have their labels."""
        predicted = self.predict(X, rules=rules, known=known)
        scores = {}
        for task in self.tasks_:
            rows = [i for i, row in enumerate(y) if row.get(task) is not None]
            gold, guess = [y[i][task] for i in rows], [predicted[i][task] for i in rows]
            scheme = self._scheme(task)
            scores[task] = span_f1(gold, guess, scheme=scheme) if scheme else token_accuracy(gold, guess)
        return scores

    # --- from what users give to numbers, and back ----------------------------------------------------

    def _data(self, X: SequencesLike) -> tuple[Any, Sequences]:
        check_is_fitted(self)
        X = as_list(X)
        return X, self._encoder.transform(X)

    def _decoder(self, rules: Rules) -> JointDecoder:
        acting = rule_list(self.rules if rules is None else rules)
        tasks = {task: ([str(c) for c in self.classes_[task]], self._scheme(task)) for task in self.tasks_}
        compiler = JointRuleCompiler(acting, tasks)
        return JointDecoder(self.model_, self.theta_, compiler, self.on_infeasible == "relax", self.n_jobs)

    def _known(self, known: KnownLike | None, data: Sequences) -> Known:
        if known is None:
            return None
        rows: Any = [{} if row is None else row for row in known] if hasattr(known, "__iter__") else known
        return self._names.encode(rows, data.lengths)

    def _labels(self, states: np.ndarray) -> TaskRows:
        ids = np.unravel_index(states, self.model_.sizes)
        return {task: self._names.encoders[task].decode(own) for task, own in zip(self.tasks_, ids)}

    def _by_task(self, node: np.ndarray) -> dict[str, np.ndarray]:
        """Probabilities of each task's labels from those of joint states (n, S)."""
        cube = node.reshape(len(node), *self.model_.sizes)
        axes = range(1, len(self.tasks_) + 1)
        return {t: cube.sum(axis=tuple(a for a in axes if a != k + 1)) for k, t in enumerate(self.tasks_)}

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
