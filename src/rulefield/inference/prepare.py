"""A chain problem made ready for kernels: local rules inside the potentials, the others as flat tables."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import numpy as np

from rulefield.exceptions import InputError, RuleError
from rulefield.inference.result import BrokenRule, Result, judge
from rulefield.kernels.rule_tables import RuleTables, fold_local, rule_amounts
from rulefield.problem.compiled import Automaton, ChainProblem, CompiledRule, Counter, Tally

MOST_JOINT_COUNTERS = 4
"""A rule with more counters than this is read by its automaton, where it has one."""

_CACHE_SIZE = 64
_cache: OrderedDict[tuple, tuple[RuleTables, tuple]] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True)
class Term:
    """A piece of a rule that engines treat at once: counters ``low : high``, or (low == high) its automaton."""

    rule: int
    low: int
    high: int


@dataclass(frozen=True)
class Prepared:
    """One chain problem in the arrays that kernels read.

    Parameters
    ----------
    problem : ChainProblem
    unary : ndarray, shape (n, m)
        With local rules folded in; hard ones as ``-inf``.
    arriving : ndarray, shape (k, m, m)
        Transposed pairwise scores [to, from], folded likewise; k is 1 or n - 1.
    tables : RuleTables
    classes : ndarray of uint16, shape (rules, n)
    caps : ndarray of float64, shape (counters,)
        Largest dual of each counter: the weight of its rule, divided by its largest amount where it is paid once.
    terms : tuple of Term
    """

    problem: ChainProblem
    unary: np.ndarray
    arriving: np.ndarray
    tables: RuleTables
    classes: np.ndarray
    caps: np.ndarray
    terms: tuple[Term, ...]

    @property
    def automaton_rules(self) -> list[int]:
        """Places of the rules that are read by an automaton."""
        return np.flatnonzero(self.tables.rule_automaton >= 0).tolist()

    def amounts(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Amounts (rules,) and excesses (counters,) of a labelling, and what rules outside the potentials cost."""
        amounts = np.zeros(len(self.tables.weight), np.int64)
        excesses = np.zeros(len(self.tables.counter_bound), np.int64)
        cost = rule_amounts(self.tables, self.classes, labels, self.unary.shape[1], amounts, excesses)
        return amounts, excesses, float(cost)

    def result(self, labels: np.ndarray, upper_bound: float, engine: str, iterations: int) -> Result:
        """Judge a labelling from scratch: its score, what it breaks, and whether the bound proves it best."""
        labels = labels.copy()
        amounts, _, _ = self.amounts(labels)
        score = self.problem.potentials.score(labels)
        broken = []
        total = 0.0
        for r in np.flatnonzero(amounts).tolist():
            rule = self.problem.rules[r]
            amount = float(amounts[r])
            cost = rule.weight * (1.0 if rule.once else amount)
            total += cost
            broken.append(BrokenRule(rule.rule, amount, cost))
        objective = score - total
        upper_bound = max(upper_bound, objective)
        return Result(
            labels, score, objective, upper_bound, judge(objective, upper_bound), engine, iterations, tuple(broken)
        )

    def no_result(self, upper_bound: float, engine: str, iterations: int) -> Result:
        """No labelling: none exists (bound ``-inf``), or none was found within the limits."""
        none = np.zeros(0, np.int64)
        status = judge(-np.inf, upper_bound)
        return Result(none, -np.inf, -np.inf, upper_bound, status, engine, iterations)

    def answer(self, labels: np.ndarray, best: float, upper_bound: float, engine: str, iterations: int) -> Result:
        """Return ``result`` where a labelling was found (``best`` is finite), else ``no_result``."""
        if best == -np.inf:
            return self.no_result(upper_bound, engine, iterations)
        return self.result(labels, upper_bound, engine, iterations)


def prepare(problem: ChainProblem) -> Prepared:
    """Flatten a problem; tables of equal rule objects are shared between calls."""
    potentials = problem.potentials
    n, m = potentials.n_steps, potentials.n_states
    if n == 0 or m == 0:
        raise InputError(f"a chain needs at least one token and one label; got {n} tokens and {m} labels.")
    rules = problem.rules
    tables, terms = _tables(rules, m)
    classes = np.array([rule.token_class for rule in rules], dtype=np.uint16).reshape(len(rules), n)
    unary = np.array(potentials.unary, dtype=np.float64, order="C")
    pairwise = np.asarray(potentials.pairwise_stack, dtype=np.float64)
    if tables.local.any():
        pairwise = pairwise.copy()
        if n > 1 and len(pairwise) == 1 and _local_edges_vary(tables):
            pairwise = np.repeat(pairwise, n - 1, axis=0)
        fold_local(tables, classes, unary, pairwise, m)
    arriving = np.ascontiguousarray(pairwise.transpose(0, 2, 1))
    if n == 1:
        arriving = np.zeros((1, m, m))
    return Prepared(problem, unary, arriving, tables, classes, _caps(rules, tables), terms)


