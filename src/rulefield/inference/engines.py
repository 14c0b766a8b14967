"""Engines as data: one registry type for chains, segments, joint chains and graphs.

A family lists its engines in an ``Engines`` table. The table finds an engine by name, says which of them can read a
problem's rules, and gives the tests their parameters, so what an engine declares is what it is held to.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rulefield.encode.labels import nearest
from rulefield.exceptions import InputError

Run = TypeVar("Run", bound=Callable)


@dataclass(frozen=True)
class Engine(Generic[Run]):
    """A way to find the best labeling of a problem."""

    name: str  # what users write; words joined by underscores
    run: Run  # the engine; the family's entry point fixes its arguments
    exact: bool  # whether it always proves its answer when no limit stops it
    reads: frozenset[str]
    """Compiled forms of rules that it optimizes. A rule that has none of them is judged but not optimized, so an
    exact engine refuses it."""


def covers(reads: frozenset[str], forms: Iterable[frozenset[str]]) -> bool:
    """Whether every rule has a form that is read; an empty ``reads`` ignores what it cannot read."""
    return not reads or all(not reads.isdisjoint(offered) for offered in forms)


class Engines(dict[str, Engine[Run]]):
    """The engines of one family, by name, in the order in which they were given."""

    def __init__(self, family: str, engines: Iterable[Engine[Run]]):
        super().__init__((engine.name, engine) for engine in engines)
        self.family = family

    def find(self, name: str) -> Engine[Run]:
        """Return an engine by name; an unknown name is an error that names the nearest one."""
        if name in self:
            return self[name]
        raise InputError(f"engine {name!r} is unknown{nearest(name, self)}; {self.family} have {', '.join(self)}.")

    def choose(self, name: str, forms: Iterable[frozenset[str]] = ()) -> Engine[Run]:
        """Return an engine by name that reads every rule, if it claims a proof."""
        engine, forms = self.find(name), tuple(forms)
        if engine.exact and not covers(engine.reads, forms):
            able = [other.name for other in self.values() if other.exact and covers(other.reads, forms)]
            unread = next(offered for offered in forms if engine.reads.isdisjoint(offered))
            raise InputError(
                f"engine {name!r} does not read rules in the form {', '.join(sorted(unread)) or 'given'}; "
                f"engines that do: {', '.join(able) or 'none'}."
            )
        return engine
