"""What the checkers of all families share: rules read as they were compiled, in code that no engine shares."""

import numpy as np

from rulefield.exceptions import InternalError, RuleError
from rulefield.inference.flatten import Cache, Flat, SharedForms, flatten
from rulefield.inference.result import TOLERANCE, Breach
from rulefield.kernels.chain.check import UNREAD, VECTORS, Definitions, labeling_amounts
from rulefield.problem.chain_rules import Automaton, CompiledRule, Tally

_read: Cache[tuple[Definitions, SharedForms]] = Cache(
    64
)  # the forms are held, so that their id, the key, stays their own


def rules_broken(
    rules: tuple[CompiledRule, ...], labels: np.ndarray, n_labels: int
) -> tuple[tuple[Breach, ...], float]:
    """Rules that token labels (n,) break, and what that costs (``inf``: a hard one), from the definition."""
    flat = flatten(rules, n_labels)
    amounts = np.zeros(len(rules), np.int64)
    classes = flat.classes.reshape(len(rules), len(labels))
    cost, count = labeling_amounts(definitions_of(flat), flat.tables.weight, classes, labels, n_labels, amounts)
    return breaches(rules, amounts) if count else (), float(cost)


def breaches(rules: tuple[CompiledRule, ...], amounts: np.ndarray) -> tuple[Breach, ...]:
    """Name the rules that are broken, given amounts (rules,) from the checker's kernels."""
    broken = []
    for r in np.flatnonzero(amounts).tolist():
        rule, amount = rules[r], np.inf if amounts[r] == UNREAD else float(amounts[r])
        broken.append(Breach(rule.rule, amount, rule.weight * (1.0 if rule.once else amount)))
    return tuple(broken)


def mismatch(claimed: float, found: float) -> InternalError:
    """Return the error of an engine whose claim does not agree with the definition."""
    return InternalError(
        f"an engine claims an objective of {claimed!r} for a labeling whose objective is {found!r}; "
        "please report this problem: the answer was withheld because it may be wrong."
    )


def held_bound(bound: float, value: float, error: float) -> float:
    """Return the bound of an engine, which its own labeling, worth ``value``, must not pass by more than rounding."""
    if value > bound + TOLERANCE + error:
        raise InternalError(
            f"an engine says that no labeling is worth more than {bound!r}, but its own is worth {value!r}; please report "
            "this problem: the answer was withheld because its proof may be wrong."
        )
    return max(bound, value)


def definitions_of(flat: Flat) -> Definitions:
    """Rules in the checker's arrays."""
    key = (id(flat.shared),)
    found = _read.get(key)
    if found is None:
        found = _read.put(key, (_Reader(flat.rules).definitions(), flat.shared))
    return found[0]


class _Reader:
    """Lays the forms of compiled rules into the checker's arrays."""

    def __init__(self, rules: tuple[CompiledRule, ...]):
        self.rules = rules
        self.size = 0
        self.tables: list[np.ndarray] = []
        self.pieces: list[tuple[bool, int, int, int, int, bool]] = []  # clipped, bound, node, first, edge, simple

    def _keep(self, table: np.ndarray) -> int:
        self.tables.append(table.ravel())
        self.size += table.size
        return self.size - table.size

    def _add(self, tally: Tally, bound: int | None) -> None:
        node = self._keep(tally.node)
        first = node if tally.first is None else self._keep(tally.first)
        edge = -1 if tally.edge is None else self._keep(tally.edge)
        simple = len(tally.node) == 1 and first == node and edge < 0
        self.pieces.append((bound is not None, bound or 0, node, first, edge, simple))

    def definitions(self) -> Definitions:
        """Read all rules."""
        ends, number = [0], []
        automata: list[Automaton] = []
        for rule in self.rules:
            if rule.tally is not None:
                self._add(rule.tally, None)
            elif rule.counters:
                for counter in rule.counters:
                    self._add(counter.tally, counter.bound)
            elif rule.automaton is None and rule.find_amount is None:
                raise RuleError(
                    f"compiled rule {rule.rule} has neither a tally, nor counters, nor an automaton; give it one."
                )
            read = rule.automaton if rule.tally is None and not rule.counters else None
            number.append(len(automata) if read is not None else -1)
            automata += [read] if read is not None else []
            ends.append(len(self.pieces))
        clipped, bound, node, first, edge, simple = zip(*self.pieces, strict=True) if self.pieces else [()] * 6
        letters = [self._keep(a.letter) for a in automata]
        arcs = np.cumsum([0] + [len(a.arc_to) for a in automata])
        cells = np.cumsum([0] + [len(a.arc_ptr) for a in automata])
        vectors = {
            "once": [rule.once for rule in self.rules],
            "piece": ends,
            "automaton": number,
            "clipped": clipped,
            "bound": bound,
            "node": node,
            "first": first,
            "edge": edge,
            "simple": simple,
            "letters": [a.n_letters for a in automata],
            "letter": letters,
            "state": np.cumsum([0] + [a.n_states for a in automata]),
            "cell": cells[:-1],
            "initial": _joined([a.initial for a in automata], np.int64),
            "final": _joined([a.final for a in automata], np.int64),
            "pointer": _joined(
                [a.arc_ptr.astype(np.int64) + s for a, s in zip(automata, arcs[:-1], strict=True)], np.int64
            ),
            "to": _joined([a.arc_to for a in automata], np.int64),
            "amount": _joined([a.arc_amount for a in automata], np.int64),
        }
        parts = [np.asarray(vectors[name], dtype=np.int64) for name in VECTORS]
        place = np.cumsum([0] + [len(part) for part in parts])
        return Definitions(place, np.concatenate(parts), _joined(self.tables, np.int32))


def _joined(arrays: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, dtype=kind)
