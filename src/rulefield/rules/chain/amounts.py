"""By how much many labelings break many rules: tokens become classes, and the one evaluator reads all labelings.

This is what finding and learning rules ask all the time: thousands of candidates, on tens of thousands of labelings.
Nothing is done rule by rule and labeling by labeling in Python.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from rulefield.exceptions import RuleError
from rulefield.kernels.amounts import nonzeros
from rulefield.parallel import Threads
from rulefield.problem.amounts import Evaluator, Space
from rulefield.problem.chain_rules import Forms
from rulefield.rules.chain.automata import MAX_STATES
from rulefield.rules.chain.classes import ClassSpace, Remembered, no_tokens
from rulefield.rules.chain.comparisons import rounded_up

CELLS_AT_ONCE = 1_000_000
"""Amounts (labelings x rules) that are held densely at a time: what fits in a processor's cache, or nearly."""
FormsOf = Callable[[int], Forms]


class AmountReader:
    """Reads the amounts of rules over one label set, for many labelings of many inputs.

    For each rule: what it can tell of tokens, whether its forms depend on the length of the input (as those of some nested
    logic do), and what gives them for inputs of n tokens.
    """

    def __init__(self, rules: Sequence[tuple[ClassSpace, bool, FormsOf]], n_labels: int):
        self.n_rules, self.m, self._forms = len(rules), n_labels, [forms for _, _, forms in rules]
        self._spaces = list(dict.fromkeys([ClassSpace(), *(space for space, _, _ in rules)]))
        self._reads = any(space.reads_tokens for space in self._spaces)
        number = {space: s for s, space in enumerate(self._spaces)}
        self._space = [number[space] for space, _, _ in rules]
        self._growing = [r for r, (_, grows, _) in enumerate(rules) if grows]
        self._fixed = [r for r, (_, grows, _) in enumerate(rules) if not grows]
        self._evaluator = self._evaluated(self._fixed, 0)
        self._grown: dict[int, Evaluator] = {}

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
            [np.asarray(labels, dtype=np.int64) for labels in labelings] or [np.zeros(0, np.int64)]
        )
        at = np.concatenate([[0], np.cumsum(sizes)])[owner]
        flat = _Flat(labels[None], np.cumsum(lengths) - lengths, lengths, self.classes_of_all(inputs, sizes), at)
        done = (threads or Threads(1)).map(lambda part: _sparse(self._part(part)), self._parts(flat))
        return vstack(done, format="csr") if done else csr_matrix((0, self.n_rules))

    def broken(self, classes: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Whether each labeling breaks any rule, (n,); labeling j of input j is ``labels[offsets[j] : offsets[j + 1]]``.

        ``classes`` are those that :meth:`classes_of_all` gives for the inputs.
        """
        labels = np.asarray(labels, dtype=np.int64)[None]
        flat = _Flat(labels, offsets[:-1], np.diff(offsets), classes, offsets[:-1])
        parts = [self._part(part).any(axis=1) for part in self._parts(flat)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def _parts(self, flat: "_Flat") -> list["_Flat"]:
        """Return the labelings whose amounts are held at a time."""
        step = max(1, CELLS_AT_ONCE // max(self.n_rules, 1))
        return [flat.of(slice(low, low + step)) for low in range(0, len(flat.first), step)]

    def by_rule(self, classes: np.ndarray) -> np.ndarray:
        """Return classes of tokens in each space, (n_spaces, n_tokens), as those of each rule, (n_rules, n_tokens)."""
        return classes[self._space]

    def classes_of_all(self, inputs: Sequence[Any], sizes: np.ndarray) -> np.ndarray:
        """Class of each token of all inputs in each space, uint16 (n_spaces, n_tokens)."""
        known = self._reads and not any(isinstance(x, int) for x in inputs)
        meets = Remembered(inputs) if known else no_tokens
        return np.array([space.classes(sizes.tolist(), meets) for space in self._spaces], dtype=np.uint16)

    def _part(self, flat: "_Flat") -> np.ndarray:
        """Amounts of some labelings, (labelings, n_rules)."""
        amounts = self._evaluator(*flat)
        if not self._growing:
            return amounts
        out = np.zeros((len(amounts), self.n_rules), dtype=np.int64)
        out[:, self._fixed] = amounts
        keys = np.array([rounded_up(n) for n in flat.lengths.tolist()], dtype=np.int64)
        for key in np.unique(keys).tolist():
            if key not in self._grown:
                self._grown[key] = self._evaluated(self._growing, key)
            some = np.flatnonzero(keys == key)
            out[some[:, None], self._growing] = self._grown[key](*flat.of(some))
        return out

    def _evaluated(self, numbers: Sequence[int], key: int) -> Evaluator:
        """Return the evaluator of some rules for inputs of ``key`` tokens."""
        forms = [self._forms[r](key) for r in numbers]
        if any(own.is_empty for own in forms):
            raise RuleError(
                f"a rule needs an automaton of more than {MAX_STATES} states, so its amounts cannot be measured in "
                "bulk; split it into several rules, or count fewer things inside logic."
            )
        spaces = [Space(self._space[r], self._spaces[self._space[r]].n_classes, self.m) for r in numbers]
        return Evaluator(forms, spaces)


class _Flat(NamedTuple):
    """Labelings one after the other, as the evaluator reads them (see :mod:`rulefield.kernels.amounts`)."""

    labels: np.ndarray
    first: np.ndarray
    lengths: np.ndarray
    classes: np.ndarray
    at: np.ndarray

    def of(self, some: slice | np.ndarray) -> "_Flat":
        """Return some of the labelings."""
        return self._replace(first=self.first[some], lengths=self.lengths[some], at=self.at[some])


def _sparse(table: np.ndarray) -> csr_matrix:
    """Return a dense table (n, r) as sparse rows of floats."""
    size = int(np.count_nonzero(table))
    pointer, column, value = np.zeros(len(table) + 1, np.int64), np.empty(size, np.int64), np.empty(size)
    nonzeros(table, pointer, column, value)
    return csr_matrix((value, column, pointer), shape=table.shape)
