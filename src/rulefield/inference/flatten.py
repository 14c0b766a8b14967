"""Rules as flat tables: every counter and automaton of a problem, one after the other."""

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.kernels.lattice.rule_tables import RuleTables
from rulefield.locks import held_over_forks
from rulefield.problem.chain_rules import Automaton, CompiledRule, Counter, Tally

Kind = TypeVar("Kind")

MOST_JOINT_COUNTERS = 4
"""A rule with more counters than this is read by its automaton, where it has one."""

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


class SharedForms(NamedTuple):
    """What rules with the same forms share: the same object for all of them while one is in use."""

    tables: RuleTables
    terms: Terms
    offered: frozenset[frozenset[str]]
    """The sets of compiled forms that rules offer, each set once: what an engine must read."""
    automaton_rules: tuple[int, ...]
    """Places of the rules that are read by an automaton."""
    folds: bool
    """Whether some rules are folded into the potentials."""
    rows_only: tuple[int, ...]
    """Places of the rules that are known by their rows only: kernels take them to cost nothing."""
    rules: tuple[CompiledRule, ...]


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
        tables, terms = _build(rules, m)
        automata = tuple(np.flatnonzero(tables.rule_automaton >= 0).tolist())
        offered, folds = frozenset(map(_offered, rules)), bool(tables.local.any())
        rows_only = tuple(r for r, rule in enumerate(rules) if rule.find_amount is not None)
        found = _by_forms.put(key, SharedForms(tables, terms, offered, automata, folds, rows_only, rules))
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
    if rule.counters and (len(rule.counters) <= MOST_JOINT_COUNTERS or rule.automaton is None):
        return rule.counters, None
    if rule.automaton is not None:
        return (), rule.automaton
    if rule.find_amount is not None:
        return (), None
    raise RuleError(f"compiled rule {rule.rule} has neither a tally, nor counters, nor an automaton; give it one.")


def _build(rules: tuple[CompiledRule, ...], m: int) -> tuple[RuleTables, Terms]:
    pool = _Pool(m)
    local = [_is_local(rule) for rule in rules]
    spans: list[tuple[int, int, int]] = []
    for r, rule in enumerate(rules):
        counters, automaton = _reader(rule)
        low = len(pool.counter_bound)
        for counter in counters:
            pool.add_counter(r, counter)
        pool.end_rule(automaton)
        high = len(pool.counter_bound)
        if local[r] or rule.find_amount is not None:
            continue
        if automaton is not None or (rule.once and rule.weight != np.inf):
            spans.append((r, low, high))
        else:
            spans.extend((r, low + begin, low + end) for begin, end in _pieces(counters))
    tables = pool.tables(
        np.array([rule.weight for rule in rules], dtype=np.float64),
        np.array([rule.once for rule in rules], dtype=np.bool_),
        np.array(local, dtype=np.bool_),
    )
    states = _counter_states(tables).tolist()
    automaton_of = tables.rule_automaton.tolist()
    return tables, Terms(
        Term(r, low, high, sum(states[low:high]) if high > low else int(tables.states[automaton_of[r]]))
        for r, low, high in spans
    )


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


def _counter_states(tables: RuleTables) -> np.ndarray:
    """About how many values of each running sum matter: few where it only rises or only falls."""
    rises, falls = (np.zeros(len(tables.counter_bound), np.bool_) for _ in range(2))
    if len(rises):
        rises |= np.maximum.reduceat(tables.node, tables.node_at) > 0
        falls |= np.minimum.reduceat(tables.node, tables.node_at) < 0
    edged = np.flatnonzero(tables.edge_at >= 0)
    if len(edged):
        rises[edged] |= np.maximum.reduceat(tables.edge, tables.edge_at[edged]) > 0
        falls[edged] |= np.minimum.reduceat(tables.edge, tables.edge_at[edged]) < 0
    return np.where(rises & falls, MANY_STATES, np.abs(tables.counter_bound) + 1)


