"""Rules as flat tables: every counter and automaton of a problem, one after the other."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.kernels.lattice.machine import Machine
from rulefield.kernels.lattice.rule_tables import RuleTables, fold_local
from rulefield.locks import held_over_forks
from rulefield.problem.amounts import Evaluator, joined, joined_automata, spaces_of
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import Automaton, CompiledRule, Counter, Tally

Kind = TypeVar("Kind")

MANY_STATES = 1_000
"""Stands for the number of states of a counter that may rise and fall."""


class Term(NamedTuple):
    """A piece of a rule that engines treat at once: counters ``low : high``, or (low == high) its automaton.

    ``states`` is about how many states a search must tell apart.
    """

    rule: int
    low: int
    high: int
    states: int


class Terms(tuple[Term, ...]):
    """All terms of some rules."""

    @cached_property
    def rows(self) -> np.ndarray:
        """The same for kernels: (terms, 4)."""
        return np.array(self, dtype=np.int64).reshape(-1, 4)


@dataclass(frozen=True, eq=False)
class SharedForms:
    """What rules with the same forms share: the same object for all of them while one is in use."""

    tables: RuleTables
    terms: Terms
    offered: frozenset[frozenset[str]]
    """The sets of compiled forms that rules offer, each set once: what an engine must read."""
    folds: bool
    """Whether some rules are folded into the potentials."""
    rows_only: tuple[int, ...]
    """Places of the rules that are known by their rows only: kernels take them to cost nothing."""
    rules: tuple[CompiledRule, ...]
    n_labels: int

    machines: dict[tuple, Machine] = field(default_factory=dict, repr=False)
    """Machines of the rules for sums over labelings, by weights and kinds of tokens."""

    @cached_property
    def evaluator(self) -> Evaluator:
        """Reads the amounts of the rules, for checks of what engines claim."""
        return Evaluator(self.rules, spaces_of(self.rules, [self.n_labels] * len(self.rules)))


class Flat(NamedTuple):
    """Flat forms of rules, and the rules themselves: holding them keeps their ids, the keys of the caches, their own."""

    tables: RuleTables
    rules: tuple[CompiledRule, ...]
    classes: np.ndarray
    """Token classes, uint16 (rules, n)."""
    caps: np.ndarray
    """Largest dual of each counter, float64 (counters,): the weight of its rule, shared out where it is paid once."""
    heaviest: float
    """Largest weight of a soft rule."""
    shared: SharedForms
    together: "Flat | None"
    """Rules that cost every labeling the same, those as one that can be said together; None where there are none."""

    def with_classes(self, classes: np.ndarray) -> "Flat":
        """Return the flat form for another input, whose tokens have these classes, uint16 (rules, n).

        ``rules`` stay those of this input: it is for engines that read tables only, and not for soft rules that are paid
        once, whose caps depend on the input.
        """
        together = self.together
        if together is not None:
            place = {id(rule.token_class): r for r, rule in enumerate(self.rules)}
            own = [place[id(rule.token_class)] for rule in together.rules]
            together = together._replace(classes=classes[own])
        return self._replace(classes=classes, together=together)


class Cache(Generic[Kind]):
    """The flat forms used last, by key; safe in threads."""

    def __init__(self, size: int):
        self.size = size
        self._found: OrderedDict[tuple, Kind] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple) -> Kind | None:
        """Return what was put under a key, or None."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: tuple, found: Kind) -> Kind:
        """Keep something, dropping what was used longest ago; return it."""
        with self._lock:
            self._found[key] = found
            while len(self._found) > self.size:
                self._found.popitem(last=False)
        return found


_by_rules: Cache[Flat] = Cache(256)  # the very same rules: inputs of one length share them
_joints: Cache[tuple[Callable[[CompiledRule], CompiledRule], list[CompiledRule]]] = Cache(1024)
_by_forms: Cache[SharedForms] = Cache(64)  # other prices or other lengths, the same tables
for _kept in (_by_rules, _joints, _by_forms):
    held_over_forks(_kept._lock)


def _join(rules: tuple[CompiledRule, ...]) -> tuple[CompiledRule, ...]:
    """Make one rule of those that can be said together."""
    groups: dict[tuple, list[CompiledRule]] = {}
    for rule in rules:
        if rule.joinable is not None and rule.weight != 0.0 and (rule.weight == np.inf or not rule.once):
            key = rule.joinable.joint_key(rule.weight == np.inf), rule.weight, id(rule.token_class)
            groups.setdefault(key, []).append(rule)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return rules
    member = {id(rule) for group in several for rule in group}
    return tuple(rule for rule in rules if id(rule) not in member) + tuple(map(_joint, several))


