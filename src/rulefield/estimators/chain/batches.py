"""How a chain goes on learning batch by batch: weights of new features are added, the rate of steps goes on."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.corpora.corpus import Corpus, CorpusSlice
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.chain.corpora import _renumbered
from rulefield.estimators.chain.learning import build_model, encode_labels, keep_fit, seed_of
from rulefield.estimators.chain.options import ChainOptions, chain_options
from rulefield.estimators.chain.training import ChainTraining, check_scores, continue_chain
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_and_labels
from rulefield.estimators.sequences import check_some_tokens, checked_weights, label_names, narrowed
from rulefield.estimators.types import ArrayLike, Label, LabelsLike, SequencesLike
from rulefield.exceptions import InputError, LabelError
from rulefield.learning.chain.penalties import AUTO
from rulefield.learning.chain.stochastic import Stream
from rulefield.models.chain_transfer import grown, restricted

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF


def continue_rows(
    crf: "ChainCRF",
    X: SequencesLike | Corpus,
    y: LabelsLike | None,
    classes: Sequence[Label] | None,
    sample_weight: ArrayLike | None,
) -> None:
    """Learn from one more batch of sequences, or from the parts of a corpus as batches."""
    if crf.expectations:
        raise InputError("partial_fit takes no expectations: they refer to a whole corpus; call fit.")
    begun = perf_counter()
    options = chain_options(crf)
    if isinstance(X, Corpus):
        continue_with_corpus(crf, X, y, classes, sample_weight, options, begun)
        return
    rows, given = tokens_and_labels(X, y)
    rows, known = as_list(rows), as_list(given)
    check_some_tokens(rows)
    if not crf.__sklearn_is_fitted__():
        names = batch_names(crf, rows, known, classes)
        encoder = InputEncoder(copy.deepcopy(crf.features), names.classes_)
        data = encoder.fit_transform(rows)
        learn_batch(crf, data, encode_labels(crf, names, known, data), sample_weight, options, encoder, names, begun)
        return
    if crf.l2 == AUTO:
        options = replace(options, l2=crf.l2_)
    extend_fit(
        crf, rows, lambda data: encode_labels(crf, crf._labels_encoder, known, data), sample_weight, options, begun
    )


def continue_with_corpus(
    crf: "ChainCRF",
    corpus: Corpus,
    y: LabelsLike | None,
    classes: Sequence[Label] | None,
    sample_weight: ArrayLike | None,
    options: ChainOptions,
    begun: float,
) -> None:
    """Go through a corpus once, part by part, with stochastic steps."""
    if y is not None:
        raise LabelError("a corpus holds its own labels; call partial_fit(corpus) without y.")
    weight, first = checked_weights(sample_weight, len(corpus)), 0
    for part in corpus.slices:
        own = None if weight is None else weight[first : first + len(part)]
        first += len(part)
        labels = corpus.part(part.k).labels
        if not crf.__sklearn_is_fitted__():
            names = batch_names(crf, [], [corpus.classes], classes)
            encoder = InputEncoder.of_corpus(corpus, crf.features)
            encoder.forget_after(0)
            data = encoder.extend(part)
            learn_batch(crf, data, _renumbered(labels, corpus, names), own, options, encoder, names, begun)
        else:
            known = _renumbered(labels, corpus, crf._labels_encoder)
            extend_fit(crf, part, lambda data, known=known: known, own, options, begun)  # type: ignore[misc]


def extend_fit(
    crf: "ChainCRF",
    X: SequencesLike | CorpusSlice,
    labels_of: Callable[[Sequences], Labels],
    sample_weight: ArrayLike | None,
    options: ChainOptions,
    begun: float,
) -> None:
    """Learn from one batch more; where that fails, features that came with it are forgotten."""
    encoder, known = crf._encoder, crf._encoder.n_features
    try:
        data = encoder.extend(X)
        learn_batch(crf, data, labels_of(data), sample_weight, options, encoder, crf._labels_encoder, begun)
    except BaseException:
        encoder.forget_after(known)
        raise


def batch_names(crf: "ChainCRF", X: Any, y: LabelsLike, classes: Sequence[Label] | None) -> LabelEncoder:
    """Return the labels of the first batch, or all that will ever occur."""
    if classes is None:
        return label_names(y, crf.initial_label, X)
    return LabelEncoder().set_classes(sorted(classes, key=_by_kind))


def learn_batch(
    crf: "ChainCRF",
    data: Sequences,
    labels: Labels,
    sample_weight: ArrayLike | None,
    options: ChainOptions,
    encoder: InputEncoder,
    names: LabelEncoder,
    begun: float,
) -> None:
    """Take steps on the weights of the batch's features; the others are copied and shrink by the penalty."""
    check_scores(data, labels)
    weight = checked_weights(sample_weight, len(data))
    first = not crf.__sklearn_is_fitted__()
    stream = Stream() if first else crf._stream
    own, columns = (data, np.arange(data.n_features)) if first else narrowed(data)
    model = build_model(crf, own, labels, names.classes_, encoder, options, columns=columns)
    theta = model.zeros()
    if not first:
        model, theta = grown(crf.theta_, crf.model_, model, columns, data.n_features)
    part, index = restricted(model, columns)
    start = None if first else theta[index]
    training = ChainTraining(part, own, labels, weight, start, seed_of(crf) + stream.seen, begun)
    done, crf._stream, shrunk = continue_chain(training, options, stream, crf.verbose)
    theta *= shrunk
    theta[index] = done.theta
    keep_fit(crf, model, replace(done, theta=theta), options, encoder, names)


def _by_kind(label: Label) -> tuple[str, Any]:
    """Sort labels of one type among themselves, as :class:`LabelEncoder` does."""
    return type(label).__name__, label
