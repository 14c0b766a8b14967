"""By how much a labelling breaks each of many rules, quickly: what learning and checking ask all the time."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rulefield.problem.chain_rules import Automaton, CompiledRule, Counter
from rulefield.rules.chain.tallies import value_of


class Reader:
    """Reads amounts of compiled rules, quickly because it keeps their automata as plain lists."""

    def __init__(self) -> None:
        self._runners: dict[int, tuple[Automaton, Runner]] = {}

    def __call__(self, rule: CompiledRule, labels: np.ndarray) -> int:
        """Amount of one compiled rule for a labelling (n,), read from whichever form it has."""
        if rule.tally is not None:
            return value_of(rule.tally, rule.token_class, labels)
        if rule.counters:
            return sum(max(0, value_of(c.tally, rule.token_class, labels) - c.bound) for c in rule.counters)
        assert rule.automaton is not None
        return self._runner(rule.automaton)(rule.automaton.letter[rule.token_class, labels].tolist())

    def _runner(self, automaton: Automaton) -> "Runner":
        known = self._runners.get(id(automaton))
        if known is None or known[0] is not automaton:  # ids change where a compiler is pickled
            known = self._runners[id(automaton)] = (automaton, Runner(automaton))
        return known[1]


class Runner:
    """An automaton as lists: for each state and letter its arcs."""

    def __init__(self, automaton: Automaton):
        pointer = automaton.arc_ptr.tolist()
        arcs = list(zip(automaton.arc_to.tolist(), automaton.arc_amount.tolist()))
        self._cells = [tuple(arcs[a:b]) for a, b in pairwise(pointer)]
        self._letters = automaton.n_letters
        self._start = [(s, amount) for s, amount in enumerate(automaton.initial.tolist()) if amount >= 0]
        self._final = automaton.final.tolist()
        self._certain = len(self._start) == 1 and all(len(cell) == 1 for cell in self._cells)

    def __call__(self, letters: list[int]) -> int:
        """Amount of the only run over these letters that ends well."""
        if self._certain:
            state, total = self._start[0]
            for letter in letters:
                state, amount = self._cells[state * self._letters + letter][0]
                total += amount
            return total + self._final[state]
        runs = self._start
        for letter in letters:
            runs = [(to, so_far + more) for s, so_far in runs for to, more in self._cells[s * self._letters + letter]]
        (total,) = [so_far + self._final[s] for s, so_far in runs if self._final[s] >= 0]
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
        self._alone = len(np.unique(self._rule)) == len(self._rule)

    def __call__(self, labellings: Sequence[np.ndarray]) -> np.ndarray:
        """Amounts (n_rules, n_labellings); 0 for rules of other kinds."""
        m = self._table.shape[1]
        counts = np.array([np.bincount(labels, minlength=m) for labels in labellings], dtype=np.float64)
        excess = np.maximum(self._table @ counts.reshape(-1, m).T - self._bound[:, None], 0.0)
        amounts = np.zeros((self._n_rules, len(labellings)))
        if self._alone:  # ten times faster than adding up
            amounts[self._rule] = excess
        else:
            np.add.at(amounts, self._rule, excess)
        return amounts


def only_counts_labels(counters: tuple[Counter, ...]) -> bool:
    """Whether counters ask for nothing but how often each label occurs."""
    return bool(counters) and all(
        len(c.tally.node) == 1 and c.tally.edge is None and c.tally.first is None for c in counters
    )
