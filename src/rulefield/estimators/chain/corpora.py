"""A chain learned from a corpus on disk, part by part, in threads or on a cluster."""

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from rulefield.data.labels import Labels
from rulefield.encode.corpora.corpus import Corpus
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.chain.learning import (
    Monitor,
    checked_penalties,
    dev_scorer,
    keep_fit,
    maximized,
    structure_of,
    warm_weights,
)
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.sequences import checked_weights
from rulefield.estimators.types import ArrayLike, Client, LabelsLike, SequencesLike
from rulefield.exceptions import InputError, LabelError
from rulefield.learning.chain.parts import CorpusLikelihood, LookTask, look_through, scratch_folder
from rulefield.learning.chain.stochastic import Stream
from rulefield.models.chain import ChainModel
from rulefield.models.chain_parts import model_of_parts
from rulefield.parallel import Executor, executor_of

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF


def fit_corpus(
    crf: "ChainCRF",
    corpus: Corpus,
    y: LabelsLike | None,
    sample_weight: ArrayLike | None,
    X_dev: SequencesLike | None,
    y_dev: LabelsLike | None,
    client: Client | None,
) -> None:
    """Learn the weights of ``crf`` from a corpus on disk."""
    begun, penalties = perf_counter(), checked_penalties(crf)
    _check(crf, y, X_dev)
    names = LabelEncoder().set_classes(corpus.classes)
    weight = checked_weights(sample_weight, len(corpus))
    InputEncoder.check_features(corpus, crf.features)
    with executor_of(crf.n_jobs, client) as executor, scratch_folder(corpus.folder) as scratch:
        model = _model(crf, corpus, executor)
        encoder = InputEncoder.of_corpus(corpus, crf.features) if crf.warm_start or crf.early_stopping else None
        start = warm_weights(crf, model, encoder, names.classes_) if crf.warm_start and encoder else None
        dev = dev_scorer(crf, X_dev, y_dev, encoder, names, model) if encoder else None
        with Monitor(crf, begun, dev) as monitor:
            likelihood = CorpusLikelihood(corpus, model, scratch, executor, l2=penalties.l2, sample_weight=weight)
            done = monitor.result(maximized(crf, likelihood, start, penalties, monitor))
    crf._stream = Stream(len(corpus), float(len(corpus)))
    keep_fit(crf, model, done, penalties, encoder or InputEncoder.of_corpus(corpus, crf.features), names)


def _check(crf: "ChainCRF", y: LabelsLike | None, X_dev: SequencesLike | None) -> None:
    if y is not None:
        raise LabelError("a corpus holds its own labels; call fit(corpus) without y.")
    if "auto" in (crf.l1, crf.l2):
        raise InputError("l1 and l2 'auto' hold sequences in memory out; give numbers for a corpus on disk.")
    for name in ("expectations", "initial_label", "train_with_rules", "transition_features"):
        if getattr(crf, name):
            raise InputError(f"{name} needs the data in memory; leave it out to fit a corpus, or give lists.")
    if crf.early_stopping is not None and X_dev is None:
        raise InputError("early_stopping on a corpus needs held-out data: give X_dev and y_dev.")


def _model(crf: "ChainCRF", corpus: Corpus, executor: Executor) -> ChainModel:
    names = [str(label) for label in corpus.classes]
    tasks = (LookTask(corpus.place, k, crf.scheme) for k in range(len(corpus.parts)))
    parts = ((part, corpus.columns(k)) for k, part in enumerate(executor.stream(look_through, tasks)))
    allowed = allowed_transitions(names, crf.scheme)
    return model_of_parts(parts, corpus.n_features, len(names), allowed=allowed, **structure_of(crf))


def renumbered(labels: Labels, corpus: Corpus, names: LabelEncoder) -> Labels:
    """Return the labels of a part by their numbers in the model."""
    if names.classes_ == corpus.classes:
        return labels
    number = {label: i for i, label in enumerate(names.classes_)}
    missing = [label for label in corpus.classes if label not in number]
    if missing:
        raise LabelError(
            f"the corpus {str(corpus.folder)!r} has the label {missing[0]!r}, which the model does not know; name all "
            "labels in the first call: partial_fit(..., classes=[...])."
        )
    return labels.renumbered(np.array([number[label] for label in corpus.classes]), len(number))
