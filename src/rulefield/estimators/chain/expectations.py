"""Expectations and presumed labels in the training of a single chain."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.encode.labels import LabelEncoder, place
from rulefield.estimators.expectation_training import ExpectationReport, ExpectationTraining
from rulefield.estimators.expectations import keeper_of
from rulefield.exceptions import InputError, RuleError
from rulefield.inference.sequences.exact import log_partition_batch
from rulefield.learning.chain.penalties import Penalties
from rulefield.learning.expectations.corpus import ChainCorpus
from rulefield.learning.fit_log import Callback, FitResult
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import Allowed, label_masks

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF

TASK = "label"
"""Name of the only task: ``share(label="B-PER")`` and ``share("B-PER")`` are the same."""


class ChainExpectations(ExpectationTraining):
    """What should hold on average while a chain is trained: compiled for the corpus, and how to fit."""

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
            if least > e.high + self.slack or most < e.low - self.slack:
                raise RuleError(
                    f"{written.label} contradicts the labels: what is known leaves it between {least:.4g} and "
                    f"{most:.4g}; correct its range, or leave more unknown."
                )

    def train(
        self,
        model: ChainModel,
        data: Sequences,
        labels: Labels,
        start: np.ndarray,
        show: Callback,
        *,
        sample_weight: np.ndarray | None,
        n_jobs: int,
    ) -> tuple[FitResult, list[ExpectationReport]]:
        """Fit under the expectations, from the weights ``start``."""
        corpus = ChainCorpus(model, data, labels, sample_weight, n_jobs)
        done = self.fit(corpus, start, show)
        reports = self.reports(corpus, done)
        self.warn_of_missed(reports)
        return done, reports


def chain_expectations(
    crf: "ChainCRF", penalties: Penalties, names: LabelEncoder, tokens: list[Any], weight: np.ndarray | None
) -> ChainExpectations | None:
    """Check and compile the expectations of a ChainCRF for sequences of tokens; None if it has none."""
    keeper = keeper_of(crf.expectations)
    if keeper is None or not keeper.expectations:
        return None
    if penalties.l1 > 0:
        raise InputError(f"expectations do not go with l1={crf.l1!r}; leave one of them out.")
    task = {TASK: ([str(c) for c in names.classes_], crf.scheme)}
    how: dict[str, Any] = {"l2": penalties.l2, "max_iter": crf.max_iter, "tol": crf.tol}
    return ChainExpectations.of(keeper, task, tokens, weight, **how)


# --- presumed labels ------------------------------------------------------------------------------


def presumed(labels: Labels, label: int, allowed: Allowed) -> Labels:
    """Return ``labels`` with ``label`` at every token of which nothing is known: where learning from partial labels begins.

    Positives-only annotation says of no token that it lies outside. Where labels were kept at random, a model of "marked
    or not" ranks tokens as the true one does (Elkan and Noto, Learning classifiers from only positive and unlabeled data,
    2008); an expectation then moves its level. From weights that know nothing the same search ends in a poor maximum.
    Sequences that would have no labeling left that ``allowed`` (transitions, starts, ends) permits stay as they are.
    """
    if labels.allowed is None:
        return labels
    unknown = labels.allowed.all(axis=1)
    masks = labels.allowed.copy()
    masks[unknown] = np.arange(labels.n_labels) == label
    possible = np.isfinite(_paths(masks, labels, allowed))
    kept = np.repeat(possible, labels.lengths)
    masks[~kept] = labels.allowed[~kept]
    ids = np.where(masks.sum(axis=1) == 1, masks.argmax(axis=1), -1)
    return Labels(ids, labels.lengths, labels.n_labels, None if (ids >= 0).all() else masks)


def _paths(masks: np.ndarray, labels: Labels, allowed: Allowed) -> np.ndarray:
    """Logarithm of the number of labelings of each sequence, (n_sequences,)."""
    unary = _zero_where(masks)
    filled = labels.lengths > 0
    unary[labels.offsets[:-1][filled]] += _zero_where(allowed[1])
    unary[labels.offsets[1:][filled] - 1] += _zero_where(allowed[2])
    return log_partition_batch(unary, _zero_where(allowed[0]), labels.offsets)


def _zero_where(mask: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(mask, bool), 0.0, -np.inf)
