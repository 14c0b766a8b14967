"""Label schemes: what a label such as ``B-title`` or ``I-authors/B-person/B-first`` says about segments.

A label is a path of components, one for each level of a hierarchy, separated by ``/``; a component is a
prefix and a type (``B-person``). ``O``, or an empty component, means that no segment covers the token at that
level; components missing at the end mean the same, so leaves may have different depths.

**What is possible.** A label sequence is possible under a scheme if its first level is a possible flat
sequence, and inside every segment of that level (and every maximal run without one) the rest of the
paths is possible in the same sense. So a segment never crosses the border of its parent, and under BIO a
component may be ``I`` only if the token before has the same type at that level and all parents continue.

Flat sequences, x a type:

========  ==========================  ==================================  ==================
scheme    a segment of x              ``B-x`` may follow                  may end after
========  ==========================  ==================================  ==================
BIO       ``B-x I-x ... I-x``         anything, or begin                  anything
IOB1      ``I-x I-x ... I-x``         only ``B-x`` or ``I-x`` (it parts   anything
                                      two neighbors of one type)
BIOES     ``B-x I-x ... E-x``         what ends a segment (E, S, O)       ``E``, ``S``, ``O``
          or ``S-x``
BILOU     as BIOES, L = E and U = S
IOE2      ``I-x ... I-x E-x``         (there is no B)                     ``E``, ``O``
IOE1      ``I-x I-x ... I-x``         (there is no B; ``E-x`` is the      ``I``, ``O``
                                      last token before a neighbor
                                      of the same type)
none      a maximal run of one label  (every label may follow every label, also ``O``)
========  ==========================  ==================================  ==================
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rulefield.exceptions import InputError, LabelError

SEPARATOR = "/"
OUTSIDE = "O"


class Scheme(StrEnum):
    """The label schemes that the library knows."""

    none = "none"
    bio = "BIO"
    iob1 = "IOB1"
    bioes = "BIOES"
    bilou = "BILOU"
    ioe1 = "IOE1"
    ioe2 = "IOE2"


class Component(NamedTuple):
    """One level of a label; ``prefix`` is one of B, I, E, S whatever the scheme calls it ("" without a scheme)."""

    prefix: str
    type: str


Path = tuple[Component | None, ...]

_ALIASES = {"": Scheme.none, "IOB2": Scheme.bio, "IOB": Scheme.bio, "IOBES": Scheme.bioes}
_PREFIXES: dict[Scheme, dict[str, str]] = {
    Scheme.none: {},
    Scheme.bio: {"B": "B", "I": "I"},
    Scheme.iob1: {"B": "B", "I": "I"},
    Scheme.bioes: {"B": "B", "I": "I", "E": "E", "S": "S"},
    Scheme.bilou: {"B": "B", "I": "I", "L": "E", "U": "S"},
    Scheme.ioe1: {"I": "I", "E": "E"},
    Scheme.ioe2: {"I": "I", "E": "E"},
}


def as_scheme(scheme: str | None) -> Scheme:
    """Turn a name, in any case, or None into a :class:`Scheme`."""
    if scheme is None:
        return Scheme.none
    name = str(scheme).upper()
    for known in Scheme:
        if known.value.upper() == name:
            return known
    if name in _ALIASES:
        return _ALIASES[name]
    raise InputError(f"scheme must be one of {', '.join(s.value for s in Scheme)}; got {scheme!r}.")


def guess_scheme(labels: Iterable[Any]) -> Scheme:
    """Guess the scheme of a label set from its prefixes: BILOU, BIOES, IOE2, else BIO; none where some have no prefix."""
    parts = [part for label in labels for part in str(label).split(SEPARATOR) if part not in ("", OUTSIDE)]
    if not all(re.match("[BIESLU]-.", part) for part in parts):
        return Scheme.none
    prefixes = {part[0] for part in parts}
    if prefixes & set("LU"):
        return Scheme.bilou
    if "E" in prefixes and prefixes <= set("IE"):
        return Scheme.ioe2
    return Scheme.bioes if prefixes & set("ES") else Scheme.bio


@lru_cache(maxsize=65536)
def parse(label: str, scheme: str | None) -> Path:
    """Split a label into its components, from the outermost level in; trailing empty levels are dropped.

    Without a scheme a label is one component with prefix "" whose type is the label itself.
    """
    kind = as_scheme(scheme)
    if kind is Scheme.none:
        return (Component("", label),)
    path = [_component(part, label, kind) for part in str(label).split(SEPARATOR)]
    while path and path[-1] is None:
        path.pop()
    return tuple(path)


def _component(part: str, label: str, scheme: Scheme) -> Component | None:
    if part in ("", OUTSIDE):
        return None
    prefix, dash, name = part.partition("-")
    roles = _PREFIXES[scheme]
    if not dash or not name or prefix not in roles:
        known = ", ".join(f"{p}-..." for p in roles)
        raise LabelError(
            f"label {label!r} does not fit scheme {scheme.value}: {part!r} must be O or begin with {known}; "
            f"use scheme=None for plain labels."
        )
    return Component(roles[prefix], name)


def format_path(path: Path, scheme: str | None) -> str:
    """Write components as a label: the inverse of :func:`parse` (``O`` where nothing is left)."""
    kind = as_scheme(scheme)
    names = {role: prefix for prefix, role in _PREFIXES[kind].items()}
    parts = [OUTSIDE if c is None else f"{names[c.prefix]}-{c.type}" if c.prefix else c.type for c in path]
    return SEPARATOR.join(parts) if parts else OUTSIDE


# --- one level ------------------------------------------------------------------------------


def _joins(before: Component | None, now: Component | None) -> bool:
    """Whether two neighbors lie in one segment (or one run without a segment) of their level."""
    if before is None or now is None:
        return before is now
    if before.type != now.type:
        return False
    return now.prefix == "" or (now.prefix in "IE" and before.prefix in "BI")


# Prefixes that a segment may begin and end with where its neighbors are of other types.
_BEGIN = {
    Scheme.bio: "B",
    Scheme.iob1: "I",
    Scheme.bioes: "BS",
    Scheme.bilou: "BS",
    Scheme.ioe1: "IE",
    Scheme.ioe2: "IE",
}
_END = {
    Scheme.bio: "BI",
    Scheme.iob1: "BI",
    Scheme.bioes: "ES",
    Scheme.bilou: "ES",
    Scheme.ioe1: "I",
    Scheme.ioe2: "E",
}


def _may_begin(now: Component | None, scheme: Scheme) -> bool:
    return now is None or scheme is Scheme.none or now.prefix in _BEGIN[scheme]


def _may_end(before: Component | None, scheme: Scheme) -> bool:
    return before is None or scheme is Scheme.none or before.prefix in _END[scheme]


def _may_follow(before: Component | None, now: Component | None, scheme: Scheme) -> bool:
    if _joins(before, now):
        return True
    if scheme is Scheme.iob1 and now is not None and now.prefix == "B":
        return before is not None and before.type == now.type
    if scheme is Scheme.ioe1 and before is not None and before.prefix == "E":
        return now is not None and before.type == now.type
    return _may_end(before, scheme) and _may_begin(now, scheme)


# --- all levels -----------------------------------------------------------------------------


def _level(path: Path, k: int) -> Component | None:
    return path[k] if k < len(path) else None


def _possible(before: Path, now: Path, scheme: Scheme) -> bool:
    joined = True
    for k in range(max(len(before), len(now))):
        a, b = _level(before, k), _level(now, k)
        if joined:
            if not _may_follow(a, b, scheme):
                return False
            joined = _joins(a, b)
        elif not (_may_end(a, scheme) and _may_begin(b, scheme)):
            return False
    return True


def allowed_transitions(labels: Sequence[str], scheme: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which labels may follow, begin and end under a scheme.

    Parameters
    ----------
    labels : sequence of str, length m
    scheme : str or None

    Returns
    -------
    allowed : ndarray of bool, shape (m, m)
        Indexed [from, to].
    start, end : ndarray of bool, shape (m,)
        Whether a sequence may begin or end with the label.

    Notes
    -----
    O(m² depth), once for a label set; a sequence is possible exactly when its start, its end and all its steps are.
    """
    allowed, start, end = _allowed(tuple(labels), as_scheme(scheme))
    return allowed.copy(), start.copy(), end.copy()


