"""The likelihood of a corpus on disk: parts are packed once, mapped in turn, and evaluated by pure functions.

A task names a file and the weights that its part needs; its answer is a value and a gradient of those weights. Between
processes, weights and gradients go through files of the fit's folder, which all workers see anyway: sent with tasks and
answers they would pass through the scheduler, which cost a fifth of an evaluation.
So a task can be done by any thread or machine that sees the folder, and be done again when its answer was lost.
Answers are added in the order of parts: the result is the same to the last bit wherever the work was done.
"""

import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import numpy as np

from rulefield.data.sequences import Labels
from rulefield.encode.labels import check_possible
from rulefield.encode.schemes import allowed_transitions
from rulefield.exceptions import InputError, LabelError
from rulefield.forms import arrays_of, record_of
from rulefield.interrupts import check
from rulefield.kernels.arrays import add_at
from rulefield.kernels.chain.train import Packed
from rulefield.kernels.quasi_newton import dot
from rulefield.learning.chain.corpus import Corpus, MappedArrays, write_arrays
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.packing import Packing, TransitionFactors, taken
from rulefield.learning.chain.stochastic import StochasticLikelihood, Stream
from rulefield.models.chain import ChainModel
from rulefield.models.chain_transfer import restricted
from rulefield.models.pairs import SeenWeights, seen_weights
from rulefield.outputs import process_runs, whole_file
from rulefield.parallel import Threads, Workers

MODEL = "model"
SCRATCH = ".fit-"


# --- tasks: pure, by name of a file ---------------------------------------------------------------


class LookTask(NamedTuple):
    """Look through part ``k`` of a corpus for the weights that it gives reason for."""

    folder: str
    k: int
    scheme: str | None


class PackTask(NamedTuple):
    """Lay out part ``k`` of a corpus for evaluations, in ``scratch``."""

    folder: str
    scratch: str
    k: int
    weight: np.ndarray | None


class EvaluateTask(NamedTuple):
    """Evaluate part ``k`` at ``theta``: its own weights, or the file of all weights."""

    scratch: str
    k: int
    theta: np.ndarray | str


class WalkTask(NamedTuple):
    """Walk once through part ``k`` from ``theta``, its own weights; ``stream`` says where the walk stands."""

    scratch: str
    k: int
    theta: np.ndarray
    l2: float
    stream: Stream
    seed: tuple[int, ...]


class Walked(NamedTuple):
    """Where a walk through a part ended: its weights, their loss on the way, what is left of all other weights."""

    theta: np.ndarray
    loss: float
    stream: Stream
    shrunk: float


def corpus_at(place: str) -> Corpus:
    """Open a corpus where a task is done."""
    if not Path(place).is_dir():
        raise InputError(
            f"a worker does not see the corpus's folder {place!r}; put it where all workers see it under the same path."
        )
    return Corpus(place)


def look_through(task: LookTask) -> SeenWeights:
    """Return the weights that a part gives reason for; labels that the scheme forbids are refused."""
    corpus = corpus_at(task.folder)
    part = corpus.part(task.k, check=True)
    names = [str(label) for label in corpus.classes]
    try:
        check_possible(part.labels, names, task.scheme, allowed_transitions(names, task.scheme))
    except LabelError as error:
        raise LabelError(f"part {corpus.parts[task.k]['file']}, {error}") from None
    return seen_weights(part.sequences, part.labels, corpus.any_known)


def pack_part(task: PackTask) -> int:
    """Write the packed part; return the number of its sequences that count."""
    part = corpus_at(task.folder).part(task.k)
    whole = model_in(task.scratch)
    model, index = restricted(whole, part.columns.astype(np.int64))
    bounds = np.array([0, len(part.labels)], np.uint64)
    own = ChainLikelihood(model, part.sequences, part.labels, sample_weight=task.weight, bounds=bounds)
    arrays = {f"packed.{name}": np.atleast_1d(array) for name, array in own.packing.packed._asdict().items()}
    arrays |= arrays_of(model, "model.")
    arrays |= {
        "index": index,
        "position": own.packing.position,
        "own_from": own.packing.own_from,
        "offsets": own.offsets,
        "weight": own.weight,
        "partial": own.partial,
        "allowed": own.allowed,
        "ids": part.labels.ids,
        "observed": own._observed,
    }
    kept = {"n_shared": own.packing.n_shared}
    write_arrays(_packed_path(task.scratch, task.k), arrays, kept, lasting=False)
    return int(((part.sequences.lengths > 0) & (own.weight > 0)).sum())


