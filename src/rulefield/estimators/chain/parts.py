"""Chains that learn from a corpus on disk, part by part, or from data that come in batches."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.encode.corpora.corpus import Corpus, CorpusSlice
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.fitting import ProgressLine
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_and_labels
from rulefield.estimators.sequences import (
    check_scores,
    check_some_tokens,
    checked_weights,
    encode_labels,
    label_names,
    narrowed,
)
from rulefield.estimators.types import ArrayLike, Client, Label, LabelsLike, SequencesLike
from rulefield.exceptions import InputError, LabelError
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.parts import CorpusLikelihood, LookTask, look_through, scratch_folder
from rulefield.learning.chain.penalties import AUTO
from rulefield.learning.chain.stochastic import StochasticLikelihood, Stream
from rulefield.learning.fit_log import counted_from, run_passes
from rulefield.models.chain import ChainModel
from rulefield.models.chain_transfer import grown, restricted
from rulefield.models.pairs import structure_of_parts
from rulefield.parallel import Threads, Workers, executor_of, n_threads

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF


# --- a corpus on disk -----------------------------------------------------------------------------


def fit_corpus(
    crf: "ChainCRF", corpus: Corpus, y: LabelsLike | None, sample_weight: ArrayLike | None, client: Client | None
) -> "ChainCRF":
    """Learn the weights of ``crf`` from a corpus on disk, in threads or on a cluster."""
    begun, penalties = perf_counter(), crf._checked_penalties()
    _check(crf, y)
    names = LabelEncoder().set_classes(corpus.classes)
    weight = checked_weights(sample_weight, len(corpus))
    InputEncoder.check_features(corpus, crf.features)
    with executor_of(crf.n_jobs, client) as executor, scratch_folder(corpus.folder) as scratch:
        model = _model(crf, corpus, executor)
        encoder = InputEncoder.of_corpus(corpus, crf.features) if crf.warm_start else None
        start = crf._warm_weights(model, encoder, names) if encoder else None
        with ProgressLine("fitting", bool(crf.verbose)) as progress:
            likelihood = CorpusLikelihood(corpus, model, scratch, executor, l2=penalties.l2, sample_weight=weight)
            done = counted_from(begun, crf._maximize(likelihood, start, penalties, progress))
    crf._stream = Stream(len(corpus), float(len(corpus)))
    return crf._keep(model, done, penalties, encoder or InputEncoder.of_corpus(corpus, crf.features), names)


def _check(crf: "ChainCRF", y: LabelsLike | None) -> None:
    if y is not None:
        raise LabelError("a corpus holds its own labels; call fit(corpus) without y.")
    if "auto" in (crf.l1, crf.l2):
        raise InputError("l1 and l2 'auto' hold sequences in memory out; give numbers for a corpus on disk.")
    for name in ("expectations", "initial_label", "transition_features"):
        if getattr(crf, name):
            raise InputError(f"{name} needs the data in memory; leave it out to fit a corpus, or give lists.")


def _model(crf: "ChainCRF", corpus: Corpus, executor: Threads | Workers) -> ChainModel:
    names = [str(label) for label in corpus.classes]
    tasks = (LookTask(corpus.place, k, crf.scheme) for k in range(len(corpus.parts)))
    parts = ((part, corpus.columns(k)) for k, part in enumerate(executor.stream(look_through, tasks)))
    allowed = allowed_transitions(names, crf.scheme)
    structure = structure_of_parts(parts, corpus.n_features, len(names), allowed=allowed, **crf._structure())
    return ChainModel.of_structure(structure, len(names), corpus.n_features, crf.start_end)


def _renumbered(labels: Labels, corpus: Corpus, names: LabelEncoder) -> Labels:
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


# --- batches --------------------------------------------------------------------------------------


def continue_with_rows(
    crf: "ChainCRF",
    X: SequencesLike,
    y: LabelsLike | None,
    classes: Sequence[Label] | None,
    sample_weight: ArrayLike | None,
) -> None:
    """Learn from one more batch of sequences."""
    X, y = tokens_and_labels(X, y)
    rows = as_list(X)
    check_some_tokens(rows)
    if crf.__sklearn_is_fitted__():
        _extend(crf, rows, lambda data: encode_labels(crf._labels_encoder, y, data), sample_weight)
        return
    names = _first_names(crf, rows, y, classes)
    encoder = InputEncoder(copy.deepcopy(crf.features), names.classes_)
    data = encoder.fit_transform(rows)
    _learn(crf, encoder, names, data, encode_labels(names, y, data), sample_weight)


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
        part_weight = None if weight is None else weight[first : first + len(part)]
        first += len(part)
        labels = corpus.part(part.k).labels
        if crf.__sklearn_is_fitted__():
            known = _renumbered(labels, corpus, crf._labels_encoder)
            _extend(crf, part, lambda data, known=known: known, part_weight)  # type: ignore[misc]
        else:
            names = _first_names(crf, [], [corpus.classes], classes)
            encoder = InputEncoder.of_corpus(corpus, crf.features)
            encoder.forget_after(0)
            data = encoder.extend(part)
            _learn(crf, encoder, names, data, _renumbered(labels, corpus, names), part_weight)


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
    begun, penalties, first = perf_counter(), crf._checked_penalties(), not crf.__sklearn_is_fitted__()
    if crf.l2 == AUTO and not first:
        penalties = replace(penalties, l2=crf.l2_)
    check_scores(data, labels)
    weight = checked_weights(sample_weight, len(data))
    stream = Stream() if first else crf._stream
    batch, columns = (data, np.arange(data.n_features)) if first else narrowed(data)
    model = crf._build(names.classes_, encoder, None, batch, labels, columns)
    theta = model.zeros()
    if not first:
        model, theta = grown(crf.theta_, crf.model_, model, columns, data.n_features)
    part, index = restricted(model, columns)
    start, seed = None if first else theta[index], crf._seed() + stream.seen
    how = {"sample_weight": weight, "n_jobs": n_threads(crf.n_jobs)}
    likelihood = ChainLikelihood(part, batch, labels, l2=penalties.l2, **how)  # type: ignore[arg-type]
    walk = StochasticLikelihood(likelihood, seed=seed, start=start, stream=stream)
    with ProgressLine("fitting a batch", bool(crf.verbose)) as progress:
        done = counted_from(begun, run_passes(walk, crf.max_iter or 1, -np.inf, progress, fixed=True))
    crf._stream = walk.stream
    theta *= walk.shrunk
    theta[index] = done.theta
    crf._keep(model, replace(done, theta=theta), penalties, encoder, names)
