"""Writing a corpus to disk: encoded once, in parts that are cut by the data, whole or not at all."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rulefield.data.plain_json import read_json
from rulefield.data.sequences import is_ones
from rulefield.data.source import Source
from rulefield.datasets.folder import read_lines
from rulefield.encode.corpora.corpus import (
    DESCRIPTION,
    FORMAT,
    NAMES,
    Corpus,
    Description,
    PartEntry,
    check_digest,
    digest_of,
    open_corpus,
    read_description,
)
from rulefield.encode.corpora.mapped import MappedArrays, array_bytes, write_arrays
from rulefield.encode.formats.columns import ColumnFile
from rulefield.encode.keyed.hashed import HashedFeatures
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.tokens import TokenFeatures
from rulefield.encode.vocabulary import Vocabulary
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.saving import Packer, pack_or_name
from rulefield.estimators.types import Transformer
from rulefield.exceptions import InputError, LabelError
from rulefield.forms import Label, conforms
from rulefield.interrupts import check, deferred, interruptible
from rulefield.outputs import write_whole

PART_TOKENS = 150_000
JSON_NAMES = (".jsonl", ".json", ".ndjson")

__all__ = ["open_corpus", "write_corpus"]


@interruptible
def write_corpus(
    source: str | Path | Iterable[tuple[Any, Any]],
    folder: str | Path,
    *,
    features: Transformer | None = None,
    part_tokens: int = PART_TOKENS,
) -> Corpus:
    """Encode labeled sequences into a folder that sequence estimators learn from, part by part.

    Parameters
    ----------
    source : pattern of files, or iterable of (tokens, labels)
        Files hold columns (the label last) or JSON lines with ``tokens`` (or ``features``) and ``labels``, ``.gz`` or
        not; they are taken in the order of their names. Tokens are what ``ChainCRF.fit`` takes.
    folder : path
        Made where it does not exist.
    features : transformer, optional
        As in :class:`ChainCRF`: it must look at each sequence by itself. It stays with the corpus.
    part_tokens : int, default 150,000
        A part ends with the sequence that reaches so many tokens, whoever works on it later.

    Returns
    -------
    Corpus

    Notes
    -----
    One part is in memory at a time. Every file appears when it is whole; where a folder holds parts of an interrupted
    run, the same source is read up to there and the rest is written. Where the source has changed, that is said.
    """
    if not isinstance(part_tokens, int) or isinstance(part_tokens, bool) or part_tokens < 1:
        raise InputError(f"part_tokens must be a whole number >= 1; got {part_tokens!r}.")
    folder = Path(folder)
    writer = _PartsWriter(folder, InputEncoder(features), part_tokens)
    items = iter(_of_files(source) if isinstance(source, (str, Path)) else source)
    with deferred():
        while (first := next(items, None)) is not None:
            writer.part(chain([first], items))
            check()
        return writer.finish()


class _PartsWriter:
    """Writes parts one after the other; knows which are there already."""

    def __init__(self, folder: Path, encoder: InputEncoder, part_tokens: int):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.encoder, self.part_tokens = folder, encoder, part_tokens
        self.settings = settings = pack_or_name(Packer("corpus"), "features", encoder.features)
        there = (folder / DESCRIPTION).exists()
        self.described = read_description(folder) if there else _new_description(settings, part_tokens)
        if there and (self.described["part_tokens"] != part_tokens or not self._same_features(settings)):
            raise InputError(
                f"the folder {str(folder)!r} holds a corpus with other settings; give another folder, or remove it."
            )
        if not there and any(folder.iterdir()):
            raise InputError(f"the folder {str(folder)!r} is not empty and holds no corpus; give another one.")
        self.n_done = 0

    def _same_features(self, settings: Any) -> bool:
        """Whether features are those that the corpus holds; what plain tokens went through need not be told again."""
        stored = self.described["features"]
        if stored == settings or (settings is None and bool(self.described["parts"])):
            return True
        given = self.encoder.features
        if not isinstance(given, HashedFeatures) or given.features is not None:
            return False
        usual = HashedFeatures(TokenFeatures(), hash_bits=given.hash_bits)
        return stored == pack_or_name(Packer("corpus"), "features", usual)

    def part(self, items: Iterator[tuple[Any, Any]]) -> None:
        """Take sequences up to the end of one part; write it unless it is there."""
        parts, k = self.described["parts"], self.n_done
        reader = _PartReader(items, self.part_tokens, sum(entry["sequences"] for entry in parts[:k]))
        if k < len(parts):
            for _ in reader.tokens():
                pass
            self._check_same(parts[k], reader)
            if not (self.folder / parts[k]["file"]).exists():
                raise InputError(
                    f"the part {parts[k]['file']!r} is missing; remove {str(self.folder)!r} and write it again."
                )
            check_digest(self.folder / parts[k]["file"], parts[k]["digest"])
        else:
            self._write(reader, f"part-{k:05d}.safetensors")
        self.n_done += 1

    def _check_same(self, entry: PartEntry, reader: "_PartReader") -> None:
        if (reader.n_tokens, len(reader.labels), reader.digest) != (
            entry["tokens"],
            entry["sequences"],
            entry["source"],
        ):
            raise InputError(
                f"the part {entry['file']!r} in {str(self.folder)!r} was made from other data than the source gives now; "
                "give the same source, or another folder."
            )

    def _write(self, reader: "_PartReader", name: str) -> None:
        encoder = InputEncoder(_row_by_row(self.encoder.features))
        data = encoder.fit_transform(reader.tokens())
        if encoder.encoder is None:
            raise InputError(
                "a corpus holds tokens or named features; matrices fit rf.formats.Sequences, one per process."
            )
        if self.encoder.maker is None and encoder.maker is not None:  # plain tokens: the default
            if self.described["parts"] and self.described["features"] == self.settings:
                raise InputError("all tokens of a corpus must have one form; this source mixes tokens and features.")
            self.encoder.features = encoder.features
            self.described["features"] = pack_or_name(Packer("corpus"), "features", encoder.features)
        arrays, classes = _label_arrays(reader.labels, data.lengths)
        arrays |= {"lengths": data.lengths, "indptr": data.entries.indptr}
        if encoder.hash_bits:
            buckets, own = np.unique(data.entries.indices, return_inverse=True)
            arrays |= {"indices": own.astype(np.int32), "buckets": buckets}
        else:
            arrays |= {"indices": data.entries.indices, "names": encoder.encoder.vocabulary_.joined()}
        n_features = len(arrays["buckets"]) if encoder.hash_bits else encoder.n_features
        if not is_ones(data.entries.data) and not (data.entries.data == 1.0).all():
            arrays["values"] = data.entries.data
        content = array_bytes(arrays, {"classes": classes})
        write_whole(self.folder / name, content)
        self.described["parts"].append(
            {
                "file": name,
                "sequences": len(data),
                "tokens": data.n_tokens,
                "features": n_features,
                "known": int((~arrays["free"]).sum()) if "free" in arrays else data.n_tokens,
                "digest": digest_of(content),
                "source": reader.digest,
            }
        )
        self._describe()

    def finish(self) -> Corpus:
        """Merge the names and classes of all parts."""
        parts = self.described["parts"]
        if not parts:
            raise InputError("the source gives no sequence; nothing was written.")
        if self.n_done < len(parts):
            raise InputError(
                f"the source gives {self.n_done} parts, but {str(self.folder)!r} holds {len(parts)}; give the same source, "
                "or another folder."
            )
        if not (self.described["complete"] and (self.folder / NAMES).exists()):
            vocabulary, arrays, classes = Vocabulary(), {}, set()
            for k, entry in enumerate(parts):
                file = MappedArrays(self.folder / entry["file"])
                classes.update(file.metadata["classes"])
                if "buckets" in file:
                    arrays[f"columns_{k:05d}"] = np.array(file["buckets"])
                else:
                    numbers = vocabulary.number_joined(file["names"], entry["features"], grow=True)
                    arrays[f"columns_{k:05d}"] = numbers
                check()
            names = {"hash_bits": np.array([self._hash_bits])} if self._hash_bits else vocabulary.__getstate__()
            write_arrays(self.folder / NAMES, arrays | names, {})
            self.described["classes"] = sorted(classes, key=lambda label: (type(label).__name__, label))
            if not classes:
                raise LabelError("the source holds no known label at all; at least one token must be labeled.")
            self.described["complete"] = True
            self._describe()
        return Corpus(self.folder)

    @property
    def _hash_bits(self) -> int:
        features = self.encoder.features
        return features.hash_bits if isinstance(features, HashedFeatures) else 0

    def _describe(self) -> None:
        write_whole(self.folder / DESCRIPTION, json.dumps(self.described, indent=1))


class _PartReader:
    """Gives the tokens of one part; gathers their labels, and a digest of the source at both ends of the part."""

    def __init__(self, items: Iterator[tuple[Any, Any]], most: int, first: int):
        self.items, self.most, self.first = items, most, first
        self.labels: list[Any] = []
        self.n_tokens = 0
        self._ends: list[Any] = [None, None]

    @property
    def digest(self) -> str:
        """Digest of the first and the last sequence."""
        return hashlib.sha256(repr(self._ends).encode("utf-8", "surrogatepass")).hexdigest()

    def tokens(self) -> Iterator[Any]:
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
            self._ends = [self._ends[0] if self.labels else item, item]
            self.labels.append(labels)
            self.n_tokens += len(tokens)
            yield tokens
            if self.n_tokens >= self.most:
                return


def _row_by_row(features: Transformer | None) -> Transformer | None:
    """Return what makes features of one part, without learning from it."""
    if isinstance(features, HashedFeatures):
        return HashedFeatures(_row_by_row(features.features), hash_bits=features.hash_bits)
    if features is None or isinstance(features, TokenFeatures):
        return features
    return _RowTransformer(features)


class _RowTransformer:
    """A transformer of which only ``transform`` is used, sequence by sequence: parts must not teach it."""

    def __init__(self, features: Transformer):
        self.transform = features.transform


def _new_description(settings: Any, part_tokens: int) -> Description:
    return {
        "format": FORMAT,
        "features": settings,
        "part_tokens": part_tokens,
        "complete": False,
        "classes": [],
        "parts": [],
    }


def _label_arrays(y: list[Any], lengths: np.ndarray) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Label numbers among the part's own classes, and what partial labels allow."""
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


