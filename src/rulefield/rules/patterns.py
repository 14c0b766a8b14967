"""Label patterns: which labels, and which segments, a rule speaks of.

``"title"`` matches any component of that type whatever its prefix; ``"B-title"`` asks for the prefix;
``"authors/person"`` matches consecutive components; ``*`` stands for one component (or, inside a name, for any
letters) and ``**`` for any number of components; a list means any of these. A pattern ends at a component, and the
segment it speaks of is the one of that component.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rulefield.encode.schemes import OUTSIDE, SEPARATOR, Component, Path, Scheme, parse
from rulefield.exceptions import LabelError, RuleError
from rulefield.rules.labels import LabelTable

ANY_NUMBER = "**"


@dataclass(frozen=True)
class Pattern:
    """One or more alternatives; ``listed`` remembers whether it was written as a list."""

    alternatives: tuple[str, ...]
    listed: bool = False

    def __repr__(self) -> str:
        return repr(list(self.alternatives)) if self.listed else repr(self.alternatives[0])

    def ends(self, path: Path, scheme: Scheme) -> tuple[int, ...]:
        """Levels of the path at which some alternative ends a match; empty where the label does not match."""
        found = {k for text in self.alternatives for k in _ends(text, path, scheme)}
        return tuple(sorted(found))

    def check(self, table: LabelTable) -> None:
        """Raise where an alternative matches no label of the label set."""
        for text in self.alternatives:
            if not any(_ends(text, path, table.scheme) for path in table.paths):
                raise RuleError(_unknown(text, table))


def as_pattern(pattern: "str | Iterable[str] | Pattern") -> Pattern:
    """Read what a user wrote as a pattern."""
    if isinstance(pattern, Pattern):
        return pattern
    listed = not isinstance(pattern, str)
    alternatives = (pattern,) if isinstance(pattern, str) or not isinstance(pattern, Iterable) else tuple(pattern)
    if not alternatives or not all(isinstance(text, str) and text for text in alternatives):
        raise RuleError(f"a label pattern must be a label's name or a list of names; got {pattern!r}.")
    return Pattern(alternatives, listed)


@lru_cache(maxsize=65536)
def _ends(text: str, path: Path, scheme: Scheme) -> frozenset[int]:
    wanted = _parts(text, scheme)
    return frozenset(end - 1 for start in range(len(path)) for end in _match(wanted, path, start) if end > start)


@lru_cache(maxsize=4096)
def _parts(text: str, scheme: Scheme) -> tuple[Component | str, ...]:
    return tuple(ANY_NUMBER if part == ANY_NUMBER else _part(part, scheme) for part in text.split(SEPARATOR))


def _part(text: str, scheme: Scheme) -> Component:
    """Read a component; a prefix counts only where the scheme knows it."""
    if scheme is Scheme.none or text == OUTSIDE:
        return Component("", text)
    try:
        component = parse(text, scheme)[0]
    except (LabelError, IndexError):
        component = None
    return component or Component("", text)


def _match(wanted: tuple[Component | str, ...], path: Path, at: int) -> set[int]:
    """Where a match of ``wanted`` that begins at component ``at`` may end (one past its last component)."""
    if not wanted:
        return {at}
    if wanted[0] == ANY_NUMBER:
        return {end for skip in range(at, len(path) + 1) for end in _match(wanted[1:], path, skip)}
    if at < len(path) and _fits(wanted[0], path[at]):
        return _match(wanted[1:], path, at + 1)
    return set()


def _fits(wanted: Component | str, component: Component | None) -> bool:
    if component is None or not isinstance(wanted, Component):
        return False
    if wanted.prefix and wanted.prefix != component.prefix:
        return False
    if "*" not in wanted.type:
        return wanted.type == component.type
    return component.type != OUTSIDE and _glob(wanted.type).fullmatch(component.type) is not None


@lru_cache(maxsize=1024)
def _glob(name: str) -> re.Pattern[str]:
    """Compile a name with stars; each part is taken where it is first found, so that no match is tried twice."""
    first, *middle, last = map(re.escape, name.split("*"))
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last, re.DOTALL)


def _unknown(text: str, table: LabelTable) -> str:
    near = difflib.get_close_matches(text, table.names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known names are {', '.join(table.names[:8])}."
    prefixed = table.scheme is Scheme.none and any(label[1:2] == "-" for label in table.labels)
    scheme = ' For labels such as "B-title" give the scheme ("BIO").' if prefixed else ""
    return f"the pattern {text!r} matches no label; {hint}{scheme}"


# --- patterns as tables over a label set -----------------------------------------------------


def matches(pattern: Pattern, table: LabelTable) -> np.ndarray:
    """Which labels match, shape (m,)."""
    return np.array([bool(pattern.ends(path, table.scheme)) for path in table.paths], dtype=bool)


def start_counts(pattern: Pattern, table: LabelTable) -> np.ndarray:
    """Segments of the pattern that begin with label j after label i, shape (m + 1, m); row m: at the beginning."""
    counts = np.zeros(table.starts.shape[1:], dtype=np.int32)
    for j, path in enumerate(table.paths):
        for k in pattern.ends(path, table.scheme):
            counts[:, j] += table.starts[k, :, j]
    return counts


def end_counts(pattern: Pattern, table: LabelTable) -> np.ndarray:
    """Segments of the pattern in label i that do not go on in a next label j, shape (m, m)."""
    m = len(table)
    counts = np.zeros((m, m), dtype=np.int32)
    for i, path in enumerate(table.paths):
        for k in pattern.ends(path, table.scheme):
            counts[i] += ~table.continues[k, i]
    return counts
