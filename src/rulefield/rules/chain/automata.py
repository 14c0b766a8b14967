"""Automata as functions, and the compact tables that they are turned into.

An automaton reads *signals*: tallies whose value at the current token it is given. Its states are any hashable
values. Building explores the states that can be reached, over letters: sets of (token class, label) pairs that no
signal tells apart.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.chain_rules import Automaton, Tally

MAX_STATES = 10_000

State = Hashable
Values = tuple[int, ...]
Arcs = tuple[tuple[State, int], ...]


class TooLargeError(RuleError):
    """An automaton has too many states."""


@dataclass(frozen=True)
class LazyAutomaton:
    """An automaton, given by functions, that adds up an amount; it guesses if it has several ``starts``.

    ``step`` gives next states and their amounts; ``end`` the amount of ending in a state, -1 where that is not allowed.
    """

    signals: tuple[Tally, ...]
    starts: tuple[State, ...]
    step: Callable[[State, Values], Arcs]
    end: Callable[[State], int]


@dataclass(frozen=True)
class Truth:
    """A deterministic automaton that decides whether a statement holds.

    A state that is ``True`` or ``False`` means that nothing to come can change the answer. It ``idles`` if a token at
    which all its signals are 0 changes no state.
    """

    signals: tuple[Tally, ...]
    start: State
    step: Callable[[State, Values], State]
    holds: Callable[[State], bool]
    idles: bool = True

    def read(self, state: State, values: Values) -> State:
        """Next state."""
        return state if isinstance(state, bool) else self.step(state, values)

    def answer(self, state: State) -> bool:
        """Whether the statement holds if the sequence ends here."""
        return state if isinstance(state, bool) else self.holds(state)

    def automaton(self) -> LazyAutomaton:
        """Return the automaton whose amount is 1 where the statement fails."""
        return LazyAutomaton(
            self.signals,
            (self.start,),
            lambda state, values: ((self.read(state, values), 0),),
            lambda state: int(not self.answer(state)),
        )


@dataclass(frozen=True)
class Letters:
    """The alphabet of an automaton: the ``letter`` (n_classes, n_labels) of a token.

    ``values`` (n_letters, n_memories, n_signals) are those of signals when a letter is read with a memory of the label
    before, and ``memory`` (n_letters,) is what a letter leaves behind. The automaton begins with memory 0.
    """

    letter: np.ndarray
    values: np.ndarray
    memory: np.ndarray


def letters_of(signals: tuple[Tally, ...]) -> Letters:
    """Merge (class, label) pairs that no signal tells apart, and labels that are alike as the label before."""
    n_classes, m = signals[0].node.shape
    columns = [np.stack([t.node if t.first is None else t.first for t in signals], axis=-1)]
    edges = [t.edge.transpose(1, 0, 2).reshape(m, -1) for t in signals if t.edge is not None]
    if edges:
        examples, after = distinct_rows(np.hstack(edges))
    else:
        examples, after = np.zeros(1, dtype=int), np.zeros(m, dtype=int)
    for i in examples:
        parts = [t.node if t.edge is None else t.node + t.edge[:, i, :] for t in signals]
        columns.append(np.stack(parts, axis=-1))
    if len(columns) == 2 and (columns[0] == columns[1]).all():
        columns.pop(0)
    values = np.stack(columns, axis=2)
    memory = np.broadcast_to(after + (len(columns) - len(examples)), (n_classes, m))
    keys = np.concatenate([values.reshape(n_classes * m, -1), memory.reshape(-1, 1)], axis=1)
    where, letter = distinct_rows(keys)
    order = np.lexsort(keys[where].T)  # so that rules that differ in their labels alone have the same letters
    where, letter = where[order], np.argsort(order)[letter]
    flat = values.reshape(n_classes * m, len(columns), len(signals))
    return Letters(letter.reshape(n_classes, m).astype(np.uint16), flat[where], memory.reshape(-1)[where])


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First place of each distinct row, and for each row the number of the distinct row that it equals.

    ``np.unique(axis=0)`` does the same by sorting, several times slower for tables of this size.
    """
    number: dict[bytes, int] = {}
    ids = np.array([number.setdefault(row.tobytes(), len(number)) for row in np.ascontiguousarray(rows)], dtype=int)
    _, first = np.unique(ids, return_index=True)
    return first, ids


def build(automaton: LazyAutomaton, what: str, shape: Hashable, n: int | None = None) -> Automaton:
    """Explore an automaton and return its tables, trimmed and with equivalent states merged.

    Automata of one ``shape`` do the same where their signals have the same values: they are explored once. Only states
    that can be reached within ``n`` tokens are explored; if they are more than ``MAX_STATES``, the error names the rule
    (``what``).
    """
    letters = letters_of(automaton.signals)
    values = letters.values
    key = shape, n, MAX_STATES, values.shape, values.tobytes(), letters.memory.tobytes()
    packed = _packed(_Unexplored(key, automaton, letters, n))
    if packed is None:
        raise TooLargeError(
            f"the rule {what} needs an automaton of more than {MAX_STATES} states; split it into several "
            f"rules, or count fewer things inside logic."
        )
    return replace(packed, letter=letters.letter)


