"""A product of tables over discrete variables: its sum, the marginals of every variable, maxima over some of them."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError

MOST_ENTRIES = 2**20


def refuse_size(entries: float) -> None:
    """Raise where a table would be too large."""
    if entries > MOST_ENTRIES:
        raise InputError(
            f"the exact sum under these rules needs a table of {entries:.2g} entries, and at most {MOST_ENTRIES:.2g} "
            "are tried; use fewer rules or rules about fewer nodes, fix some labels (known=), or give rules=[]."
        )


@dataclass(frozen=True)
class _Table:
    """Log-values for all combinations of some variables, one axis each."""

    scope: tuple[int, ...]
    values: np.ndarray

    def along(self, axes: Sequence[int]) -> np.ndarray:
        """Return the values with one axis for each of ``axes``, of length 1 where the variable is not in scope."""
        own = sorted(range(len(self.scope)), key=lambda k: axes.index(self.scope[k]))
        shape = [self.values.shape[self.scope.index(v)] if v in self.scope else 1 for v in axes]
        return self.values.transpose(own).reshape(shape)


@dataclass(frozen=True)
class _Step:
    """One variable gone: the table over it (first axis) and its neighbors, and what is left of it for them."""

    variable: int
    scope: tuple[int, ...]
    table: np.ndarray
    message: np.ndarray


class TableProduct:
    """Tables of log-values over numbered variables; variables with one value are left out of tables.

    Parameters
    ----------
    sizes : list of int
        Number of values of each variable.
    """

    def __init__(self, sizes: Iterable[int]):
        self.sizes = list(sizes)
        self.tables: list[_Table] = []

    def variable(self, size: int) -> int:
        """Add a variable and return its number."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def multiply(self, scope: Sequence[int], values: np.ndarray) -> None:
        """Multiply by a table of log-values, one axis for each variable in ``scope``."""
        kept = [axis for axis, v in enumerate(scope) if self.sizes[v] > 1]
        self.tables.append(_Table(tuple(scope[a] for a in kept), values.reshape([values.shape[a] for a in kept])))

    def max_out(self, variables: Iterable[int]) -> None:
        """Replace some variables by their best values, for each choice of the others."""
        for step in self._eliminate(variables, lambda table: table.max(axis=0)):
            self.sizes[step.variable] = 1

    def sum_out(self) -> tuple[dict[int, np.ndarray], float]:
        """Sum over all variables: the marginals of each that has a choice, and the log of the sum."""
        steps = list(self._eliminate(range(len(self.sizes)), _log_sum))
        total = float(sum(table.values.item() for table in self.tables))
        marginals: dict[int, np.ndarray] = {}
        if total == -np.inf:
            return marginals, total
        joint: dict[int, _Table] = {}
        place = {step.variable: k for k, step in enumerate(steps)}
        for step in reversed(steps):
            share = np.exp(step.table - np.where(np.isfinite(step.message), step.message, 0.0))
            if step.scope:
                parent = joint[min(step.scope, key=place.__getitem__)]  # where the message went
                share = share * _marginal(parent, step.scope)
            joint[step.variable] = _Table((step.variable, *step.scope), share)
            marginals[step.variable] = share.reshape(len(share), -1).sum(axis=1)
        return marginals, total

    def draw(self, n_draws: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
        """Draw values of all variables that have a choice, (n_draws,) each; the sum must not be 0."""
        found: dict[int, np.ndarray] = {}
        for step in reversed(list(self._eliminate(range(len(self.sizes)), _log_sum))):
            given = tuple(found[v] for v in step.scope)
            share = np.exp(np.moveaxis(step.table, 0, -1)[given].T - step.message[given])
            share = share.reshape(len(share), -1) + np.zeros((1, n_draws))
            found[step.variable] = (share.cumsum(axis=0) < rng.random(n_draws) * share.sum(axis=0)).sum(axis=0)
        return found

    def _eliminate(self, variables: Iterable[int], reduce: Callable[[np.ndarray], np.ndarray]) -> Iterator[_Step]:
        """Take variables out one by one, the one with the smallest table first; ``reduce`` works on the first axis."""
        wanted = {v for v in variables if self.sizes[v] > 1}
        tables = dict(enumerate(self.tables))
        touching: dict[int, set[int]] = {v: set() for v in wanted}
        for number, table in tables.items():
            for v in wanted.intersection(table.scope):
                touching[v].add(number)

        def scope_of(v: int) -> list[int]:
            return sorted({u for number in touching[v] for u in tables[number].scope} - {v})

        def cost(v: int) -> float:
            return float(np.prod([float(self.sizes[u]) for u in (v, *scope_of(v))]))

        heap = [(cost(v), v) for v in sorted(wanted)]
        heapq.heapify(heap)
        while heap:
            entries, v = heapq.heappop(heap)
            if v not in wanted or entries != cost(v):
                continue  # an older entry
            refuse_size(entries)
            scope = scope_of(v)
            total = np.zeros([self.sizes[u] for u in (v, *scope)])
            for number in sorted(touching[v]):
                total += tables[number].along((v, *scope))
            message = _Table(tuple(scope), np.asarray(reduce(total)))
            for number in sorted(touching.pop(v)):
                for u in wanted.intersection(tables[number].scope) - {v}:
                    touching[u].discard(number)
                del tables[number]
            wanted.discard(v)
            new = len(self.tables)
            self.tables.append(message)
            tables[new] = message
            for u in scope:
                if u in wanted:
                    touching[u].add(new)
                    heapq.heappush(heap, (cost(u), u))
            yield _Step(v, tuple(scope), total, message.values)
        self.tables = list(tables.values())


def _log_sum(table: np.ndarray) -> np.ndarray:
    top = table.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(table - top).sum(axis=0)) + top


def _marginal(joint: _Table, scope: Sequence[int]) -> np.ndarray:
    """Probabilities of some of the variables of a joint table, in the order of ``scope``."""
    gone = tuple(axis for axis, v in enumerate(joint.scope) if v not in scope)
    left = _Table(tuple(v for v in joint.scope if v in scope), joint.values.sum(axis=gone))
    return left.along(tuple(scope))