def _of_files(pattern: str | Path) -> Iterator[tuple[Any, Any]]:
    """Tokens and labels of all files that a pattern names, by name."""
    names = sorted(glob(os.fspath(pattern), recursive=True))
    if not names:
        raise InputError(f"no file matches {os.fspath(pattern)!r}.")
    for name in names:
        read = _json_lines if name.removesuffix(".gz").endswith(JSON_NAMES) else _columns
        yield from read(name)


def _columns(name: str) -> Iterator[tuple[Any, Any]]:
    for _, block in ColumnFile(Source(name)):
        if len(block[0]) < 2:
            raise InputError(f"{name!r} has one column; a labeled file has the token first and its label last.")
        tokens = [row[0] if len(row) == 2 else tuple(row[:-1]) for row in block]
        yield tokens, [row[-1] for row in block]


def _json_lines(name: str) -> Iterator[tuple[Any, Any]]:
    for number, line in enumerate(read_lines(name), 1):
        if not line.strip():
            continue
        try:
            record = read_json(line)
            tokens, labels = record.get("features", record.get("tokens")), record["labels"]
            assert isinstance(tokens, list)
            assert isinstance(labels, list)
        except (ValueError, KeyError, AttributeError, AssertionError):
            raise InputError(f'{name!r}, line {number} must be an object with lists "tokens" and "labels".') from None
        columns = "features" not in record
        yield [tuple(token) if columns and isinstance(token, list) else token for token in tokens], labels
