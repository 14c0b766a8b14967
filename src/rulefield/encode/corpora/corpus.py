"""A corpus on disk: what it holds, and its parts as sequences and labels."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from rulefield.data.plain_json import read_json
from rulefield.data.sequences import Labels, Sequences, SparseRows, is_ones, ones
from rulefield.encode.corpora.mapped import MappedArrays
from rulefield.encode.vocabulary import Buckets, Vocabulary
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import Form, Label, check_arrays, check_typed, flags, index

FORMAT = 1
DESCRIPTION = "corpus.json"
NAMES = "names.safetensors"

PART_FORMS = {
    "lengths": Form(("int64",), ("sequences",), least=0),
    "indptr": Form(("int32",), ("tokens+1",), into="entries"),
    "indices": index("entries", below="features", dtype="int32"),
    "labels": Form(("int32",), ("tokens",), least=-1),
}


class PartEntry(TypedDict):
    """What ``corpus.json`` says of a part."""

    file: str
    sequences: int
    tokens: int
    features: int
    known: int
    digest: str
    source: str


class Description(TypedDict):
    """What stands in ``corpus.json``."""

    format: int
    features: Any
    part_tokens: int
    complete: bool
    classes: list[Label]
    parts: list[PartEntry]


@dataclass(frozen=True)
class EncodedPart:
    """A part of a corpus in memory.

    Parameters
    ----------
    sequences : Sequences
        Over the features that occur in the part, numbered by themselves.
    labels : Labels
        By the corpus's classes.
    columns : ndarray of int32, shape (n_features of the part,)
        Number of each of the part's features in the corpus.
    """

    sequences: Sequences
    labels: Labels
    columns: np.ndarray


@dataclass(frozen=True)
class CorpusSlice:
    """Part ``k`` of a corpus, to be read when it is needed: what a fitted estimator predicts at a time."""

    corpus: "Corpus"
    k: int

    def __len__(self) -> int:
        return self.corpus.parts[self.k]["sequences"]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each sequence."""
        return MappedArrays(self.corpus._path(self.k))["lengths"]

    def encoded(self, vocabulary: Vocabulary, grow: bool) -> Sequences:
        """Return the part over the features of ``vocabulary``; unknown ones are added with ``grow``, or left out."""
        columns = self.corpus.numbered(self.k, vocabulary, grow)
        own = self.corpus.part(self.k).sequences
        ids, values, indptr = columns[own.entries.indices], own.entries.data, own.entries.indptr
        if len(columns) and columns.min() < 0:
            known = ids >= 0
            kept = np.concatenate([np.zeros(1, np.int32), np.cumsum(known, dtype=np.int32)])
            ids, indptr = ids[known], kept[indptr]
            values = ones(len(ids)) if is_ones(values) else values[known]
        return Sequences(SparseRows(values, ids, indptr, (own.n_tokens, len(vocabulary))), own.lengths)