class _Pool:
    """Collects the tables of counters and automata one after the other."""

    def __init__(self, m: int):
        self.m = m
        self.rule_counter = [0]
        self.rule_automaton: list[int] = []
        self.counter_rule: list[int] = []
        self.counter_bound: list[int] = []
        self.counter_classes: list[int] = []
        self.counter_plain: list[bool] = []
        self.counter_range: list[tuple[int, int]] = []
        self.at: dict[str, list[int]] = {k: [] for k in ("node", "first", "edge", "letter", "state", "arc")}
        self.node: list[np.ndarray] = []
        self.edge: list[np.ndarray] = []
        self.automata: list[Automaton] = []
        self._sizes = {"node": 0, "edge": 0}

    def _put(self, store: str, table: np.ndarray) -> int:
        at = self._sizes[store]
        getattr(self, store).append(table.ravel())
        self._sizes[store] += table.size
        return at

    def add_counter(self, rule: int, counter: Counter) -> None:
        tally: Tally = counter.tally
        self.counter_rule.append(rule)
        self.counter_bound.append(int(counter.bound))
        self.counter_classes.append(len(tally.node))
        self.counter_plain.append(len(tally.node) == 1 and tally.edge is None and tally.first is None)
        self.counter_range.append(_range_per_token(tally))
        at = self._put("node", tally.node)
        self.at["node"].append(at)
        self.at["first"].append(at if tally.first is None else self._put("node", tally.first))
        self.at["edge"].append(-1 if tally.edge is None else self._put("edge", tally.edge))

    def end_rule(self, automaton: Automaton | None) -> None:
        self.rule_counter.append(len(self.counter_bound))
        self.rule_automaton.append(-1 if automaton is None else len(self.automata))
        if automaton is not None:
            self.automata.append(automaton)

    def tables(self, weight: np.ndarray, once: np.ndarray, local: np.ndarray) -> RuleTables:
        starts = np.cumsum([0] + [len(a.arc_to) for a in self.automata])
        return RuleTables(
            weight=weight,
            once=once,
            local=local,
            sure=np.zeros(len(weight), dtype=np.int64),
            rule_counter=_ints(self.rule_counter),
            rule_automaton=_ints(self.rule_automaton),
            counter_rule=_ints(self.counter_rule),
            counter_bound=_ints(self.counter_bound),
            counter_classes=_ints(self.counter_classes),
            counter_plain=np.array(self.counter_plain, dtype=np.bool_),
            counter_top=_ints([max(high, -low) for low, high in self.counter_range]),
            counter_fall=_ints([max(-low, 0) for low, _ in self.counter_range]),
            node_at=_ints(self.at["node"]),
            first_at=_ints(self.at["first"]),
            edge_at=_ints(self.at["edge"]),
            node=_joined(self.node, np.int32),
            edge=_joined(self.edge, np.int32),
            states=_ints([a.n_states for a in self.automata]),
            letters=_ints([a.n_letters for a in self.automata]),
            deterministic=np.array([is_deterministic(a) for a in self.automata], dtype=np.bool_),
            letter_at=_starts([a.letter for a in self.automata]),
            state_at=_starts([a.initial for a in self.automata]),
            arc_at=_starts([a.arc_ptr for a in self.automata]),
            letter=_joined([a.letter.ravel() for a in self.automata], np.int32),
            initial=_joined([a.initial for a in self.automata], np.int32),
            final=_joined([a.final for a in self.automata], np.int32),
            arc_ptr=_joined(
                [a.arc_ptr.astype(np.int64) + s for a, s in zip(self.automata, starts, strict=False)], np.int64
            ),
            arc_to=_joined([a.arc_to for a in self.automata], np.int32),
            arc_amount=_joined([a.arc_amount for a in self.automata], np.int32),
        )


def _range_per_token(tally: Tally) -> tuple[int, int]:
    """Return the least and the largest amount that one token, with the step to it, adds to a tally."""
    first = tally.node if tally.first is None else tally.first
    low, high = min(int(tally.node.min()), int(first.min())), max(int(tally.node.max()), int(first.max()))
    if tally.edge is None:
        return low, high
    return low + min(int(tally.edge.min()), 0), high + max(int(tally.edge.max()), 0)


def is_deterministic(automaton: Automaton) -> bool:
    """Whether every labeling has exactly one run and that run accepts."""
    one_arc = bool((np.diff(automaton.arc_ptr.astype(np.int64)) == 1).all())
    return one_arc and int((automaton.initial >= 0).sum()) == 1 and bool((automaton.final >= 0).all())


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _starts(arrays: list[np.ndarray]) -> np.ndarray:
    return np.cumsum([0] + [a.size for a in arrays], dtype=np.int64)[:-1]


def _joined(arrays: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, dtype=kind)
