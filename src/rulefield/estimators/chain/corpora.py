"""Corpora on disk: encoded once into parts that the data cut; a chain learns from them part by part."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.sequences import is_ones
from rulefield.encode.features import FeatureEncoder
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.tokens import TokenFeatures
from rulefield.encode.vocabulary import Vocabulary
from rulefield.estimators.fitting import ProgressLine
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.saving import GIVEN, TAG, Packer, given_or, pack_or_name
from rulefield.estimators.sequences import checked_weights
from rulefield.estimators.types import ArrayLike, Client, LabelsLike, Transformer
from rulefield.exceptions import InputError, LabelError
from rulefield.forms import Label, conforms
from rulefield.interrupts import check, deferred, interruptible
from rulefield.learning.chain.corpus import (
    DESCRIPTION,
    FORMAT,
    NAMES,
    Corpus,
    MappedArrays,
    PartEntry,
    digest_of,
    write_arrays,
)
from rulefield.learning.chain.parts import CorpusLikelihood, LookTask, look_through, scratch_folder
from rulefield.learning.chain.penalties import AUTO
from rulefield.learning.fit_log import counted_from
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import structure_of_parts
from rulefield.outputs import write_whole
from rulefield.parallel import Threads, Workers, executor_of

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF

PART_TOKENS = 150_000


# --- writing --------------------------------------------------------------------------------------


@interruptible
def write_corpus(
    source: Iterable[tuple[Any, Any]],
    folder: str | Path,
    *,
    features: Transformer | None = None,
    part_tokens: int = PART_TOKENS,
) -> Corpus:
    """Encode labeled sequences into a folder that :class:`ChainCRF` learns from, part by part.

    Parameters
    ----------
    source : iterable of (tokens, labels)
        Tokens are what ``ChainCRF.fit`` takes; one part of them is in memory at a time.
    folder : path
        Empty, or made if it does not exist.
    features : transformer, optional
        As in :class:`ChainCRF`: it must look at each sequence by itself. It stays with the corpus.
    part_tokens : int, default 150,000
        A part ends with the sequence that reaches so many tokens; it does not depend on the number of workers.
    """
    if not isinstance(part_tokens, int) or isinstance(part_tokens, bool) or part_tokens < 1:
        raise InputError(f"part_tokens must be a whole number >= 1; got {part_tokens!r}.")
    writer, items = _CorpusWriter(Path(folder), features), iter(source)
    with deferred():
        try:
            while (first := next(items, None)) is not None:
                writer.write(_PartReader(chain([first], items), part_tokens, writer.n_sequences))
                check()
            return writer.finish()
        except BaseException:
            writer.remove()
            raise


class _CorpusWriter:
    """Writes parts one after the other, then the names and classes of all."""

    def __init__(self, folder: Path, features: Transformer | None):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"the folder {str(folder)!r} is not empty; give another one, or remove it.")
        self.folder, self.features = folder, features
        self.parts: list[PartEntry] = []

    @property
    def n_sequences(self) -> int:
        return sum(entry["sequences"] for entry in self.parts)

    def write(self, reader: "_PartReader") -> None:
        encoder = InputEncoder(_row_by_row(self.features))
        data = encoder.fit_transform(reader.tokens())
        if encoder.encoder is None:
            raise InputError("a corpus holds tokens or named features; give matrices to ChainCRF.fit.")
        if self.features is None and encoder.features is not None:  # plain tokens: the default
            if self.parts:
                raise InputError("all tokens of a corpus must have one form; this source mixes tokens and features.")
            self.features = encoder.features
        arrays, classes = _label_arrays(reader.labels, data.lengths)
        arrays |= {"lengths": data.lengths, "indptr": data.entries.indptr, "indices": data.entries.indices}
        arrays["names"] = encoder.encoder.vocabulary_.joined()
        if not is_ones(data.entries.data) and not (data.entries.data == 1.0).all():
            arrays["values"] = data.entries.data
        name = f"part-{len(self.parts):05d}.safetensors"
        write_arrays(self.folder / name, arrays, {"classes": classes})
        self.parts.append(
            {
                "file": name,
                "sequences": len(data),
                "tokens": data.n_tokens,
                "features": encoder.n_features,
                "known": int((~arrays["free"]).sum()) if "free" in arrays else data.n_tokens,
                "digest": digest_of(self.folder / name),
            }
        )

    def finish(self) -> Corpus:
        """Merge the names and classes of all parts."""
        if not self.parts:
            raise InputError("the source gives no sequence; nothing was written.")
        vocabulary, arrays, classes = Vocabulary(), {}, set()
        for k, entry in enumerate(self.parts):
            file = MappedArrays(self.folder / entry["file"])
            classes.update(file.metadata["classes"])
            arrays[f"columns_{k:05d}"] = vocabulary.number_joined(file["names"], entry["features"], grow=True)
            check()
        if not classes:
            raise LabelError("the source holds no known label at all; at least one token must be labeled.")
        write_arrays(self.folder / NAMES, arrays | vocabulary.__getstate__(), {})
        described = {
            "format": FORMAT,
            "features": pack_or_name(Packer("corpus"), "features", self.features),
            "classes": sorted(classes, key=lambda label: (type(label).__name__, label)),
            "parts": self.parts,
        }
        write_whole(self.folder / DESCRIPTION, json.dumps(described, indent=1))
        return Corpus(self.folder)

    def remove(self) -> None:
        """Remove what was written."""
        for name in [*(entry["file"] for entry in self.parts), NAMES]:
            (self.folder / name).unlink(missing_ok=True)


class _PartReader:
    """Gives the tokens of one part, and gathers their labels."""

    def __init__(self, items: Iterator[tuple[Any, Any]], part_tokens: int, first: int):
        self.items, self.part_tokens, self.first = items, part_tokens, first
        self.labels: list[Any] = []

    def tokens(self) -> Iterator[Any]:
        n_tokens = 0
        for item in self.items:
            n = self.first + len(self.labels)
            if not isinstance(item, tuple) or len(item) != 2:
                raise InputError(f"item {n} of the source is no pair (tokens, labels); got a {type(item).__name__}.")
            tokens, labels = item
            if len(tokens) == 0 or len(tokens) != len(labels):
                raise LabelError(
                    f"sequence {n} of the source has {len(tokens)} tokens and {len(labels)} labels; give one label for "
                    "each token, and leave empty sequences out."
                )
            self.labels.append(labels)
            n_tokens += len(tokens)
            yield tokens
            if n_tokens >= self.part_tokens:
                return


def _row_by_row(features: Transformer | None) -> Transformer | None:
    """Return what makes features of one part, without learning from it."""
    return features if features is None or isinstance(features, TokenFeatures) else _RowTransformer(features)


class _RowTransformer:
    """A transformer of which only ``transform`` is used, sequence by sequence: parts must not teach it."""

    def __init__(self, features: Transformer):
        self.transform = features.transform


def _label_arrays(y: list[Any], lengths: np.ndarray) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Return label numbers among the part's own classes, and what partial labels allow."""
    names = LabelEncoder()
    known = any(label is not None for labels in y for label in labels)
    if not known:
        n = int(lengths.sum())
        return {"labels": np.full(n, -1, np.int32), "allowed": np.zeros((n, 0), bool), "free": np.ones(n, bool)}, []
    encoded = names.fit_encode(y, lengths)
    for label in names.classes_:
        if not conforms(label, Label):
            raise LabelError(f"labels of a corpus are strings or numbers; got {label!r} ({type(label).__name__}).")
    arrays = {"labels": encoded.ids}
    if encoded.allowed is not None:
        arrays["allowed"] = encoded.allowed.astype(bool)
        arrays["free"] = np.array([label is None for labels in y for label in labels], dtype=bool)
    return arrays, names.classes_


