"""CRFsuite's binary models (``lCRF``, first-order Markov), read and written by this module alone: the files are untrusted.

Layout, all little-endian: a header of 48 bytes; a chunk ``FEAT`` of records (type, source, destination, weight), type 0 a
state feature (attribute to label), type 1 a transition; two ``CQDB`` chunks, constant hash tables of label and attribute
strings, of which only the list of strings by number is read. Every offset is checked before it is followed.

CRFsuite's tagger also needs two lists of references, from labels to transitions and from attributes to state features, and a
hash table for each list of names: 256 tables by the low byte of the hash, twice as large as needed, with open addresses.
The hash is ``hashlittle`` of Bob Jenkins' lookup3 (public domain).
"""

import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import Forms, check_arrays, index, weights

MOST_LABELS = 5_000
"""A table of all steps between so many labels takes 200 MB; a file that names more is refused before it is made."""
CRFSUITE_FORMS: Forms = {
    "state_feature": index("states", below="features", dtype="int64"),
    "state_label": index("states", below="labels", dtype="int64"),
    "state_weight": weights("states"),
    "transitions": weights("labels", "labels"),
}
_HEADER = struct.Struct("<4sI4s9I")
_CHUNK = struct.Struct("<4sII")
_CQDB = struct.Struct("<4s5I")
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_VERSION, _BYTE_ORDER, _TABLES = 100, 0x62445371, 256
_STATE, _TRANSITION = 0, 1
_BLOCK = 12  # bytes that the hash takes at a time


@dataclass(frozen=True)
class CrfsuiteChain:
    """A linear chain of CRFsuite: names, and the weights that are not zero.

    Parameters
    ----------
    labels : list of str, length m
    features : list of str
    state_feature, state_label : ndarray of int64, shape (n_state,)
        Which feature speaks for which label, with weights ``state_weight`` (n_state,).
    transitions : ndarray of float64, shape (m, m)
        Weight of label [from] before label [to].
    """

    labels: list[str]
    features: list[str]
    state_feature: np.ndarray
    state_label: np.ndarray
    state_weight: np.ndarray
    transitions: np.ndarray

    def without_zeros(self) -> "CrfsuiteChain":
        """Return the same chain without weights that are zero and without features that have none left."""
        kept = self.state_weight != 0
        used, feature = np.unique(self.state_feature[kept], return_inverse=True)
        return replace(
            self,
            features=[self.features[i] for i in used.tolist()],
            state_feature=feature,
            state_label=self.state_label[kept],
            state_weight=self.state_weight[kept],
        )


# --- reading --------------------------------------------------------------------------------------


def read_crfsuite(source: str | Path | bytes) -> CrfsuiteChain:
    """Read a model file of CRFsuite (or its bytes).

    Raises
    ------
    ModelFileError
        It is no such file, or damaged: something in it points outside it.
    """
    data, where = _content(source)
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


def _content(source: str | Path | bytes) -> tuple[bytes, str]:
    """Return the content of a file (or bytes as they are), and what errors call it."""
    if isinstance(source, bytes):
        return source, "the model"
    path = Path(source)
    if not path.is_file():
        raise ModelFileError(f"there is no model file {str(path)!r}.")
    return path.read_bytes(), repr(str(path))


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


def _chain(records: np.ndarray, labels: list[str], attributes: list[str], where: str) -> CrfsuiteChain:
    if not labels or len(set(labels)) != len(labels) or len(set(attributes)) != len(attributes):
        raise ModelFileError(f"{where} is damaged: it has no labels, or the same name twice.")
    if len(labels) > MOST_LABELS:
        raise ModelFileError(f"{where} names {len(labels)} labels; {MOST_LABELS} are the most that can be read.")
    m, kind = len(labels), records["type"]
    state, step = records[kind == _STATE], records[kind == _TRANSITION]
    if (kind > _TRANSITION).any() or (step["source"] >= m).any() or (step["target"] >= m).any():
        raise ModelFileError(f"{where} is damaged: a feature names a label that does not exist.")
    transitions = np.zeros((m, m))
    transitions[step["source"].astype(np.int64), step["target"].astype(np.int64)] = step["weight"]
    arrays = {
        "state_feature": state["source"].astype(np.int64),
        "state_label": state["target"].astype(np.int64),
        "state_weight": state["weight"].astype(np.float64),
        "transitions": transitions,
    }
    try:
        check_arrays(arrays, CRFSUITE_FORMS, {"labels": m, "features": len(attributes)})
    except ModelFileError as error:
        what = str(error).split(" of the model file")[0]
        raise ModelFileError(f"{where} is damaged: {what} is not as it must be.") from None
    return CrfsuiteChain(labels, attributes, **arrays)


# --- writing --------------------------------------------------------------------------------------


