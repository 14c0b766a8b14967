"""CRFsuite's binary models, written: what :mod:`rulefield.encode.foreign.crfsuite` reads, CRFsuite's own tagger reads too.

Beside features and names its tagger wants two lists of references, from labels to transitions and from attributes to
state features, and a hash table for each list of names: 256 tables by the low byte of the hash, twice as large as
needed, with open addresses. The hash is ``hashlittle`` of Bob Jenkins' lookup3 (public domain).
"""

import struct

import numpy as np

from rulefield.encode.foreign.weights import ForeignChain
from rulefield.exceptions import InputError

_VERSION, _BYTE_ORDER, _TABLES = 100, 0x62445371, 256
_HEADER, _RECORDS = 48, 24 + 8 * _TABLES
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_BLOCK = 12  # bytes that the hash takes at a time


def crfsuite_bytes(chain: ForeignChain) -> bytes:
    """Return a chain as the bytes of a CRFsuite model; weights that are zero and attributes without one are left out.

    Raises
    ------
    InputError
        CRFsuite has no place for it: weights of features for transitions, or more than 4 GB.
    """
    if len(chain.step_weight):
        raise InputError("CRFsuite's models have no weights for features at transitions; save this model as .rf.")
    chain = chain.without_zeros()
    source, target = np.nonzero(chain.transitions)
    features = np.zeros(len(source) + len(chain.state_weight), _FEATURE)
    features["type"][: len(source)] = 1
    features["source"] = np.concatenate([source, chain.state_feature])
    features["target"] = np.concatenate([target, chain.state_label])
    features["weight"] = np.concatenate([chain.transitions[source, target], chain.state_weight])
    chunks = bytearray(_HEADER)
    places = [_HEADER]
    chunks += struct.pack("<4sII", b"FEAT", 12 + features.nbytes, len(features)) + features.tobytes()
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
    chunks[:_HEADER] = struct.pack("<4sI4s9I", b"lCRF", len(chunks), b"FOMC", *sizes, *places)
    return bytes(chunks)


def _references(name: bytes, owner: np.ndarray, feature: np.ndarray, n_owners: int, at: int) -> bytes:
    """For each owner (a label, an attribute) the number of its features and their numbers."""
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=n_owners)
    body = np.insert(feature[order], np.cumsum(counts) - counts, counts.astype(np.uint32))
    starts = at + 12 + 4 * (n_owners + np.cumsum(counts + 1) - counts - 1)
    size = 12 + 4 * (n_owners + len(body))
    return struct.pack("<4sII", name, size, n_owners) + starts.astype("<u4").tobytes() + body.astype("<u4").tobytes()


def _quarks(names: list[str]) -> bytes:
    """Return a constant hash table from names to their numbers, and the way back."""
    keys = [name.encode("utf-8", "surrogateescape") + b"\0" for name in names]
    if any(b"\0" in key[:-1] for key in keys):
        raise InputError("CRFsuite's models end a name at a NUL character, and one name holds it; save as .rf.")
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    offsets = _RECORDS + np.concatenate([[0], np.cumsum(lengths + 8)])
    records = b"".join(struct.pack("<II", i, len(key)) + key for i, key in enumerate(keys))
    tables, heads, at = [], [], int(offsets[-1])
    hashes = hash_little(keys)
    for number in range(_TABLES):
        members = np.flatnonzero(hashes % _TABLES == number)
        heads.append((at if len(members) else 0, 2 * len(members)))
        tables.append(_buckets(hashes[members], offsets[members]))
        at += 16 * len(members)
    links = offsets[:-1].astype("<u4").tobytes()
    head = struct.pack("<4s5I", b"CQDB", at + len(links), 0, _BYTE_ORDER, len(keys), at)
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