def evaluate_part(task: EvaluateTask) -> tuple[float, np.ndarray | str]:
    """Value and gradient of a part's likelihood, without penalty; the gradient in a file where theta is in one."""
    part = PartLikelihood(task.scratch, task.k)
    if isinstance(task.theta, np.ndarray):
        return part.value_and_gradient(task.theta)
    value, gradient = part.value_and_gradient(taken(_read_vector(task.theta), part.index))
    return value, _write_vector(f"{task.theta}-{task.k:05d}", gradient)


def _write_vector(path: str, vector: np.ndarray) -> str:
    with whole_file(path, lasting=False) as file:
        file.write(vector.data)
    return path


def _read_vector(path: str) -> np.ndarray:
    return np.memmap(path, np.float64, "r")


def walk_part(task: WalkTask) -> Walked:
    """Take one stochastic step for each sequence of a part."""
    likelihood = PartLikelihood(task.scratch, task.k, task.l2)
    seen = task.stream.seen - int(
        ((np.diff(likelihood.offsets.astype(np.int64)) > 0) & (likelihood.weight > 0)).sum()
    )
    before = Stream(seen, task.stream.steps, task.stream.rate)
    walk = StochasticLikelihood(likelihood, seed=task.seed, start=task.theta, stream=before)
    value, theta = walk.epoch(), walk.theta
    return Walked(theta, value - 0.5 * task.l2 * dot(theta, theta), walk.stream, walk.shrunk)


