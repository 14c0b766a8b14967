"""A chain learned from a corpus on disk, and its answers over one: part by part, in threads or on a cluster."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulefield.data.labels import Labels
from rulefield.encode.corpora.corpus import Corpus, CorpusSlice
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.chain.learning import Held, dev_scorer, keep_fit, seed_of, warm_weights
from rulefield.estimators.chain.options import ChainOptions
from rulefield.estimators.chain.training import DEFAULT_ITERATIONS, DEFAULT_TOL, Monitor
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.progress import ProgressLine
from rulefield.estimators.sequences import checked_weights
from rulefield.estimators.types import ArrayLike, Client, LabelsLike
from rulefield.exceptions import InputError, LabelError
from rulefield.learning.chain.fit import fit_likelihood
from rulefield.learning.chain.parts import CorpusLikelihood, LookTask, corpus_at, look_through, scratch_folder
from rulefield.learning.chain.stochastic import Stream
from rulefield.learning.fit_log import FitResult, run_passes
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
    held_out: Held,
    client: Client | None,
    options: ChainOptions,
    begun: float,
) -> None:
    """Learn the weights of ``crf`` from a corpus on disk."""
    _check(crf, y, held_out, options)
    names = LabelEncoder().set_classes(corpus.classes)
    weight = checked_weights(sample_weight, len(corpus))
    InputEncoder.check_features(corpus, crf.features)
    with executor_of(options.n_jobs, client) as executor, scratch_folder(corpus.folder) as scratch:
        model = _model(crf, corpus, executor)
        encoder = InputEncoder.of_corpus(corpus, crf.features) if crf.warm_start or options.patience else None
        start = warm_weights(crf, model, encoder, names.classes_) if crf.warm_start and encoder else None
        dev = dev_scorer(crf, *held_out, encoder, names, model, options) if encoder else None
        with ProgressLine(f"fitting ({options.solver})", bool(crf.verbose)) as progress:
            monitor = Monitor(begun, dev, options.patience, progress)
            place = Place(corpus, model, scratch, executor)
            done = monitor.result(_learned(place, weight, start, options, monitor, seed_of(crf)))
    crf._stream = Stream(len(corpus), float(len(corpus)))
    keep_fit(crf, model, done, options, encoder or InputEncoder.of_corpus(corpus, crf.features), names)


def refuse_client(client: Client | None) -> None:
    """Refuse a client where there is no corpus."""
    if client is not None:
        raise InputError("client= works on a corpus, whose parts workers can read; write one with rf.write_corpus.")


def _check(crf: "ChainCRF", y: LabelsLike | None, held_out: Held, options: ChainOptions) -> None:
    if y is not None:
        raise LabelError("a corpus holds its own labels; call fit(corpus) without y.")
    if "auto" in (crf.l1, crf.l2):
        raise InputError("l1 and l2 'auto' hold sequences in memory out; give numbers for a corpus on disk.")
    for name in ("expectations", "initial_label", "train_with_rules", "transition_features"):
        if getattr(crf, name):
            raise InputError(f"{name} needs the data in memory; leave it out to fit a corpus, or give lists.")
    if options.patience is not None and held_out[0] is None:
        raise InputError("early_stopping on a corpus needs held-out data: give X_dev and y_dev.")


def _model(crf: "ChainCRF", corpus: Corpus, executor: Executor) -> ChainModel:
    names = [str(label) for label in corpus.classes]
    tasks = (LookTask(corpus.place, k, crf.scheme) for k in range(len(corpus.parts)))
    seen = executor.stream(look_through, tasks)
    return model_of_parts(
        ((part, corpus.columns(k)) for k, part in enumerate(seen)),
        corpus.n_features,
        len(names),
        allowed=allowed_transitions(names, crf.scheme),
        all_states=crf.all_states,
        all_transitions=crf.all_transitions,
        start_end=crf.start_end,
        min_count=max(1, crf.min_count),
    )


class Place(NamedTuple):
    """What is learned from, and where: a corpus, the weights it gives reason for, a folder that all workers see, they."""

    corpus: Corpus
    model: ChainModel
    scratch: str
    executor: Executor


def _learned(
    place: Place,
    weight: np.ndarray | None,
    start: np.ndarray | None,
    options: ChainOptions,
    monitor: Monitor,
    seed: int,
) -> FitResult:
    limit = options.max_iter or DEFAULT_ITERATIONS[options.solver]
    tol = DEFAULT_TOL[options.solver] if options.tol is None else options.tol
    likelihood = CorpusLikelihood(*place, l2=options.l2, sample_weight=weight)
    if options.solver == "sgd":
        return run_passes(likelihood.walk(seed, start, average=True), limit, tol, monitor)
    how: dict[str, Any] = {"max_iter": limit, "tol": tol, "callback": monitor, "n_jobs": options.n_jobs}
    return fit_likelihood(likelihood, start, l1=options.l1, seed=seed, **how)


def _renumbered(labels: Labels, corpus: Corpus, names: LabelEncoder) -> Labels:
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


# --- answers over a corpus ------------------------------------------------------------------------


class AnswerTask(NamedTuple):
    """Have a saved model answer for part ``k`` of a corpus."""

    model: str
    folder: str
    k: int
    method: str
    options: dict[str, Any]


def answer_part(task: AnswerTask) -> list[Any]:
    """Return what a method of a saved model answers for a part."""
    return list(
        getattr(_opened(task.model), task.method)(CorpusSlice(corpus_at(task.folder), task.k), **task.options)
    )


@lru_cache(maxsize=1)
def _opened(path: str) -> Any:
    from rulefield.estimators.files import load

    return load(path)


def answers_of_parts(
    crf: "ChainCRF", corpus: Corpus, method: str, options: dict[str, Any], client: Client | None
) -> list[Any]:
    """Return what ``method`` answers for every sequence of a corpus, part by part; with a client, on its workers."""
    if options.get("known") is not None:
        raise InputError("known labels go with lists of sequences; a corpus takes none.")
    if client is None:
        return [answer for part in corpus.slices for answer in getattr(crf, method)(part, **options)]
    with executor_of(1, client) as workers, scratch_folder(corpus.folder) as scratch:
        path = str(Path(scratch) / "model.rf")
        crf.save(path)
        tasks = (AnswerTask(path, corpus.place, k, method, options) for k in range(len(corpus.parts)))
        return [answer for part in workers.stream(answer_part, tasks) for answer in part]
