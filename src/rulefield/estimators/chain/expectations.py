"""Expectations and presumed labels in the training of a single chain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder, place
from rulefield.estimators.chain.options import ChainOptions
from rulefield.estimators.chain.training import ChainTraining, Monitor
from rulefield.estimators.expectation_training import (
    ExpectationOptions,
    ExpectationReport,
    Expected,
    compiled_expectations,
    expectation_options,
    expectation_reports,
    fit_with_expectations,
    warn_of_missed,
)
from rulefield.estimators.expectations import keeper_of
from rulefield.estimators.inputs import tokens_of
from rulefield.estimators.parameters import rule_list
from rulefield.estimators.progress import ProgressLine
from rulefield.estimators.types import SequencesLike
from rulefield.exceptions import InputError, RuleError
from rulefield.learning.chain.fit import fit_likelihood
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.expectations.corpus import ChainCorpus
from rulefield.learning.fit_log import FitResult
from rulefield.models.chain_structure import Allowed, label_masks

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF

START_ITERATIONS = 40
PRESUMED_ITERATIONS = 100
LEAST_L2 = 1e-3
"""Penalty of a start if the model itself has none: weights of a start must be finite."""
TASK = "label"
"""Name of the only task: ``share(label="B-PER")`` and ``share("B-PER")`` are the same."""


@dataclass(frozen=True)
class ChainExpectations:
    """What should hold on average while a chain is trained: compiled for the corpus, and how to fit."""

    expected: Expected
    forbidden: np.ndarray
    options: ExpectationOptions

    def without_forbidden(self, allowed: Allowed) -> Allowed:
        """Masks of permitted transitions, starts and ends without the labels that no token may have."""
        possible = np.logical_not(self.forbidden)
        return allowed[0] & np.outer(possible, possible), allowed[1] & possible, allowed[2] & possible

    def check_labels(self, labels: Labels, names: Sequence[Any], weight: np.ndarray | None) -> None:
        """Refuse expectations that what is known contradicts, by the labels of single tokens."""
        masks = label_masks(labels)
        shut = np.flatnonzero(~(masks & ~self.forbidden).any(axis=1))
        if len(shut):
            sequence, token = place(labels, int(shut[0]))
            label = str(names[int(np.flatnonzero(masks[shut[0]])[0])])
            raise RuleError(
                f"an expectation of at most 0 forbids the label {label!r}, but token {token} of sequence {sequence} "
                "has it; correct one of them."
            )
        times = np.repeat(np.ones(len(labels)) if weight is None else weight, labels.lengths)
        for written, e in self.expected:
            if len(e.move_from) or any(table is not None for table in e.edges):
                continue
            value = e.node[e.token_class]
            least = times @ np.where(masks, value, np.inf).min(axis=1) / e.total
            most = times @ np.where(masks, value, -np.inf).max(axis=1) / e.total
            if least > e.high + self.options.slack or most < e.low - self.options.slack:
                raise RuleError(
                    f"{written.label} contradicts the labels: what is known leaves it between {least:.4g} and "
                    f"{most:.4g}; correct its range, or leave more unknown."
                )


def chain_expectations(
    crf: "ChainCRF",
    options: ChainOptions,
    names: LabelEncoder,
    X: SequencesLike,
    data: Sequences,
    weight: np.ndarray | None,
) -> ChainExpectations | None:
    """Check and compile the expectations of a ChainCRF for ``X``, encoded as ``data``; None if it has none."""
    keeper = keeper_of(crf.expectations)
    if keeper is None or not keeper.expectations:
        return None
    refused = {
        "solver": crf.solver != "lbfgs",
        "l1": options.l1 > 0,
        "transition_features": crf.transition_features is not None,
        "train_with_rules": bool(crf.train_with_rules and rule_list(crf.rules)),
        "early_stopping": options.patience is not None,
    }
    for name, given in refused.items():
        if given:
            raise InputError(f"expectations do not go with {name}={getattr(crf, name)!r}; leave one of them out.")
    task = {TASK: ([str(c) for c in names.classes_], crf.scheme)}
    forbidden, expected = compiled_expectations(
        keeper.expectations, task, [tokens_of(X, i) for i in range(len(data))], weight
    )
    return ChainExpectations(
        expected,
        forbidden,
        expectation_options(keeper, options.l2, options.max_iter, options.tol),
    )


def presumed_start(training: ChainTraining, options: ChainOptions, guess: Labels) -> np.ndarray:
    """Weights learned as if ``guess`` were known: where the search for the true labels begins."""
    return _learned(training, options, guess, PRESUMED_ITERATIONS, 1e-4)


def _learned(training: ChainTraining, options: ChainOptions, labels: Labels, max_iter: int, tol: float) -> np.ndarray:
    likelihood = ChainLikelihood(
        training.model,
        training.data,
        labels,
        l2=max(options.l2, LEAST_L2),
        sample_weight=training.weight,
        n_jobs=options.n_jobs,
    )
    done = fit_likelihood(likelihood, max_iter=max_iter, tol=tol, n_jobs=options.n_jobs, seed=training.seed)
    if done.interrupted:
        raise KeyboardInterrupt
    return done.theta


def train_expected(
    training: ChainTraining, options: ChainOptions, verbose: int
) -> tuple[FitResult, list[ExpectationReport]]:
    """Fit from the start (by default, from what the known labels alone teach) under the expectations."""
    plan = training.expectations
    assert plan is not None
    corpus = ChainCorpus(training.model, training.data, training.labels, training.weight, options.n_jobs)
    start = training.start
    if start is None:
        start = _learned(training, options, training.labels, START_ITERATIONS, 1e-5)
    with ProgressLine(f"fitting ({plan.options.method})", bool(verbose)) as progress:
        monitor = Monitor(training.begun, None, None, progress)
        found = fit_with_expectations(corpus, plan.expected, start, plan.options, monitor)
    reports = expectation_reports(corpus, plan.expected, found, plan.options)
    warn_of_missed(reports, plan.options)
    return monitor.result(found), reports