# --- learning -------------------------------------------------------------------------------------


def fit_corpus(
    crf: "ChainCRF",
    begun: float,
    corpus: Corpus,
    y: LabelsLike | None,
    sample_weight: ArrayLike | None,
    client: Client | None,
) -> "ChainCRF":
    """Learn the weights of ``crf`` from a corpus on disk, in threads or on a cluster."""
    penalties = crf._checked_penalties()
    if y is not None:
        raise LabelError("a corpus holds its own labels; call fit(corpus) without y.")
    if AUTO in (crf.l1, crf.l2):
        raise InputError("l1 and l2 'auto' hold sequences in memory out; give numbers for a corpus on disk.")
    for name in ("expectations", "initial_label", "warm_start"):
        if getattr(crf, name):
            raise InputError(f"{name} needs the data in memory; leave it out to fit a corpus, or give lists.")
    weight = checked_weights(sample_weight, len(corpus))
    features = _features_of(corpus, crf.features)
    with executor_of(crf.n_jobs, client) as executor, scratch_folder(corpus.folder) as scratch:
        model = _model(crf, corpus, executor)
        with ProgressLine("fitting", bool(crf.verbose)) as progress:
            likelihood = CorpusLikelihood(corpus, model, scratch, executor, l2=penalties.l2, sample_weight=weight)
            done = counted_from(begun, crf._maximize(likelihood, None, penalties, progress))
    encoder = InputEncoder(features)
    encoder.encoder = FeatureEncoder()
    encoder.encoder.vocabulary_ = corpus.vocabulary()
    return crf._keep(model, done, penalties, encoder, LabelEncoder().set_classes(corpus.classes))


def _features_of(corpus: Corpus, features: Transformer | None) -> Transformer | None:
    """Return the features that a corpus was written with; refuse others."""
    stored = corpus.features
    if features is None and isinstance(stored, dict) and stored.get(TAG) == GIVEN:
        raise InputError(
            f"the corpus {str(corpus.folder)!r} was written with your own features ({stored['type']}); give them again: "
            "ChainCRF(features=...)."
        )
    if features is not None and pack_or_name(Packer("corpus"), "features", features) != stored:
        raise InputError(
            f"the corpus {str(corpus.folder)!r} was written with other features; leave features= out, or write it again."
        )
    return given_or(stored, {}, "features", {"features": features})


def _model(crf: "ChainCRF", corpus: Corpus, executor: Threads | Workers) -> ChainModel:
    names = [str(label) for label in corpus.classes]
    tasks = (LookTask(corpus.place, k, crf.scheme) for k in range(len(corpus.parts)))
    parts = ((part, corpus.columns(k)) for k, part in enumerate(executor.stream(look_through, tasks)))
    allowed = allowed_transitions(names, crf.scheme)
    structure = structure_of_parts(parts, corpus.n_features, len(names), allowed=allowed, **crf._structure())
    return ChainModel.of_structure(structure, len(names), corpus.n_features, crf.start_end)
