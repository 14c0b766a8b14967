"""CRFsuite's binary models (``lCRF``, first-order Markov), read by this module alone: the files are untrusted.

Layout, all little-endian: a header of 48 bytes; a chunk ``FEAT`` of records (type, source, destination, weight), type 0 a
state feature (attribute to label), type 1 a transition; two ``CQDB`` chunks, constant hash tables of label and attribute
strings, of which only the list of strings by number is read. Every offset is checked before it is followed.
"""

import struct
from pathlib import Path

import numpy as np

from rulefield.encode.foreign.source import bytes_of
from rulefield.encode.foreign.weights import ForeignChain, check_names
from rulefield.exceptions import ModelFileError

_HEADER = struct.Struct("<4sI4s9I")
_CHUNK = struct.Struct("<4sII")
_CQDB = struct.Struct("<4s5I")
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_BYTE_ORDER = 0x62445371
_STATE, _TRANSITION = 0, 1


def read_crfsuite(source: str | Path | bytes) -> ForeignChain:
    """Read a model file of CRFsuite (or its bytes).

    Raises
    ------
    ModelFileError
        It is no such file, or damaged: something in it points outside it.
    """
    data, where = bytes_of(source)
    if len(data) < _HEADER.size or data[:4] != b"lCRF":
        raise ModelFileError(f"{where} is not a model of CRFsuite: it does not begin with 'lCRF'.")
    _, size, kind, version, _, n_labels, n_attributes, at_features, at_labels, at_attributes, _, _ = (
        _HEADER.unpack_from(data)
    )
    if kind != b"FOMC":
        raise ModelFileError(
            f"{where} holds a CRFsuite model of type {kind!r}; only first-order chains (FOMC) can be read."
        )
    if size > len(data):
        raise ModelFileError(f"{where} is cut short: {len(data)} bytes where its header says {size}.")
    records = _features(data, at_features, where)
    labels = _strings(data, at_labels, n_labels, "label", where)
    attributes = _strings(data, at_attributes, n_attributes, "attribute", where)
    return _chain(records, labels, attributes, where)


def _features(data: bytes, at: int, where: str) -> np.ndarray:
    if at + _CHUNK.size > len(data):
        raise ModelFileError(f"{where} is damaged: its features lie outside it.")
    name, _, count = _CHUNK.unpack_from(data, at)
    begin = at + _CHUNK.size
    if name != b"FEAT" or begin + count * _FEATURE.itemsize > len(data):
        raise ModelFileError(f"{where} is damaged: its features do not stand where its header says.")
    return np.frombuffer(data, _FEATURE, count, begin)


def _strings(data: bytes, at: int, count: int, what: str, where: str) -> list[str]:
    """Strings by number of a constant hash table: the list that leads from numbers back to records."""
    damaged = ModelFileError(f"{where} is damaged: its {what}s do not stand where its header says.")
    if at + _CQDB.size > len(data):
        raise damaged
    name, _, _, order, links, at_links = _CQDB.unpack_from(data, at)
    if name != b"CQDB" or order != _BYTE_ORDER or links < count or at + at_links + 4 * links > len(data):
        raise damaged
    offsets = np.frombuffer(data, "<u4", count, at + at_links).astype(np.int64) + at
    found = []
    for number, offset in enumerate(offsets.tolist()):
        if offset + 8 > len(data):
            raise damaged
        stored, length = struct.unpack_from("<II", data, offset)
        if stored != number or length < 1 or offset + 8 + length > len(data):
            raise damaged
        found.append(data[offset + 8 : offset + 7 + length].decode("utf-8", "surrogateescape"))
    return found


def _chain(records: np.ndarray, labels: list[str], attributes: list[str], where: str) -> ForeignChain:
    check_names(labels, attributes, where)
    m, kind = len(labels), records["type"]
    state, step = records[kind == _STATE], records[kind == _TRANSITION]
    if (kind > _TRANSITION).any() or (step["source"] >= m).any() or (step["target"] >= m).any():
        raise ModelFileError(f"{where} is damaged: a feature names a label that does not exist.")
    transitions = np.zeros((m, m))
    transitions[step["source"].astype(np.int64), step["target"].astype(np.int64)] = step["weight"]
    nothing = np.zeros(0, np.int64)
    return ForeignChain(
        labels,
        attributes,
        state["source"].astype(np.int64),
        state["target"].astype(np.int64),
        state["weight"].astype(np.float64),
        transitions,
        *(nothing, nothing, np.zeros(0)),
    ).checked(where)
