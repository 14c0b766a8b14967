"""A corpus on disk: what it holds, and its parts as sequences and labels, mapped into memory."""

import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from rulefield.data.plain_json import read_json
from rulefield.data.sequences import Labels, Sequences, SparseRows, ones
from rulefield.encode.vocabulary import Vocabulary
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import Form, Label, check_arrays, check_typed, flags, index
from rulefield.outputs import whole_file

# --- files of arrays ------------------------------------------------------------------------------

_KEY = "rulefield"
_TYPES = {
    "F64": np.float64,
    "I64": np.int64,
    "U64": np.uint64,
    "I32": np.int32,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}


class MappedArrays(Mapping[str, np.ndarray]):
    """The arrays of one file by name; pages are read when they are touched.

    The map is private: writing to an array changes no file (kernels are compiled for arrays that can be written to). It
    goes when the last array that stands on it is let go.

    Attributes
    ----------
    metadata : dict
        What :func:`write_arrays` was given.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise InputError(f"the file {str(path)!r} cannot be read ({error}); write the corpus again.") from None
        try:
            size = int.from_bytes(self._map[:8], "little")
            header = read_json(self._map[8 : 8 + size])
            self.metadata: dict[str, Any] = read_json(header.pop("__metadata__")[_KEY])
            self._arrays = {name: self._view(entry, 8 + size) for name, entry in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the file {str(path)!r} is damaged ({error}); write the corpus again.") from None

    def _view(self, entry: Mapping[str, Any], begin: int) -> np.ndarray:
        dtype, (first, last) = np.dtype(_TYPES[entry["dtype"]]), entry["data_offsets"]
        if first == last:
            return np.zeros(entry["shape"], dtype)
        return np.frombuffer(self._map, dtype, (last - first) // dtype.itemsize, begin + first).reshape(
            entry["shape"]
        )

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def write_arrays(
    path: str | Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any], *, lasting: bool = True
) -> None:
    """Write a file that appears when it is whole, array by array: its bytes are never held together.

    ``lasting`` as in :func:`rulefield.outputs.whole_file`.
    """
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    ordered = sorted(whole, key=lambda name: -whole[name].itemsize)  # so that all of them are aligned
    header: dict[str, Any] = {"__metadata__": {_KEY: json.dumps(metadata, sort_keys=True)}}
    place = 0
    for name in ordered:
        array = whole[name]
        stop = place + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [place, stop]}
        place = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path, lasting=lasting) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in ordered:
            file.write(whole[name].reshape(-1).view(np.uint8).data)


# --- corpora --------------------------------------------------------------------------------------

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


class Description(TypedDict):
    """What stands in ``corpus.json``."""

    format: int
    features: Any
    classes: list[Label]
    parts: list[PartEntry]


@dataclass(frozen=True)
class EncodedPart:
    """A part of a corpus in memory: features numbered by themselves (``columns``: in the corpus), labels by its classes."""

    sequences: Sequences
    labels: Labels
    columns: np.ndarray


class Corpus:
    """Encoded sequences and labels in a folder; :func:`rulefield.write_corpus` makes it."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._description = read_description(self.folder)
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
        """Number of distinct features."""
        return len(MappedArrays(self.folder / NAMES)["stop"]) - 1

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
        """Return the names of all features."""
        file = MappedArrays(self.folder / NAMES)
        vocabulary = Vocabulary()
        vocabulary.__setstate__({"blob": np.array(file["blob"]), "stop": np.array(file["stop"])})
        return vocabulary

    def columns(self, k: int) -> np.ndarray:
        """Numbers in the corpus of the features of part ``k``."""
        return MappedArrays(self.folder / NAMES)[f"columns_{k:05d}"]

    @property
    def place(self) -> str:
        """The folder as other processes find it, wherever they were started."""
        return str(self.folder.absolute())

    def part(self, k: int, *, check: bool = False) -> EncodedPart:
        """Return part ``k``; ``check`` compares its digest first."""
        if check:
            self._check_digest(k)
        file = MappedArrays(self._path(k))
        n_features = self.parts[k]["features"]
        try:
            check_arrays(file, PART_FORMS, {"features": n_features, "tokens": self.parts[k]["tokens"]})
            return EncodedPart(_sequences(file, n_features), self._labels(file), self.columns(k))
        except (ModelFileError, KeyError, IndexError) as error:
            reason = str(error).split(";")[0].replace(" of the model file", "")
            raise InputError(
                f"the part {str(self._path(k))!r} is damaged ({reason}); write the corpus again."
            ) from None

    def __iter__(self) -> Iterator[EncodedPart]:
        return (self.part(k) for k in range(len(self.parts)))

    def _path(self, k: int) -> Path:
        return self.folder / self.parts[k]["file"]

    def _check_digest(self, k: int) -> None:
        """Refuse a part whose bytes are not those that were written."""
        path = self._path(k)
        try:
            same = digest_of(path) == self.parts[k]["digest"]
        except OSError as error:
            raise InputError(
                f"the part {str(path)!r} cannot be read ({error.strerror}); write the corpus again."
            ) from None
        if not same:
            raise InputError(
                f"the part {str(path)!r} was changed or damaged after it was written (its digest differs); write the "
                "corpus again."
            )

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
        raise InputError(
            f"there is no complete corpus in {str(folder)!r} (no {DESCRIPTION}); write one into an empty folder with "
            "rf.write_corpus."
        )
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


def digest_of(path: Path) -> str:
    """Digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sequences(file: MappedArrays, n_features: int) -> Sequences:
    indices = file["indices"]
    values = file["values"] if "values" in file else ones(len(indices))
    shape = len(file["indptr"]) - 1, n_features
    return Sequences(SparseRows(values, indices, file["indptr"], shape), file["lengths"])
