"""Label patterns: which labels, and which segments, a rule refers to.

``"title"`` matches any component of that type whatever its prefix; ``"B-title"`` asks for the prefix;
``"authors/person"`` matches consecutive components; ``*`` stands for one component (or, inside a name, for any
letters) and ``**`` for any number of components; a list means any of these. A pattern ends at a component, and the
segment it refers to is the one of that component.

Where a model has several tasks, ``{"ner": "person"}`` names the task of a pattern, and ``{"ner": "person", "pos": "NOUN"}``
matches tokens that have both labels; segments of such a pattern are maximal runs of tokens that match.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from rulefield.encode.schemes import OUTSIDE, SEPARATOR, Component, Path, Scheme, parse
from rulefield.exceptions import LabelError, RuleError
from rulefield.rules.labels import LabelTable, hint

ANY_NUMBER = "**"


@dataclass(frozen=True)
class Pattern:
    """One or more alternatives, of one task where the model has several; ``listed``: it was written as a list."""

    alternatives: tuple[str, ...]
    listed: bool = False
    task: str | None = None

    def __repr__(self) -> str:
        return self.bare if self.task is None else f"{{{self.task!r}: {self.bare}}}"

    @property
    def bare(self) -> str:
        """The alternatives as they are written, without the task."""
        return repr(list(self.alternatives)) if self.listed else repr(self.alternatives[0])

    @property
    def parts(self) -> "tuple[Pattern, ...]":
        """Patterns of single tasks that must all match: this one."""
        return (self,)

    def within(self, task: str | None) -> "Pattern":
        """Return the same alternatives as a pattern of a task; None: of labels that have only one."""
        return replace(self, task=task)

    def ends(self, path: Path, scheme: Scheme) -> tuple[int, ...]:
        """Levels of the path at which some alternative ends a match; empty if the label does not match."""
        _refuse_tasks(self)
        found = {k for text in self.alternatives for k in _ends(text, path, scheme)}
        return tuple(sorted(found))

    def check(self, table: LabelTable) -> None:
        """Raise if an alternative matches no label of the label set."""
        _refuse_tasks(self)
        for text in self.alternatives:
            if not any(_ends(text, path, table.scheme) for path in table.paths):
                raise RuleError(unknown_pattern(text, [table]))

    def matches_some(self, table: LabelTable) -> bool:
        """Whether some label matches."""
        return any(self.ends(path, table.scheme) for path in table.paths)


@dataclass(frozen=True)
class JointPattern:
    """Patterns of several tasks; a token matches where all of them do."""

    parts: tuple[Pattern, ...]

    task = None

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{part.task!r}: {part.bare}' for part in self.parts)}}}"

    def ends(self, path: Path, scheme: Scheme) -> tuple[int, ...]:
        """Raise: labels of one task cannot match."""
        _refuse_tasks(self)
        return ()

    def check(self, table: LabelTable) -> None:
        """Raise: labels of one task cannot match."""
        _refuse_tasks(self)


AnyPattern = Pattern | JointPattern
Patternish = str | Iterable[str] | Mapping[str, Any] | Pattern | JointPattern


def _refuse_tasks(pattern: AnyPattern) -> None:
    if pattern.task is not None or isinstance(pattern, JointPattern):
        raise RuleError(
            f"the pattern {pattern!r} names a task, but there is only one task here, which has no name; leave the task out."
        )


def as_pattern(pattern: Patternish, task: str | None = None) -> AnyPattern:
    """Read what a user wrote as a pattern; ``task`` is the task that ``task=`` names."""
    if isinstance(pattern, Mapping):
        return _joint_pattern(pattern, task)
    if task is not None and not (isinstance(task, str) and task):
        raise RuleError(f"task must be the name of a task; got {task!r}.")
    if isinstance(pattern, Pattern | JointPattern):
        if task is not None and pattern.task != task:
            raise RuleError(f"the pattern {pattern!r} cannot be of the task {task!r} as well; leave task= out.")
        return pattern
    listed = not isinstance(pattern, str)
    alternatives = (pattern,) if isinstance(pattern, str) or not isinstance(pattern, Iterable) else tuple(pattern)
    if not alternatives or not all(isinstance(text, str) and text for text in alternatives):
        raise RuleError(f"a label pattern must be a label's name or a list of names; got {pattern!r}.")
    return Pattern(alternatives, listed, task)


def _joint_pattern(pattern: Mapping[str, Any], task: str | None) -> AnyPattern:
    """Read ``{"ner": "person", "pos": "NOUN"}``."""
    if task is not None:
        raise RuleError(f"the pattern {dict(pattern)!r} names its tasks itself; leave task={task!r} out.")
    if not pattern or not all(isinstance(name, str) and name for name in pattern):
        raise RuleError(
            f"a pattern by task must be such as {{'ner': 'person', 'pos': 'NOUN'}}; got {dict(pattern)!r}."
        )
    parts = tuple(as_pattern(own, name) for name, own in pattern.items())
    if not all(isinstance(own, Pattern) for own in parts):
        raise RuleError(f"a pattern by task holds label names and lists of them, not dicts; got {dict(pattern)!r}.")
    return parts[0] if len(parts) == 1 else JointPattern(parts)  # type: ignore[arg-type]


def written(*patterns: AnyPattern) -> tuple[list[str], list[str]]:
    """How patterns are written in a call, and ``["task='ner'"]`` where that says the task of all of them."""
    tasks = {pattern.task for pattern in patterns}
    if len(tasks) != 1 or None in tasks:
        return [repr(pattern) for pattern in patterns], []
    return [own.bare for pattern in patterns for own in pattern.parts], [f"task={tasks.pop()!r}"]


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


def unknown_pattern(text: str, tables: Sequence[LabelTable]) -> str:
    """Say that a pattern matches no label, and what may have been meant."""
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    types = list(dict.fromkeys(name for table in tables for name in table.types))
    near = hint(text, names, f"known names are {', '.join(types[:8])}.")
    prefixed = any(table.scheme is Scheme.none and any(x[1:2] == "-" for x in table.labels) for table in tables)
    scheme = ' For labels such as "B-title" give the scheme ("BIO").' if prefixed else ""
    return f"the pattern {text!r} matches no label; {near}{scheme}"


# --- patterns as tables over a label set -----------------------------------------------------


def matches(pattern: AnyPattern, table: LabelTable) -> np.ndarray:
    """Which labels match, shape (m,)."""
    return np.array([bool(pattern.ends(path, table.scheme)) for path in table.paths], dtype=bool)


def start_counts(pattern: AnyPattern, table: LabelTable) -> np.ndarray:
    """Segments of the pattern that begin with label j after label i, shape (m + 1, m); row m: at the beginning."""
    counts = np.zeros(table.starts.shape[1:], dtype=np.int32)
    for j, path in enumerate(table.paths):
        for k in pattern.ends(path, table.scheme):
            counts[:, j] += table.starts[k, :, j]
    return counts


def end_counts(pattern: AnyPattern, table: LabelTable) -> np.ndarray:
    """Segments of the pattern in label i that do not go on in a next label j, shape (m, m)."""
    m = len(table)
    counts = np.zeros((m, m), dtype=np.int32)
    for i, path in enumerate(table.paths):
        for k in pattern.ends(path, table.scheme):
            counts[i] += ~table.continues[k, i]
    return counts
