"""Wapiti's models: text with names as netstrings (``5:title,``), and the weights that are not zero.

A header ``#mdl#type#weights``; ``#rdr#patterns/columns/autouni`` and the patterns; ``#qrk#n`` and n labels; ``#qrk#n`` and n
observations; then lines ``place=weight``, weights in hexadecimal. Observations have places in their order: one per label
for those that begin with u, one per pair of labels [from, to] for b, both for ``*``.
"""

from pathlib import Path

import numpy as np

from rulefield.encode.foreign.source import bytes_of, whole_number
from rulefield.encode.foreign.weights import ForeignChain, check_names
from rulefield.exceptions import ModelFileError

_MAXENT_MARKOV = 1


class _Cursor:
    """Reads one thing after the other and never beyond the end."""

    def __init__(self, data: bytes, where: str):
        self.data, self.where, self.at = data, where, 0

    def line(self) -> bytes:
        stop = self.data.find(b"\n", self.at)
        if stop < 0:
            raise ModelFileError(f"{self.where} is cut short after {len(self.data)} bytes.")
        found, self.at = self.data[self.at : stop], stop + 1
        return found

    def numbers(self, mark: bytes, separator: bytes) -> list[int]:
        """Numbers of a line such as ``#rdr#3/2/0``."""
        line = self.line()
        if not line.startswith(mark):
            raise ModelFileError(f"{self.where} is damaged: {mark.decode()!r} does not stand where it must.")
        return [whole_number(part, mark.decode(), self.where) for part in line[len(mark) :].split(separator)]

    def strings(self, count: int) -> list[str]:
        return [self._string() for _ in range(count)]

    def _string(self) -> str:
        colon = self.data.find(b":", self.at, self.at + 12)
        if colon < 0:
            raise ModelFileError(f"{self.where} is damaged: a name has no length.")
        stop = colon + 1 + whole_number(self.data[self.at : colon], "the length of a name", self.where)
        if self.data[stop : stop + 2] != b",\n":
            raise ModelFileError(f"{self.where} is damaged: a name does not end where its length says.")
        found, self.at = self.data[colon + 1 : stop], stop + 2
        return found.decode("utf-8", "surrogateescape")


def read_wapiti(source: str | Path | bytes) -> tuple[ForeignChain, list[str]]:
    """Read a model of Wapiti (or its bytes): the chain, and the patterns that make its features (none: they are given).

    Raises
    ------
    ModelFileError
        It is no such file, damaged, or a maximum-entropy Markov model, which is no CRF.
    """
    data, where = bytes_of(source)
    if not data.startswith(b"#mdl#"):
        raise ModelFileError(f"{where} is not a model of Wapiti: it does not begin with '#mdl#'.")
    cursor = _Cursor(data, where)
    head = cursor.numbers(b"#mdl#", b"#")
    if len(head) > 1 and head[0] == _MAXENT_MARKOV:
        raise ModelFileError(f"{where} is a maximum-entropy Markov model (memm), which is no CRF.")
    settings = cursor.numbers(b"#rdr#", b"/")
    patterns = cursor.strings(settings[0])
    labels = cursor.strings(cursor.numbers(b"#qrk#", b"#")[0])
    seen = cursor.strings(cursor.numbers(b"#qrk#", b"#")[0])
    plain = (
        len(settings) > 2 and settings[2] != 0
    )  # features were written without the u, which Wapiti put before them
    if plain and patterns:
        raise ModelFileError(
            f"{where} has patterns and automatic prefixes (--autouni), which cannot be read together."
        )
    names = [name[1:] for name in seen] if plain else seen
    check_names(labels, names, where)
    place, weight = _weights(cursor, head[-1])
    chain = _chain(labels, names, "".join(name[:1] for name in seen), place, weight, where)
    return _with_transitions(chain.checked(where), patterns).without_zeros(), patterns


def _weights(cursor: _Cursor, count: int) -> tuple[np.ndarray, np.ndarray]:
    lines = cursor.data[cursor.at :].split(b"\n")
    if len(lines) - 1 != count or lines[-1]:
        raise ModelFileError(f"{cursor.where} is damaged: it has {len(lines) - 1} weights where it says {count}.")
    places, weights = [], []
    for line in lines[:-1]:
        place, _, value = line.partition(b"=")
        places.append(whole_number(place, "the place of a weight", cursor.where))
        try:
            weights.append(float.fromhex(value.decode("ascii")))
        except (ValueError, OverflowError):
            raise ModelFileError(f"{cursor.where} is damaged: a weight is not a number.") from None
    return np.array(places, dtype=np.int64), np.array(weights, dtype=np.float64)


def _chain(
    labels: list[str], names: list[str], kinds: str, place: np.ndarray, weight: np.ndarray, where: str
) -> ForeignChain:
    """Sort weights by the observation that each belongs to, and inside it by label or pair of labels."""
    if len(kinds) != len(names) or set(kinds) - set("ub*"):
        raise ModelFileError(f"{where} is damaged: an observation begins with something else than u, b or *.")
    m = len(labels)
    per_label = np.array([0 if kind == "b" else m for kind in kinds], dtype=np.int64)
    per_pair = np.array([0 if kind == "u" else m * m for kind in kinds], dtype=np.int64)
    stops = np.cumsum(per_label + per_pair)
    if len(place) and (not len(stops) or place.max() >= stops[-1]):
        raise ModelFileError(f"{where} is damaged: a weight belongs to no observation.")
    owner = np.searchsorted(stops, place, side="right")
    inside = place - (stops - per_label - per_pair)[owner] if len(place) else place
    state = inside < per_label[owner] if len(place) else np.zeros(0, bool)
    return ForeignChain(
        labels,
        names,
        owner[state],
        inside[state],
        weight[state],
        np.zeros((m, m)),
        owner[~state],
        (inside - per_label[owner])[~state] if len(place) else inside,
        weight[~state],
    )


def _with_transitions(chain: ForeignChain, patterns: list[str]) -> ForeignChain:
    """Observations of patterns without a command are the same at every token: their steps are plain transitions."""
    times = np.array([patterns.count(name) if "%" not in name else 0 for name in chain.features], dtype=np.int64)
    times = times[chain.step_feature]
    m = len(chain.labels)
    total = np.bincount(chain.step_pair, weights=chain.step_weight * times, minlength=m * m)
    rest = times == 0
    return ForeignChain(
        chain.labels,
        chain.features,
        chain.state_feature,
        chain.state_label,
        chain.state_weight,
        chain.transitions + total.reshape(m, m),
        chain.step_feature[rest],
        chain.step_pair[rest],
        chain.step_weight[rest],
    )