def _joint(group: list[CompiledRule]) -> CompiledRule:
    """One rule for several; its tables are made once for all inputs."""
    hard = group[0].weight == np.inf
    key = (hard, *(id(rule.form or rule) for rule in group))
    found = _joints.get(key)
    if found is None:
        said = [rule.joinable for rule in group if rule.joinable is not None]
        found = _joints.put(key, (said[0].joined(said[1:], hard), group))
    return found[0](group[0])


def flatten(rules: tuple[CompiledRule, ...], m: int) -> Flat:
    """Return the flat form of rules over m labels; tables are shared between calls with equal forms."""
    key = (m, *map(id, rules))
    found = _by_rules.get(key)
    if found is None:
        weight = np.array([rule.weight for rule in rules], dtype=np.float64)
        shared = _flat_forms(rules, m)
        tables = shared.tables._replace(weight=weight)
        classes = np.array([rule.token_class for rule in rules], dtype=np.uint16)
        heaviest = float(weight.max(initial=0.0, where=weight < np.inf))
        joined = _join(rules)
        together = None if joined is rules else flatten(joined, m)
        found = _by_rules.put(key, Flat(tables, rules, classes, _caps(rules, tables), heaviest, shared, together))
    return found


def _caps(rules: tuple[CompiledRule, ...], tables: RuleTables) -> np.ndarray:
    caps = tables.weight[tables.counter_rule]
    if tables.once.any():
        largest = np.array([max(rule.max_amount, 1) for rule in rules], dtype=np.float64)
        soft_once = tables.once & np.isfinite(tables.weight)
        caps = caps / np.where(soft_once, largest, 1.0)[tables.counter_rule]
    caps[tables.local[tables.counter_rule]] = 0.0
    return caps


def _flat_forms(rules: tuple[CompiledRule, ...], m: int) -> SharedForms:
    key = (m, *((r.form or _ids(r), r.weight == np.inf, r.once) for r in rules))
    found = _by_forms.get(key)
    if found is None:
        tables, terms = _build(rules)
        offered, folds = frozenset(map(_offered, rules)), bool(tables.local.any())
        rows_only = tuple(r for r, rule in enumerate(rules) if rule.find_amount is not None)
        found = _by_forms.put(key, SharedForms(tables, terms, offered, folds, rows_only, rules, m))
    return found


def _ids(rule: CompiledRule) -> tuple:
    return id(rule.tally), id(rule.automaton), *((id(counter.tally), counter.bound) for counter in rule.counters)


def _offered(rule: CompiledRule) -> frozenset[str]:
    """Names of the forms that a rule was compiled to."""
    given = {
        "tally": rule.tally is not None,
        "counters": bool(rule.counters),
        "automaton": rule.automaton is not None,
    }
    return frozenset(name for name, there in given.items() if there) | {"rows"}


def _is_local(rule: CompiledRule) -> bool:
    """Whether a rule can be folded into the potentials: a plain sum, paid by the unit, or hard and never negative."""
    if rule.tally is None:
        return False
    if rule.weight != np.inf:
        return not rule.once
    tables = (rule.tally.node, rule.tally.edge, rule.tally.first)
    return all(table is None or table.min(initial=0) >= 0 for table in tables)


def _reader(rule: CompiledRule) -> tuple[tuple[Counter, ...], Automaton | None]:
    """Choose the form that engines read a rule by: counters, or an automaton."""
    if rule.tally is not None:
        return (Counter(rule.tally, 0),), None
    if rule.counters or rule.automaton is not None or rule.find_amount is not None:
        return rule.counters, None if rule.counters else rule.automaton
    raise RuleError(f"compiled rule {rule.rule} has neither a tally, nor counters, nor an automaton; give it one.")


def _build(rules: tuple[CompiledRule, ...]) -> tuple[RuleTables, Terms]:
    read = [_reader(rule) for rule in rules]
    ends = np.cumsum([0] + [len(counters) for counters, _ in read])
    local = [_is_local(rule) for rule in rules]
    tables = _tables(rules, read, ends, local)
    terms: list[Term] = []
    for r, (rule, (counters, automaton), low, high) in enumerate(zip(rules, read, ends.tolist(), ends[1:].tolist())):
        if local[r] or rule.find_amount is not None:
            continue
        if automaton is not None:
            terms.append(Term(r, low, high, automaton.n_states))
        else:
            whole = rule.once and rule.weight != np.inf
            for begin, end in [(0, len(counters))] if whole else _pieces(counters):
                states = sum(_states(counter) for counter in counters[begin:end])
                terms.append(Term(r, low + begin, low + end, states))
    return tables, Terms(terms)