class Corpus:
    """Encoded sequences and labels in a folder; :func:`rulefield.write_corpus` makes it.

    Parameters
    ----------
    folder : path

    Attributes
    ----------
    classes : list
        Labels, sorted.
    n_sequences, n_tokens, n_features : int
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._description = read_description(self.folder)
        if not self._description["complete"]:
            raise InputError(
                f"the corpus {str(folder)!r} is not complete: its writing was interrupted; call write_corpus with the "
                "same source again, and it goes on."
            )
        for entry in self.parts:
            if not (self.folder / entry["file"]).is_file():
                raise InputError(f"the corpus {str(folder)!r} lacks its part {entry['file']!r}; write it again.")

    @property
    def classes(self) -> list[Any]:
        """Labels, sorted."""
        return self._description["classes"]

    @property
    def features(self) -> Any:
        """What made features of tokens, as a file holds it."""
        return self._description["features"]

    @property
    def parts(self) -> list[PartEntry]:
        """Description of each part."""
        return self._description["parts"]

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return sum(entry["sequences"] for entry in self.parts)

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return sum(entry["tokens"] for entry in self.parts)

    @cached_property
    def n_features(self) -> int:
        """Number of distinct features, or of buckets that they are hashed to."""
        return 1 << self.hash_bits if self.hash_bits else len(MappedArrays(self.folder / NAMES)["stop"]) - 1

    @cached_property
    def hash_bits(self) -> int:
        """How many bits of a feature's hash are its number; 0 where features have names."""
        file = MappedArrays(self.folder / NAMES)
        return int(file["hash_bits"][0]) if "hash_bits" in file else 0

    @property
    def any_known(self) -> bool:
        """Whether something is known of some token's label."""
        return any(entry["known"] for entry in self.parts)

    def __len__(self) -> int:
        return self.n_sequences

    def __repr__(self) -> str:
        return (
            f"Corpus({str(self.folder)!r}: {self.n_sequences} sequences, {self.n_tokens} tokens, {self.n_features} "
            f"features, {len(self.parts)} parts)"
        )

    def vocabulary(self) -> Vocabulary:
        """Return the names of all features, or the buckets that they are hashed to."""
        if self.hash_bits:
            return Buckets(self.hash_bits)
        file = MappedArrays(self.folder / NAMES)
        vocabulary = Vocabulary()
        vocabulary.__setstate__({"blob": np.array(file["blob"]), "stop": np.array(file["stop"])})
        return vocabulary

    @property
    def slices(self) -> list[CorpusSlice]:
        """All parts, none of them read yet."""
        return [CorpusSlice(self, k) for k in range(len(self.parts))]

    def columns(self, k: int) -> np.ndarray:
        """Numbers in the corpus of the features of part ``k``."""
        return MappedArrays(self.folder / NAMES)[f"columns_{k:05d}"]

    def numbered(self, k: int, vocabulary: Vocabulary, grow: bool) -> np.ndarray:
        """Numbers in a vocabulary of the features of part ``k``; -1 for unknown ones, or they are added with ``grow``.

        Hashed features have the numbers of their buckets, whatever the vocabulary.
        """
        if self.hash_bits:
            return self.columns(k)
        return vocabulary.number_joined(MappedArrays(self._path(k))["names"], self.parts[k]["features"], grow)

    @property
    def place(self) -> str:
        """The folder as other processes find it, wherever they were started."""
        return str(self.folder.absolute())

    def part(self, k: int, *, check: bool = False) -> EncodedPart:
        """Return part ``k``; ``check`` compares its digest first."""
        if check:
            check_digest(self._path(k), self.parts[k]["digest"])
        file = MappedArrays(self._path(k))
        n_features = self.parts[k]["features"]
        try:
            check_arrays(file, PART_FORMS, {"features": n_features, "tokens": self.parts[k]["tokens"]})
            return EncodedPart(_sequences(file, n_features), self._labels(file), self.columns(k))
        except (ModelFileError, KeyError, IndexError) as error:
            reason = str(error).split(";")[0].replace(" of the model file", "")
            raise InputError(
                f"the part {str(self._path(k))!r} is damaged ({reason}); remove it and call write_corpus again."
            ) from None

    def labels(self) -> Iterator[list[Any]]:
        """Labels of each sequence, part by part; None if a label is not known."""
        names = np.array([*self.classes, None], object)
        for part in self:
            rows = np.split(names[part.labels.ids], part.sequences.offsets[1:-1])
            yield from (row.tolist() for row in rows)

    def __iter__(self) -> Iterator[EncodedPart]:
        return (self.part(k) for k in range(len(self.parts)))

    def _path(self, k: int) -> Path:
        return self.folder / self.parts[k]["file"]

    def _labels(self, file: MappedArrays) -> Labels:
        """Labels of a part, which numbers its own classes, by the corpus's classes."""
        index = {label: i for i, label in enumerate(self.classes)}
        number = np.array([index[label] for label in file.metadata["classes"]] + [-1], dtype=np.int32)
        ids, lengths, m = number[file["labels"]], np.array(file["lengths"]), len(self.classes)
        if "allowed" not in file:
            return Labels(ids, lengths, m)
        own = len(number) - 1
        check_arrays(
            file, {"allowed": flags("tokens", "own"), "free": flags("tokens")}, {"own": own, "tokens": len(ids)}
        )
        allowed = np.zeros((len(ids), m), np.uint8)
        allowed[:, number[:-1]] = file["allowed"]
        allowed[file["free"]] = 1
        return Labels(ids, lengths, m, allowed)


def open_corpus(folder: str | Path) -> Corpus:
    """Open a corpus that :func:`rulefield.write_corpus` has written.

    Examples
    --------
    ``ChainCRF().fit(rf.open_corpus("train-parts"))`` holds one part of it in memory at a time.
    """
    return Corpus(folder)


def read_description(folder: Path) -> Description:
    """Return what ``corpus.json`` of a folder says."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise InputError(f"there is no corpus in {str(folder)!r} (no {DESCRIPTION}); write one with rf.write_corpus.")
    try:
        described = read_json(path.read_bytes())
        check_typed(described, Description, DESCRIPTION)
    except (ValueError, ModelFileError) as error:
        raise InputError(f"{str(path)!r} is damaged ({str(error).rstrip('.')}); write the corpus again.") from None
    if described["format"] > FORMAT:
        raise InputError(
            f"{str(path)!r} has format {described['format']}, this version of rulefield reads up to {FORMAT}; update it."
        )
    return described


def digest_of(data: bytes) -> str:
    """Digest of the bytes of a part."""
    return hashlib.sha256(data).hexdigest()


def check_digest(path: Path, digest: str) -> None:
    """Refuse a part whose bytes are not those that were written."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"the part {str(path)!r} cannot be read ({error.strerror}); write the corpus again."
        ) from None
    if digest_of(data) != digest:
        raise InputError(
            f"the part {str(path)!r} was changed or damaged after it was written (its digest differs); remove it and "
            "call write_corpus again."
        )


def _sequences(file: MappedArrays, n_features: int) -> Sequences:
    indices = file["indices"]
    values = file["values"] if "values" in file else ones(len(indices))
    shape = len(file["indptr"]) - 1, n_features
    return Sequences(SparseRows(values, indices, file["indptr"], shape), file["lengths"])