class Lent:
    """Work spaces that parts use one after the other: fresh memory costs a part of many weights a tenth of its evaluation.

    ``spare`` holds those that nobody uses; each begins with a cache line.
    """

    def __init__(self) -> None:
        self.spare: list[np.ndarray] = []

    @contextmanager
    def zeros(self, n: int) -> Iterator[np.ndarray]:
        """Lend an array of n zeros."""
        try:
            space = self.spare.pop()
        except IndexError:
            space = np.zeros(0)
        if len(space) < n:
            room = np.zeros(n + LINE // 8)
            space = room[-room.ctypes.data % LINE // 8 :]
        else:
            space[:n] = 0.0
        try:
            yield space[:n]
        finally:
            self.spare.append(space)


LINE = 64
LENT = Lent()


class PartLikelihood(ChainLikelihood):
    """The likelihood of one packed part, mapped from its file."""

    def __init__(self, scratch: str, k: int, l2: float = 0.0):
        file = MappedArrays(_packed_path(scratch, k))
        self.model = record_of(ChainModel, file, "model.")
        self.l2, self.threads = l2, Threads(1)
        self.offsets, self.weight, self.partial = file["offsets"], file["weight"], file["partial"]
        self.allowed, self._observed = file["allowed"], file["observed"]
        self._given = np.zeros(len(self.weight))
        self._bounds = np.array([0, len(self.weight)], np.uint64)
        arrays = {name: file[f"packed.{name}"] for name in Packed._fields}
        packed = Packed(**arrays)._replace(value_step=np.uint64(arrays["value_step"][0]))  # type: ignore[arg-type]
        self.packing = Packing(packed, file["position"], file.metadata["n_shared"], file["own_from"])
        self.factors = TransitionFactors(self.model)
        self._ids, self.index = file["ids"], file["index"]

    @contextmanager
    def _work_spaces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        size = self.packing.n_work + 1
        with LENT.zeros(size) as work, LENT.zeros(size) as shared:
            yield work, shared

    @cached_property
    def labels(self) -> Labels:  # type: ignore[override]
        """The part's labels."""
        lengths = np.diff(self.offsets.astype(np.int64))
        return Labels(self._ids, lengths, self.model.n_labels, self.allowed if len(self.allowed) else None)


def _packed_path(scratch: str, k: int) -> Path:
    return Path(scratch) / f"packed-{k:05d}.safetensors"


def model_in(scratch: str) -> ChainModel:
    """Return the model of all parts, mapped."""
    return record_of(ChainModel, MappedArrays(Path(scratch) / f"{MODEL}.safetensors"))


# --- the whole ------------------------------------------------------------------------------------


@contextmanager
def scratch_folder(folder: Path) -> Iterator[str]:
    """Make a folder for the packed parts of one fit inside the corpus, and remove it in the end.

    What fits of this machine left behind when they were killed is removed too.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"a fit lays out its data in the corpus's folder, and {str(folder)!r} is not writable.")
    host = "".join(c if c.isalnum() else "_" for c in socket.gethostname())
    for old in folder.glob(f"{SCRATCH}{host}-*"):
        process = old.name.split("-")[2]
        if process.isdigit() and not process_runs(int(process)):
            shutil.rmtree(old, ignore_errors=True)
    made = folder.absolute() / f"{SCRATCH}{host}-{os.getpid()}-{token_hex(4)}"
    made.mkdir()
    try:
        yield str(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


class CorpusLikelihood:
    r"""Negative log-likelihood of a corpus plus (l2 / 2) |theta|^2, as :class:`ChainLikelihood` of data in memory.

    ``scratch`` is a folder for the packed parts (about 270 bytes per token), which every worker must see. In memory
    are theta, its gradient, and the parts in work. A part sends and receives the weights of its own features.
    """

    def __init__(
        self,
        corpus: Corpus,
        model: ChainModel,
        scratch: str,
        executor: Threads | Workers,
        *,
        l2: float = 0.0,
        sample_weight: np.ndarray | None = None,
    ):
        self.corpus, self.model, self.scratch, self.executor, self.l2 = corpus, model, scratch, executor, float(l2)
        self.factors = TransitionFactors(model)
        self._n_told = 0
        write_arrays(Path(scratch) / f"{MODEL}.safetensors", arrays_of(model), {}, lasting=False)
        ends = np.cumsum([0, *(entry["sequences"] for entry in corpus.parts)])
        tasks = (
            PackTask(corpus.place, scratch, k, None if sample_weight is None else sample_weight[a:b])
            for k, (a, b) in enumerate(zip(ends, ends[1:]))
        )
        self.n_members = sum(executor.stream(pack_part, tasks))

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.model.size

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return self.corpus.n_tokens

    labeled = True

    def walk(self, seed: int) -> "CorpusWalk":
        """Return a walk through the parts by stochastic steps."""
        return CorpusWalk(self, seed)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.corpus.parts)

    def index(self, k: int) -> np.ndarray:
        """Where each weight of part ``k`` stands in theta."""
        return MappedArrays(_packed_path(self.scratch, k))["index"]

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient (size,) at ``theta``, which must be finite."""
        value, gradient = 0.5 * self.l2 * dot(theta, theta), self.l2 * theta
        with self._told(theta) as told:
            tasks = (EvaluateTask(self.scratch, k, told or taken(theta, self.index(k))) for k in range(self.n_parts))
            for k, (part_value, answer) in enumerate(self.executor.stream(evaluate_part, tasks)):
                value += part_value
                add_at(gradient, self.index(k), _read_vector(answer) if isinstance(answer, str) else answer)
        LENT.spare.clear()
        return value, gradient

    @contextmanager
    def _told(self, theta: np.ndarray) -> Iterator[str]:
        """Give the file that tells other processes all weights; nothing if none is needed."""
        if not self.executor.apart:
            yield ""
            return
        self._n_told += 1
        path = _write_vector(str(Path(self.scratch) / f"theta-{self._n_told}"), theta)
        try:
            yield path
        finally:
            for file in (Path(path), *Path(self.scratch).glob(f"{Path(path).name}-*")):
                file.unlink(missing_ok=True)

    def value(self, theta: np.ndarray) -> float:
        """Value at ``theta``."""
        return self.value_and_gradient(theta)[0]


class CorpusWalk:
    """Stochastic steps over a corpus: parts in a random order, one after the other, and each in a random order.

    One part at a time, wherever it is: walking through several at once and taking the mean of their weights is much
    worse for the same work, so several workers would not make it faster. Deterministic for a seed.
    ``objective`` is that met in the last whole epoch.
    """

    def __init__(self, likelihood: CorpusLikelihood, seed: int):
        self.likelihood, self.seed = likelihood, seed
        self.theta = likelihood.model.zeros()
        self.stream = Stream(likelihood.n_members)
        self._epochs = 0
        self.objective = np.inf

    def epoch(self) -> float:
        """Visit every sequence once; return the objective as met on the way (each loss before its step)."""
        f = self.likelihood
        order: Sequence[int] = np.random.default_rng((self.seed, self._epochs)).permutation(f.n_parts).tolist()
        loss = 0.0
        for k in order:
            index = f.index(k)
            task = WalkTask(f.scratch, k, self.theta[index], f.l2, self.stream, (self.seed, self._epochs, k))
            walked = next(iter(f.executor.stream(walk_part, [task])))
            self.theta *= walked.shrunk
            self.theta[index] = walked.theta
            self.stream = walked.stream
            loss += walked.loss
            check()
        self._epochs += 1
        self.objective = loss + 0.5 * f.l2 * dot(self.theta, self.theta)
        return self.objective