@lru_cache(maxsize=64)
def _allowed(labels: tuple[str, ...], kind: Scheme) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m = len(labels)
    if kind is Scheme.none:
        return np.ones((m, m), bool), np.ones(m, bool), np.ones(m, bool)
    paths = [parse(label, kind) for label in labels]
    allowed = np.array([[_possible(a, b, kind) for b in paths] for a in paths], dtype=bool).reshape(m, m)
    start = np.array([all(_may_begin(c, kind) for c in path) for path in paths], dtype=bool)
    end = np.array([all(_may_end(c, kind) for c in path) for path in paths], dtype=bool)
    return allowed, start, end


def depth(labels: Sequence[str], scheme: str | None) -> int:
    """Levels of the deepest label (at least 1)."""
    return max([1, *(len(parse(label, scheme)) for label in labels)])


def segment_starts(labels: Sequence[str], scheme: str | None) -> np.ndarray:
    """Which steps begin a new segment, at each level of the hierarchy.

    Parameters
    ----------
    labels : sequence of str, length m
    scheme : str or None

    Returns
    -------
    ndarray of bool, shape (depth, m + 1, m)
        Entry [k, i, j]: a token labeled j after a token labeled i begins a new segment at level k; row
        i = m stands for "no token before". False where label j lies in no segment at that level.

    Notes
    -----
    Steps that the scheme forbids have an answer too, the one of the conlleval script: a segment begins
    wherever it does not continue. Without a scheme a segment is a maximal run of one label.
    """
    kind = as_scheme(scheme)
    paths: list[Path] = [parse(label, kind) for label in labels]
    m, levels = len(labels), depth(labels, kind)
    starts = np.zeros((levels, m + 1, m), dtype=bool)
    for j, now in enumerate(paths):
        for i, before in enumerate(paths):
            joined = True
            for k, component in enumerate(now):
                joined = joined and _joins(_level(before, k), component)
                starts[k, i, j] = component is not None and not joined
        for k, component in enumerate(now):
            starts[k, m, j] = component is not None
    return starts