@dataclass(frozen=True)
class _Unexplored:
    """An automaton to explore; ``key`` says all that its tables depend on, but for the names of letters."""

    key: Hashable
    automaton: LazyAutomaton = field(compare=False)
    letters: Letters = field(compare=False)
    n: int | None = field(compare=False)


@lru_cache(maxsize=256)
def _packed(task: _Unexplored) -> Automaton | None:
    """Return the tables of an automaton; None if it has too many states."""
    graph = _explore(task.automaton, task.letters, task.n)
    return None if graph is None else _pack(_merge(_trim(graph)), task.letters)


@dataclass
class _Graph:
    """Arcs[state][letter] is a list of (next state, amount); the first ``n_initial`` states are initial."""

    arcs: list[list[list[tuple[int, int]]]]
    initial: list[int]
    final: list[int]


def _explore(automaton: LazyAutomaton, letters: Letters, n: int | None) -> _Graph | None:
    number: dict[tuple[int, State], int] = {}
    queue: deque[tuple[int, int, State]] = deque()

    def visit(depth: int, state: tuple[int, State]) -> int:
        known = number.get(state)
        if known is None:
            known = number[state] = len(number)
            queue.append((depth, *state))
        return known

    initial = [visit(0, (0, start)) for start in automaton.starts]
    alphabet = [
        ([tuple(row) for row in rows], kept) for rows, kept in zip(letters.values.tolist(), letters.memory.tolist())
    ]
    arcs: list[list[list[tuple[int, int]]]] = []
    final = []
    while queue:
        if len(number) > MAX_STATES:
            return None
        depth, memory, state = queue.popleft()
        final.append(automaton.end(state))
        read = [(automaton.step(state, values[memory]), kept) for values, kept in alphabet] if depth != n else []
        following = [[(visit(depth + 1, (kept, to)), amount) for to, amount in steps] for steps, kept in read]
        arcs.append(following or [[] for _ in alphabet])
    return _Graph(arcs, initial, final)


def _trim(graph: _Graph) -> _Graph:
    """Drop states from which no end can be reached."""
    backward: list[set[int]] = [set() for _ in graph.arcs]
    for s, by_letter in enumerate(graph.arcs):
        for row in by_letter:
            for to, _ in row:
                backward[to].add(s)
    alive = {s for s, amount in enumerate(graph.final) if amount >= 0}
    stack = list(alive)
    while stack:
        for s in backward[stack.pop()] - alive:
            alive.add(s)
            stack.append(s)
    keep = [s for s in range(len(graph.arcs)) if s in alive]
    number = {s: i for i, s in enumerate(keep)}
    arcs = [[[(number[to], a) for to, a in row if to in alive] for row in graph.arcs[s]] for s in keep]
    return _Graph(arcs, [number[s] for s in graph.initial if s in alive], [graph.final[s] for s in keep])


def _merge(graph: _Graph) -> _Graph:
    """Merge states that behave alike (Moore's refinement; on unambiguous automata it keeps runs unique)."""
    n = len(graph.arcs)
    most = max([1, *(len(row) for by_letter in graph.arcs for row in by_letter)])
    rows = [[*row, *[(n, 0)] * (most - len(row))] for by_letter in graph.arcs for row in by_letter]
    to, amount = np.array(rows, dtype=np.int64).reshape(n, -1, most, 2).transpose(3, 0, 1, 2)
    base = int(amount.max(initial=0)) + 1
    examples, block = distinct_rows(np.array(graph.final)[:, None])
    n_blocks = 0
    while len(examples) > n_blocks:
        n_blocks = len(examples)
        reached = np.sort(np.append(block, -1)[to] * base + amount, axis=2)
        examples, block = distinct_rows(np.column_stack([block, reached.reshape(n, -1)]))
    arcs = [[[(int(block[to]), a) for to, a in row] for row in graph.arcs[s]] for s in examples]
    return _Graph(arcs, block[graph.initial].tolist(), [graph.final[s] for s in examples])


def _pack(graph: _Graph, letters: Letters) -> Automaton:
    rows = [row for by_letter in graph.arcs for row in by_letter]
    initial = np.full(len(graph.arcs), -1, dtype=np.int32)
    initial[graph.initial] = 0
    return Automaton(
        letter=letters.letter,
        n_letters=len(letters.memory),
        arc_ptr=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.uint32),
        arc_to=np.array([to for row in rows for to, _ in row], dtype=np.uint32),
        arc_amount=np.array([amount for row in rows for _, amount in row], dtype=np.int32),
        initial=initial,
        final=np.array(graph.final, dtype=np.int32),
    )