def _local_edges_vary(tables: RuleTables) -> bool:
    local = tables.local[tables.counter_rule]
    return bool((local & (tables.edge_at >= 0) & (tables.counter_classes > 1)).any())


def _caps(rules: tuple[CompiledRule, ...], tables: RuleTables) -> np.ndarray:
    caps = tables.weight[tables.counter_rule]
    if tables.once.any():
        largest = np.array([max(rule.max_amount, 1) for rule in rules], dtype=np.float64)
        soft_once = tables.once & np.isfinite(tables.weight)
        caps = caps / np.where(soft_once, largest, 1.0)[tables.counter_rule]
    caps[tables.local[tables.counter_rule]] = 0.0
    return caps


def _tables(rules: tuple[CompiledRule, ...], m: int) -> tuple[RuleTables, tuple[Term, ...]]:
    key = (m, *((id(r.tally), _ids(r.counters), id(r.automaton), r.weight, r.once) for r in rules))
    with _lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key][0], _cache[key][1][0]
    built = _build(rules, m)
    with _lock:
        _cache[key] = built[0], (built[1], rules)  # holding the rules keeps their ids their own
        while len(_cache) > _CACHE_SIZE:
            _cache.popitem(last=False)
    return built


def _ids(counters: tuple[Counter, ...]) -> tuple:
    return tuple((id(counter.tally), counter.bound) for counter in counters)


def _is_local(rule: CompiledRule) -> bool:
    """Whether a rule can be folded into the potentials: a plain sum, paid by the unit, or hard and never negative."""
    if rule.tally is None or (rule.once and np.isfinite(rule.weight)):
        return False
    if np.isfinite(rule.weight):
        return True
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
    raise RuleError(f"compiled rule {rule.rule} has neither a tally, nor counters, nor an automaton; give it one.")


def _build(rules: tuple[CompiledRule, ...], m: int) -> tuple[RuleTables, tuple[Term, ...]]:
    pool = _Pool(m)
    local = [_is_local(rule) for rule in rules]
    terms: list[Term] = []
    for r, rule in enumerate(rules):
        counters, automaton = _reader(rule)
        low = len(pool.counter_bound)
        for counter in counters:
            pool.add_counter(r, counter)
        pool.end_rule(automaton)
        high = len(pool.counter_bound)
        if local[r]:
            continue
        if (rule.once and np.isfinite(rule.weight)) or not counters:
            terms.append(Term(r, low, high))
        else:
            terms.extend(Term(r, c, c + 1) for c in range(low, high))
    tables = pool.tables(
        np.array([rule.weight for rule in rules], dtype=np.float64),
        np.array([rule.once for rule in rules], dtype=np.bool_),
        np.array(local, dtype=np.bool_),
    )
    return tables, tuple(terms)


class _Pool:
    """Collects the tables of counters and automata one after the other."""

    def __init__(self, m: int):
        self.m = m
        self.rule_counter = [0]
        self.rule_automaton: list[int] = []
        self.counter_rule: list[int] = []
        self.counter_bound: list[int] = []
        self.counter_classes: list[int] = []
        self.at: dict[str, list[int]] = {k: [] for k in ("node", "first", "edge", "letter", "state", "arc")}
        self.node: list[np.ndarray] = []
        self.edge: list[np.ndarray] = []
        self.automata: list[Automaton] = []
        self._sizes = {"node": 0, "edge": 0}

    def _put(self, store: str, table: np.ndarray) -> int:
        at = self._sizes[store]
        getattr(self, store).append(np.asarray(table, dtype=np.int32).ravel())
        self._sizes[store] += table.size
        return at

    def add_counter(self, rule: int, counter: Counter) -> None:
        tally: Tally = counter.tally
        self.counter_rule.append(rule)
        self.counter_bound.append(int(counter.bound))
        self.counter_classes.append(1 if tally.edge is None else len(tally.edge))
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
            rule_counter=_ints(self.rule_counter),
            rule_automaton=_ints(self.rule_automaton),
            counter_rule=_ints(self.counter_rule),
            counter_bound=_ints(self.counter_bound),
            counter_classes=_ints(self.counter_classes),
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


def is_deterministic(automaton: Automaton) -> bool:
    """Whether every labelling has exactly one run and that run accepts."""
    one_arc = bool((np.diff(automaton.arc_ptr.astype(np.int64)) == 1).all())
    return one_arc and int((automaton.initial >= 0).sum()) == 1 and bool((automaton.final >= 0).all())


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _starts(arrays: list[np.ndarray]) -> np.ndarray:
    return np.cumsum([0] + [a.size for a in arrays], dtype=np.int64)[:-1]


def _joined(arrays: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, dtype=kind)
