"""Logic over compiled statements: product automata and the usual linear rows."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache

import numpy as np

from rulefield.problem.chain_rules import Forms, Presences
from rulefield.rules import logic
from rulefield.rules.chain.automata import State, TooLargeError, Truth, Values, build
from rulefield.rules.chain.rows import Affine, RowBuilder, total
from rulefield.rules.chain.statement import Statement


@dataclass(frozen=True)
class Nested(Statement):
    """A combination; its amount is 0 or 1."""

    kind: logic.Combination
    parts: tuple[Statement, ...]

    @property
    def depends_on_length(self) -> bool:  # type: ignore[override]
        """Whether a part does."""
        return any(part.depends_on_length for part in self.parts)

    @property
    def shape(self) -> Hashable:
        """The combination of its parts' shapes."""
        return self.kind.name, self.kind.number, *(part.shape for part in self.parts)

    def forms(self, n: int, what: str) -> Forms:
        """Return the product of the parts' automata; nothing if it is too large (rows are left)."""
        presences = self._presences()
        try:
            automaton = build(self.truth(n).automaton(), what, self.shape, n if self.depends_on_length else None)
        except TooLargeError:
            return Forms(presences=presences)
        return Forms(automaton=automaton, presences=presences)

    @property
    def presence(self) -> tuple[np.ndarray, bool] | None:
        """The opposite of a part's."""
        presences = self.parts[0].presence if self.kind.name == "not_" else None
        return None if presences is None else (presences[0], not presences[1])

    def _presences(self) -> Presences | None:
        """How many of its parts hold, if each asks for a label or forbids it."""
        if not self.kind.counts:
            return None
        presences = [presence for part in self.parts if (presence := part.presence) is not None]
        if not presences or len(presences) < len(self.parts):
            return None
        cells, wanted = zip(*presences)
        return Presences(np.stack(cells), np.array(wanted), *self.kind.bounds(len(self.parts)))

    def truth(self, n: int) -> Truth:
        """All parts side by side; settled as soon as their settled answers settle it."""
        parts = [part.truth(n) for part in self.parts]
        ends = np.cumsum([len(part.signals) for part in parts])
        readers = [(part, slice(end - len(part.signals), end)) for part, end in zip(parts, ends)]
        known = settler(self.kind)

        def settle(states: tuple[State, ...]) -> State:
            answer = known(states)
            return states if answer is None else answer

        @cache
        def moved(values: Values) -> list[tuple[int, Callable[[State, Values], State], Values]]:
            """Parts that a token with these values may change."""
            parted = [(k, part, values[cut]) for k, (part, cut) in enumerate(readers)]
            return [(k, part.read, some) for k, part, some in parted if not part.idles or any(some)]

        def step(states: State, values: Values) -> State:
            following = list(states)  # type: ignore[call-overload]
            for k, read, some in moved(values):
                following[k] = read(following[k], some)
            return settle(tuple(following))

        def holds(states: State) -> bool:
            return self.kind.decide(tuple(p.answer(s) for p, s in zip(parts, states)))  # type: ignore[call-overload]

        signals = tuple(signal for part in parts for signal in part.signals)
        idles = all(part.idles for part in parts)
        return Truth(signals, settle(tuple(part.start for part in parts)), step, holds, idles)

    def max_amount(self, token_class: np.ndarray) -> int:
        """0 or 1."""
        return 1

    def amount_rows(self, builder: RowBuilder) -> None:
        """1 - (it holds) <= slack."""
        builder.limit(1 - self.force(builder, True), 0, slack=True)

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """Push the truth down to the parts."""
        return logic.forced(
            self.kind,
            self.parts,
            truth,
            lambda part, wanted: part.force(builder, wanted),
            lambda number, variables: _at_least(builder, number, variables),
        )


def settler(kind: logic.Combination) -> Callable[[tuple[State, ...]], bool | None]:
    """Return the function that says, of the states of the parts, whether the combination is already certain.

    A part's state is ``True`` or ``False`` where its own answer is certain.
    """
    if kind.name == "not_":
        return lambda states: not states[0] if isinstance(states[0], bool) else None
    if kind.name == "implies":
        return _implied
    if kind.name == "iff":
        return lambda states: states[0] is states[1] if all(isinstance(s, bool) for s in states) else None
    low, high = kind.bounds(len(kind.parts))

    def counted(states: tuple[State, ...]) -> bool | None:
        sure, possible = states.count(True), len(states) - states.count(False)
        if sure > high or possible < low:
            return False
        return True if sure >= low and possible <= high else None

    return counted


def _implied(states: tuple[State, ...]) -> bool | None:
    a, b = states
    if a is False or b is True:
        return True
    return False if a is True and b is False else None


def _at_least(builder: RowBuilder, number: int, wanted: list[Affine]) -> Affine:
    """Return a 0/1 variable that can be 1 only if ``number`` of the wanted can."""
    if number <= 0 or number > len(wanted):
        return Affine(constant=float(number <= 0))
    if len(wanted) == 1:
        return wanted[0]
    if number == len(wanted):
        return builder.all_positive(*wanted)
    chosen = builder.auxiliary()
    builder.limit(float(number) * chosen, total(wanted))
    return chosen