def crfsuite_bytes(chain: CrfsuiteChain) -> bytes:
    """Return a chain as the bytes of a CRFsuite model; weights that are zero and attributes without one are left out.

    Raises
    ------
    InputError
        It needs more than the 4 GB that CRFsuite has place for.
    """
    chain = chain.without_zeros()
    source, target = np.nonzero(chain.transitions)
    features = np.zeros(len(source) + len(chain.state_weight), _FEATURE)
    features["type"][: len(source)] = 1
    features["source"] = np.concatenate([source, chain.state_feature])
    features["target"] = np.concatenate([target, chain.state_label])
    features["weight"] = np.concatenate([chain.transitions[source, target], chain.state_weight])
    chunks = bytearray(_HEADER.size)
    places = [_HEADER.size]
    chunks += _CHUNK.pack(b"FEAT", _CHUNK.size + features.nbytes, len(features)) + features.tobytes()
    for names in (chain.labels, chain.features):
        places.append(len(chunks))
        chunks += _quarks(names)
    numbers = np.arange(len(features), dtype=np.uint32)
    refs = (
        (b"LFRF", source, numbers[: len(source)], len(chain.labels) + 2),
        (b"AFRF", chain.state_feature, numbers[len(source) :], len(chain.features)),
    )
    for name, owner, feature, n_owners in refs:
        chunks += bytes(-len(chunks) % 4)
        places.append(len(chunks))
        chunks += _references(name, owner, feature, n_owners, len(chunks))
    if len(chunks) >= 2**32:
        raise InputError(f"CRFsuite's models hold at most 4 GB; this one needs {len(chunks)} bytes. Save it as .rf.")
    sizes = (_VERSION, 0, len(chain.labels), len(chain.features))
    chunks[: _HEADER.size] = _HEADER.pack(b"lCRF", len(chunks), b"FOMC", *sizes, *places)
    return bytes(chunks)


def _references(name: bytes, owner: np.ndarray, feature: np.ndarray, n_owners: int, at: int) -> bytes:
    """For each owner (a label, an attribute) the number of its features and their numbers."""
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=n_owners)
    body = np.insert(feature[order], np.cumsum(counts) - counts, counts.astype(np.uint32))
    starts = at + 12 + 4 * (n_owners + np.cumsum(counts + 1) - counts - 1)
    size = 12 + 4 * (n_owners + len(body))
    return _CHUNK.pack(name, size, n_owners) + starts.astype("<u4").tobytes() + body.astype("<u4").tobytes()


def _quarks(names: list[str]) -> bytes:
    """Return a constant hash table from names to their numbers, and the way back."""
    keys = [name.encode("utf-8", "surrogateescape") + b"\0" for name in names]
    if any(b"\0" in key[:-1] for key in keys):
        raise InputError("CRFsuite's models end a name at a NUL character, and one name holds it; save as .rf.")
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    offsets = _CQDB.size + 8 * _TABLES + np.concatenate([[0], np.cumsum(lengths + 8)])
    records = b"".join(struct.pack("<II", i, len(key)) + key for i, key in enumerate(keys))
    tables, heads, at = [], [], int(offsets[-1])
    hashes = hash_little(keys)
    for number in range(_TABLES):
        members = np.flatnonzero(hashes % _TABLES == number)
        heads.append((at if len(members) else 0, 2 * len(members)))
        tables.append(_buckets(hashes[members], offsets[members]))
        at += 16 * len(members)
    links = offsets[:-1].astype("<u4").tobytes()
    head = _CQDB.pack(b"CQDB", at + len(links), 0, _BYTE_ORDER, len(keys), at)
    return head + np.array(heads, "<u4").tobytes() + records + b"".join(tables) + links


def _buckets(hashes: np.ndarray, offsets: np.ndarray) -> bytes:
    n = 2 * len(hashes)
    table = np.zeros((n, 2), "<u4")
    for value, offset in zip(hashes.tolist(), offsets.tolist()):
        k = (value >> 8) % n
        while table[k, 1]:
            k = (k + 1) % n
        table[k] = value, offset
    return table.tobytes()


def hash_little(keys: list[bytes]) -> np.ndarray:
    """Return ``hashlittle(key, 0)`` of all keys, none of them empty, as uint32: twelve bytes of all keys at a time."""
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    last = (lengths - 1) // _BLOCK
    width = int(last.max(initial=-1) + 1) * _BLOCK
    words = np.frombuffer(b"".join(key.ljust(width, b"\0") for key in keys), "<u4").reshape(len(keys), -1, 3)
    a = np.uint32(0xDEADBEEF) + lengths.astype(np.uint32)
    b, c = a.copy(), a.copy()
    for block in range(words.shape[1]):
        more = np.flatnonzero(last > block)
        here = np.flatnonzero(last >= block)
        for state, part in zip((a, b, c), words[here, block].T):
            state[here] += part
        a[more], b[more], c[more] = _mixed(a[more], b[more], c[more])
    return _finished(a, b, c)


def _turned(x: np.ndarray, k: int) -> np.ndarray:
    return (x << np.uint32(k)) | (x >> np.uint32(32 - k))


def _mixed(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    for first, second, third in ((4, 6, 8), (16, 19, 4)):
        a = (a - c) ^ _turned(c, first)
        c = c + b
        b = (b - a) ^ _turned(a, second)
        a = a + c
        c = (c - b) ^ _turned(b, third)
        b = b + a
    return a, b, c


def _finished(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    for first, second, third in ((14, 11, 25), (16, 4, 14)):
        c = (c ^ b) - _turned(b, first)
        a = (a ^ c) - _turned(c, second)
        b = (b ^ a) - _turned(a, third)
    return (c ^ b) - _turned(b, 24)
