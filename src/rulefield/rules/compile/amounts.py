"""By how much a labelling breaks each of many rules, quickly: what learning and checking ask all the time."""

from collections.abc import Sequence

import numpy as np

from rulefield.problem.compiled import Automaton, CompiledRule, Counter
from rulefield.rules.compile.tallies import value_of


def amount_of(rule: CompiledRule, labels: np.ndarray) -> int:
    """Amount of one compiled rule for a labelling (n,), read from whichever form it has."""
    if rule.tally is not None:
        return value_of(rule.tally, rule.token_class, labels)
    if rule.counters:
        return sum(max(0, value_of(c.tally, rule.token_class, labels) - c.bound) for c in rule.counters)
    assert rule.automaton is not None
    return _run(rule.automaton, rule.token_class, labels)


def _run(automaton: Automaton, token_class: np.ndarray, labels: np.ndarray) -> int:
    """Follow all runs (few, and only one of them ends well)."""
    runs = {int(s): int(automaton.initial[s]) for s in np.flatnonzero(automaton.initial >= 0)}
    pointer, to, amount = automaton.arc_ptr, automaton.arc_to, automaton.arc_amount
    for letter in automaton.letter[token_class, labels].tolist():
        following = {}
        for state, so_far in runs.items():
            at = state * automaton.n_letters + letter
            for arc in range(int(pointer[at]), int(pointer[at + 1])):
                following[int(to[arc])] = so_far + int(amount[arc])
        runs = following
    (total,) = [so_far + int(automaton.final[s]) for s, so_far in runs.items() if automaton.final[s] >= 0]
    return total


class CountedTogether:
    """Rules whose counters only count labels, evaluated by one product of a matrix and label counts.

    Parameters
    ----------
    counters : sequence of tuples of Counter
        For each rule its counters; empty where it has none of this kind (see :func:`only_counts_labels`).
    n_labels : int
    """

    def __init__(self, counters: Sequence[tuple[Counter, ...]], n_labels: int):
        flat = [(i, counter) for i, some in enumerate(counters) for counter in some]
        self._rule = np.array([i for i, _ in flat], dtype=np.int64)
        tables = [counter.tally.node[0] for _, counter in flat]
        self._table = np.array(tables, dtype=np.float64).reshape(len(flat), n_labels)
        self._bound = np.array([counter.bound for _, counter in flat], dtype=np.float64)
        self._n_rules = len(counters)

    def __call__(self, labellings: Sequence[np.ndarray]) -> np.ndarray:
        """Amounts (n_rules, n_labellings); 0 for rules of other kinds."""
        m = self._table.shape[1]
        counts = np.array([np.bincount(labels, minlength=m) for labels in labellings], dtype=np.float64)
        excess = np.maximum(self._table @ counts.reshape(-1, m).T - self._bound[:, None], 0.0)
        amounts = np.zeros((self._n_rules, len(labellings)))
        np.add.at(amounts, self._rule, excess)
        return amounts


def only_counts_labels(counters: tuple[Counter, ...]) -> bool:
    """Whether counters ask for nothing but how often each label occurs."""
    return bool(counters) and all(
        len(c.tally.node) == 1 and c.tally.edge is None and c.tally.first is None for c in counters
    )