def _states(counter: Counter) -> int:
    """About how many values of a running sum matter: few if it only rises or only falls."""
    low, high = counter.tally.range
    return MANY_STATES if low < 0 < high else abs(counter.bound) + 1


def _pieces(counters: tuple[Counter, ...]) -> list[tuple[int, int]]:
    """Counters that are treated at once: each alone, but the two of an equation together: one running sum tells both."""
    found: list[tuple[int, int]] = []
    for k, counter in enumerate(counters):
        if found and found[-1] == (k - 1, k) and _are_opposite(counters[k - 1].tally, counter.tally):
            found[-1] = k - 1, k + 1
        else:
            found.append((k, k + 1))
    return found


def _are_opposite(a: Tally, b: Tally) -> bool:
    """Whether one sum is always minus the other."""
    pairs = ((a.node, b.node), (a.edge, b.edge), (a.first, b.first))
    return all(
        one is other is None
        or (one is not None and other is not None and one.shape == other.shape and bool((one == -other).all()))
        for one, other in pairs
    )


class _Store:
    """Tables one after the other."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self.size = 0

    def put(self, table: np.ndarray) -> int:
        """Keep a table; return where it begins."""
        self.parts.append(table.ravel())
        self.size += table.size
        return self.size - table.size


def _tables(
    rules: tuple[CompiledRule, ...],
    read: list[tuple[tuple[Counter, ...], Automaton | None]],
    ends: np.ndarray,
    local: list[bool],
) -> RuleTables:
    counters = [counter for own, _ in read for counter in own]
    automata = [automaton for _, automaton in read if automaton is not None]
    reads = np.array([automaton is not None for _, automaton in read], dtype=np.bool_)
    tallies, node, edge = [counter.tally for counter in counters], _Store(), _Store()
    node_at = [node.put(tally.node) for tally in tallies]
    low, high = _ints([tally.range for tally in tallies]).reshape(-1, 2).T
    return RuleTables(
        weight=np.array([rule.weight for rule in rules], dtype=np.float64),
        once=np.array([rule.once for rule in rules], dtype=np.bool_),
        local=np.array(local, dtype=np.bool_),
        sure=np.zeros(len(rules), dtype=np.int64),
        rule_counter=_ints(ends),
        rule_automaton=np.where(reads, np.cumsum(reads) - 1, -1),
        counter_rule=np.repeat(np.arange(len(rules)), np.diff(ends)),
        counter_bound=_ints([counter.bound for counter in counters]),
        counter_classes=_ints([len(tally.node) for tally in tallies]),
        counter_plain=np.array([len(t.node) == 1 and t.edge is None and t.first is None for t in tallies], np.bool_),
        counter_top=np.maximum(high, -low),
        counter_fall=np.maximum(-low, 0),
        node_at=_ints(node_at),
        first_at=_ints([at if t.first is None else node.put(t.first) for at, t in zip(node_at, tallies)]),
        edge_at=_ints([-1 if t.edge is None else edge.put(t.edge) for t in tallies]),
        node=joined(node.parts, np.int32),
        edge=joined(edge.parts, np.int32),
        **joined_automata(automata)._asdict(),
    )


def _ints(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def fold(potentials: ChainPotentials, flat: Flat) -> tuple[np.ndarray, np.ndarray, float]:
    """Return new unary scores (n, m) and steps [to, from] (k, m, m), local rules inside, and what these cost in any case."""
    n, m = potentials.unary.shape
    unary = np.array(potentials.unary, dtype=np.float64, order="C")
    pairwise = np.asarray(potentials.pairwise_stack, dtype=np.float64)
    paid = 0.0
    if flat.shared.folds:
        pairwise = pairwise.copy()
        if n > 1 and len(pairwise) == 1 and local_edges_vary(flat.tables):
            pairwise = np.repeat(pairwise, n - 1, axis=0)
        paid = float(fold_local(flat.tables, flat.classes.reshape(len(flat.rules), n), unary, pairwise, m, True))
    return unary, np.zeros((1, m, m)) if n == 1 else np.array(pairwise.transpose(0, 2, 1), order="C"), paid


def local_edges(tables: RuleTables) -> bool:
    """Whether a rule is folded into the scores of steps."""
    return bool((tables.local[tables.counter_rule] & (tables.edge_at >= 0)).any())


def local_edges_vary(tables: RuleTables) -> bool:
    """Whether a rule is folded into the scores of steps, and not of all alike."""
    local = tables.local[tables.counter_rule]
    return bool((local & (tables.edge_at >= 0) & (tables.counter_classes > 1)).any())
