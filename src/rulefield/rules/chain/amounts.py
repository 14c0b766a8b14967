"""By how much many labelings break many rules: segment counts in one table, automata in one compiled pass.

This is what finding and learning rules ask all the time: thousands of candidates, on tens of thousands of labelings. Rules
that count share one pass over the labels of each labeling (a sparse matrix over its steps, whose columns are the different
tallies); automata are run one after the other over all labelings. Nothing is done rule by rule and labeling by labeling in
Python.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from rulefield.exceptions import RuleError
from rulefield.kernels.chain.amounts import Automata, Steps, automaton_amounts, counted_amounts, nonzeros
from rulefield.parallel import Threads
from rulefield.problem.chain_rules import Automaton, Tally
from rulefield.rules.chain.automata import MAX_STATES
from rulefield.rules.chain.classes import ClassSpace, Remembered
from rulefield.rules.chain.comparisons import rounded_up
from rulefield.rules.chain.statement import Forms

CELLS_AT_ONCE = 2_000_000
"""Amounts (labelings x rules) that are held densely at a time: what fits in a processor's cache, or nearly."""
MAX_REMEMBERED = 20_000
FormsOf = Callable[[int], Forms]


class AmountReader:
    """Reads the amounts of rules over one label set, for many labelings of many inputs.

    Parameters
    ----------
    spaces : sequence of ClassSpace
        What each rule can tell of tokens.
    grows : sequence of bool
        Rules whose forms depend on the length of the input (some nested logic).
    forms : sequence of callables
        For each rule what gives its forms for inputs of n tokens.
    n_labels : int
    """

    def __init__(self, spaces: Sequence[ClassSpace], grows: Sequence[bool], forms: Sequence[FormsOf], n_labels: int):
        self.n_rules, self.m, self._forms = len(spaces), n_labels, forms
        self._spaces = list(dict.fromkeys([ClassSpace(), *spaces]))
        self._reads = any(space.reads_tokens for space in self._spaces)
        self._local = all(space.is_local for space in self._spaces)
        number = {space: s for s, space in enumerate(self._spaces)}
        self._space = [number[space] for space in spaces]
        fixed = [r for r in range(self.n_rules) if not grows[r]]
        self._growing = [r for r in range(self.n_rules) if grows[r]]
        self._steps = _steps([(r, self._space[r], forms[r](0)) for r in fixed], self._spaces, n_labels)
        self._automata = _automata([(r, self._space[r], forms[r](0)) for r in fixed])
        self._grown: dict[int, Automata] = {}
        self._classes: dict[Hashable, np.ndarray] = {}

    def __call__(
        self,
        inputs: Sequence[Any],
        labelings: Sequence[np.ndarray],
        owner: np.ndarray | None = None,
        threads: Threads | None = None,
    ) -> csr_matrix:
        """Amounts (n_labelings, n_rules); ``owner[j]`` is the input of labeling j (by default input j)."""
        owner = np.arange(len(labelings)) if owner is None else np.asarray(owner, dtype=np.int64)
        sizes = np.array([x if isinstance(x, int) else len(x) for x in inputs], dtype=np.int64)
        lengths = np.array([len(labels) for labels in labelings], dtype=np.int64)
        wrong = np.flatnonzero(lengths != sizes[owner])
        if len(wrong):
            j = int(wrong[0])
            raise RuleError(f"every token needs a label; {sizes[owner[j]]} tokens have {lengths[j]} labels.")
        labels = np.concatenate(
            [np.asarray(labels, dtype=np.uint64) for labels in labelings] or [np.zeros(0, np.uint64)]
        )
        flat = self._laid(inputs, sizes, labels, np.concatenate([[0], np.cumsum(lengths)]), owner)
        done = (threads or Threads(1)).map(
            lambda some: _sparse(self._part(flat, lengths, some)), self._parts(len(lengths))
        )
        return vstack(done, format="csr") if done else csr_matrix((0, self.n_rules))

    def broken(self, classes: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Whether each labeling breaks any rule, (n,); labeling j of input j is ``labels[offsets[j] : offsets[j + 1]]``.

        ``classes`` are those that :meth:`classes_of_all` gives for the inputs.
        """
        sizes, starts = np.diff(offsets), offsets.astype(np.uint64)
        flat = _Flat(labels.astype(np.uint64), starts, starts[:-1], classes, np.uint64(self.m))
        parts = [self._part(flat, sizes, some).any(axis=1) for some in self._parts(len(sizes))]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def _laid(
        self, inputs: Sequence[Any], sizes: np.ndarray, labels: np.ndarray, offsets: np.ndarray, owner: np.ndarray
    ) -> "_Flat":
        return _Flat(
            labels,
            offsets.astype(np.uint64),
            np.concatenate([[0], np.cumsum(sizes)])[owner].astype(np.uint64),
            self.classes_of_all(inputs, sizes),
            np.uint64(self.m),
        )

    def _parts(self, n: int) -> list[np.ndarray]:
        """Numbers of labelings whose amounts are held at a time."""
        step = max(1, CELLS_AT_ONCE // max(self.n_rules, 1))
        return [np.arange(low, min(low + step, n)) for low in range(0, n, step)]

    def by_rule(self, classes: np.ndarray) -> np.ndarray:
        """Return classes of tokens in each space, (n_spaces, n_tokens), as those of each rule, (n_rules, n_tokens)."""
        return classes[self._space]

    def classes_of_all(self, inputs: Sequence[Any], sizes: np.ndarray) -> np.ndarray:
        """Class of each token of all inputs in each space, uint16 (n_spaces, n_tokens)."""
        if not len(inputs):
            return np.zeros((len(self._spaces), 0), dtype=np.uint16)
        return np.ascontiguousarray(self._joined_classes(inputs, sizes), dtype=np.uint16)

    def _joined_classes(self, inputs: Sequence[Any], sizes: np.ndarray) -> np.ndarray:
        if not self._local or (self._reads and any(isinstance(x, int) for x in inputs)):
            return np.concatenate([self._classes_of(x) for x in inputs], axis=1)
        meets = Remembered([token for tokens in inputs for token in tokens]) if self._reads else no_tokens
        owner = np.repeat(np.arange(len(sizes)), sizes)
        return np.array([space.joined_classes(owner, meets) for space in self._spaces])

    def _part(self, flat: "_Flat", lengths: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Amounts of some labelings, (len(some), n_rules)."""
        out = np.zeros((len(some), self.n_rules), dtype=np.int32)
        numbers = some.astype(np.uint64)
        if len(self._steps.rule):
            counted_amounts(flat.labels, flat.start, flat.token, flat.classes, flat.m, self._steps, numbers, out)
        if len(self._automata.rule):
            _run(flat, self._automata, numbers, out)
        if self._growing:
            keys = np.array([rounded_up(n) for n in lengths[some].tolist()], dtype=np.int64)
            for key in np.unique(keys).tolist():
                here = np.flatnonzero(keys == key)
                own = np.zeros((len(here), self.n_rules), dtype=np.int32)
                _run(flat, self._automata_for(key), numbers[here], own)
                out[here] += own
        return out

    def _automata_for(self, key: int) -> Automata:
        if key not in self._grown:
            self._grown[key] = _automata([(r, self._space[r], self._forms[r](key)) for r in self._growing])
        return self._grown[key]

    def _classes_of(self, tokens: Any) -> np.ndarray:
        """Class of each token in each space, (n_spaces, n)."""
        if isinstance(tokens, int) or not self._reads:
            n = tokens if isinstance(tokens, int) else len(tokens)
            return np.array([space.classes(n, no_tokens) for space in self._spaces])
        key = hashable(tokens)
        found = None if key is None else self._classes.get(key)
        if found is None:
            meets = Remembered(tokens)
            found = np.array([space.classes(len(tokens), meets) for space in self._spaces])
            if key is not None:
                if len(self._classes) >= MAX_REMEMBERED:
                    self._classes.clear()
                self._classes[key] = found
        return found


class _Flat(NamedTuple):
    """Labelings one after the other, as kernels read them (see :mod:`rulefield.kernels.chain.amounts`)."""

    labels: np.ndarray
    start: np.ndarray
    token: np.ndarray
    classes: np.ndarray
    m: np.uint64


def _run(flat: _Flat, automata: Automata, some: np.ndarray, out: np.ndarray) -> None:
    most_states = int(np.diff(automata.state.astype(np.int64)).max(initial=1))
    automaton_amounts(flat.labels, flat.start, flat.token, flat.classes, flat.m, automata, most_states, some, out)


def hashable(tokens: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return tokens as a key; None if they cannot be one (dicts and lists of features)."""
    key = tuple(tokens)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def no_tokens(condition: Any) -> np.ndarray:
    """Refuse a condition on tokens that are not known."""
    raise RuleError(f"{condition!r} asks about tokens, but only the number of tokens is known here.")


def _sparse(table: np.ndarray) -> csr_matrix:
    """Return a dense table (n, r) as sparse rows of floats."""
    size = int(np.count_nonzero(table))
    pointer, column, value = np.zeros(len(table) + 1, np.int64), np.empty(size, np.int64), np.empty(size)
    nonzeros(table, pointer, column, value)
    return csr_matrix((value, column, pointer), shape=table.shape)


# --- rules that count -------------------------------------------------------------------------------


def _pieces(forms: Forms) -> list[tuple[Tally, int]]:
    """Return the tallies whose excesses over bounds make up the amount; none where an automaton has to tell."""
    if forms.tally is not None:
        return [(forms.tally, 0)]  # its terms are never negative
    return [(counter.tally, counter.bound) for counter in forms.counters]


def _steps(rules: Sequence[tuple[int, int, Forms]], spaces: Sequence[ClassSpace], m: int) -> Steps:
    counters: list[tuple[int, int, int]] = []
    different: dict[Hashable, int] = {}
    tallies: list[tuple[int, Tally]] = []
    for rule, space, forms in rules:
        for tally, bound in _pieces(forms):
            key = (space, *(None if a is None else a.tobytes() for a in (tally.node, tally.edge, tally.first)))
            if key not in different:
                different[key] = len(tallies)
                tallies.append((space, tally))
            counters.append((rule, different[key], bound))
    size = np.array([space.n_classes * m for space in spaces], dtype=np.int64)
    edges = np.zeros(len(spaces), dtype=bool)
    edges[[space for space, tally in tallies if tally.edge is not None]] = True
    rows = 2 * size + np.where(edges, size * m, 0)
    base = np.concatenate([[0], np.cumsum(rows)])
    entries = [np.zeros((3, 0), dtype=np.int64)]
    for number, (space, tally) in enumerate(tallies):
        first = tally.node if tally.first is None else tally.first
        for table, offset in ((tally.node, 0), (first, size[space]), (tally.edge, 2 * size[space])):
            if table is not None:
                at = np.flatnonzero(table)
                entries.append(
                    np.array([base[space] + offset + at, np.full(len(at), number), table.ravel()[at]], dtype=np.int64)
                )
    row, column, value = np.concatenate(entries, axis=1)
    order = np.argsort(row, kind="stable")
    rules_of, counted, bounds = np.array(counters, dtype=np.int64).reshape(-1, 3).T
    return Steps(
        base=base[:-1].astype(np.uint64),
        size=size.astype(np.uint64),
        edges=edges,
        pointer=np.searchsorted(row[order], np.arange(base[-1] + 1)).astype(np.uint64),
        tally=column[order].astype(np.uint64),
        value=value[order].astype(np.int32),
        rule=np.ascontiguousarray(rules_of).astype(np.uint64),
        counted=np.ascontiguousarray(counted).astype(np.uint64),
        bound=np.ascontiguousarray(bounds),
        n_tallies=len(tallies),
    )


# --- rules that automata read -----------------------------------------------------------------------


def _automata(rules: Sequence[tuple[int, int, Forms]]) -> Automata:
    if any(forms == Forms() for _, _, forms in rules):
        raise RuleError(
            f"a rule needs an automaton of more than {MAX_STATES} states, so its amounts cannot be measured in bulk; "
            f"split it into several rules, or count fewer things inside logic."
        )
    read: list[tuple[int, int, Automaton]] = [
        (rule, space, forms.automaton)
        for rule, space, forms in rules
        if not _pieces(forms) and forms.automaton is not None
    ]
    every = [automaton for _, _, automaton in read]
    arcs = np.cumsum([0] + [len(a.arc_to) for a in every])
    return Automata(
        rule=np.array([rule for rule, _, _ in read], dtype=np.uint64),
        space=np.array([space for _, space, _ in read], dtype=np.uint64),
        table=_offsets([a.letter.size for a in every])[:-1],
        letter=_joined([a.letter.ravel() for a in every], np.uint16),
        letters=np.array([a.n_letters for a in every], dtype=np.uint64),
        state=_offsets([a.n_states for a in every]),
        cell=_offsets([len(a.arc_ptr) for a in every])[:-1],
        initial=_joined([a.initial for a in every], np.int32),
        final=_joined([a.final for a in every], np.int32),
        pointer=_joined([a.arc_ptr.astype(np.int64) + first for a, first in zip(every, arcs)], np.uint64),
        to=_joined([a.arc_to for a in every], np.uint64),
        amount=_joined([a.arc_amount for a in every], np.int32),
        certain=np.array([_is_certain(a) for a in every], dtype=bool),
        begin=np.array([np.argmax(a.initial) for a in every], dtype=np.uint64),
    )


def _is_certain(automaton: Automaton) -> bool:
    """Whether there is one way to begin, at no amount, one arc for each state and letter, and every state may end."""
    begins = automaton.initial >= 0
    one_each = bool((np.diff(automaton.arc_ptr.astype(np.int64)) == 1).all())
    return one_each and begins.sum() == 1 and automaton.initial[begins][0] == 0 and bool((automaton.final >= 0).all())


def _offsets(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)


def _joined(arrays: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, dtype=kind)
