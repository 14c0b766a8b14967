"""How a chain goes on learning batch by batch: weights of new features are added, the rate of steps goes on."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.corpora.corpus import Corpus, CorpusSlice
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.chain.corpora import renumbered
from rulefield.estimators.chain.learning import (
    Monitor,
    Training,
    build_model,
    check_scores,
    checked_penalties,
    encode_labels,
    keep_fit,
    seed_of,
)
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_and_labels
from rulefield.estimators.sequences import check_some_tokens, checked_weights, label_names, narrowed
from rulefield.estimators.types import ArrayLike, Label, LabelsLike, SequencesLike
from rulefield.exceptions import LabelError
from rulefield.learning.chain.penalties import AUTO
from rulefield.learning.chain.stochastic import StochasticLikelihood, Stream
from rulefield.learning.fit_log import run_passes
from rulefield.models.chain_transfer import grown, restricted
from rulefield.parallel import n_threads

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF


def continue_with_rows(
    crf: "ChainCRF",
    X: SequencesLike,
    y: LabelsLike | None,
    classes: Sequence[Label] | None,
    sample_weight: ArrayLike | None,
) -> None:
    """Learn from one more batch of sequences."""
    X, y = tokens_and_labels(X, y)
    rows, known = as_list(X), as_list(y)
    check_some_tokens(rows)
    if crf.__sklearn_is_fitted__():
        _extend(crf, rows, lambda data: encode_labels(crf._labels_encoder, known, data), sample_weight)
        return
    names = _first_names(crf, rows, known, classes)
    encoder = InputEncoder(copy.deepcopy(crf.features), names.classes_)
    data = encoder.fit_transform(rows)
    _learn(crf, encoder, names, data, encode_labels(names, known, data), sample_weight)


def continue_with_corpus(
    crf: "ChainCRF",
    corpus: Corpus,
    y: LabelsLike | None,
    classes: Sequence[Label] | None,
    sample_weight: ArrayLike | None,
) -> None:
    """Go through a corpus once, whose parts are batches."""
    if y is not None:
        raise LabelError("a corpus holds its own labels; call partial_fit(corpus) without y.")
    weight, first = checked_weights(sample_weight, len(corpus)), 0
    for part in corpus.slices:
        own = None if weight is None else weight[first : first + len(part)]
        first += len(part)
        labels = corpus.part(part.k).labels
        if crf.__sklearn_is_fitted__():
            known = renumbered(labels, corpus, crf._labels_encoder)
            _extend(crf, part, lambda data, known=known: known, own)  # type: ignore[misc]
        else:
            names = _first_names(crf, [], [corpus.classes], classes)
            encoder = InputEncoder.of_corpus(corpus, crf.features)
            encoder.forget_after(0)
            _learn(crf, encoder, names, encoder.extend(part), renumbered(labels, corpus, names), own)


def _first_names(crf: "ChainCRF", X: SequencesLike, y: LabelsLike, classes: Sequence[Label] | None) -> LabelEncoder:
    """Return the labels of the first batch, or all that will ever occur."""
    if classes is None:
        return label_names(y, crf.initial_label, X)
    return LabelEncoder().set_classes(sorted(classes, key=lambda label: (type(label).__name__, label)))


def _extend(
    crf: "ChainCRF",
    X: SequencesLike | CorpusSlice,
    labels_of: Callable[[Sequences], Labels],
    sample_weight: ArrayLike | None,
) -> None:
    """Learn from one batch more; if that fails, features that came with it are forgotten."""
    encoder, known = crf._encoder, crf._encoder.n_features
    try:
        data = encoder.extend(X)
        _learn(crf, encoder, crf._labels_encoder, data, labels_of(data), sample_weight)
    except BaseException:
        encoder.forget_after(known)
        raise


def _learn(
    crf: "ChainCRF",
    encoder: InputEncoder,
    names: LabelEncoder,
    data: Sequences,
    labels: Labels,
    sample_weight: ArrayLike | None,
) -> None:
    """Take steps on the weights of the batch's features; the others are copied and shrink by the penalty."""
    begun, penalties, first = perf_counter(), checked_penalties(crf), not crf.__sklearn_is_fitted__()
    if crf.l2 == AUTO and not first:
        penalties = replace(penalties, l2=crf.l2_)
    check_scores(data, labels)
    weight = checked_weights(sample_weight, len(data))
    stream = Stream() if first else crf._stream
    own, columns = (data, np.arange(data.n_features)) if first else narrowed(data)
    model = build_model(crf, names.classes_, encoder, None, own, labels, columns)
    theta = model.zeros()
    if not first:
        model, theta = grown(crf.theta_, crf.model_, model, columns, data.n_features)
    part, index = restricted(model, columns)
    start, seed = None if first else theta[index], seed_of(crf) + stream.seen
    training = Training(part, own, labels, weight, start, penalties, seed, n_threads(crf.n_jobs))
    with Monitor(crf, begun) as monitor:
        monitor.title = "fitting a batch"
        likelihood = training.likelihood()
        walk = StochasticLikelihood(likelihood, seed=seed, start=start, average=False, stream=stream)
        done = monitor.result(run_passes(walk, crf.max_iter or 1, -np.inf, monitor, fixed=True))
    crf._stream = walk.stream
    theta *= walk.shrunk
    theta[index] = done.theta
    keep_fit(crf, model, replace(done, theta=theta), penalties, encoder, names)
