"""The memory of L-BFGS: recent steps and gradient changes, and the direction that they suggest."""

from dataclasses import dataclass

import numpy as np

from rulefield.kernels.quasi_newton import combine_history, history_products, step_products
from rulefield.parallel import Threads

COLUMNS = 1 << 16
FLAT, FLAT_ROUNDED = 1e-12, 1e-6  # least cosine between step and change; what rounding to float32 leaves positive
SHORT_FROM = 100_000
"""Variables from which pairs are kept in float32: half the memory, and what rounding does to a direction the line search
and the next pair correct. On CoNLL-2000 (456,468 weights) the search takes as many iterations."""


@dataclass
class Point:
    """A place with its value and gradient."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray


class History:
    r"""The last ``memory`` pairs (s, y) = (step, change of gradient), and their inverse Hessian times a vector.

    The two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.4) is run on coefficients: all
    that it needs are inner products of stored vectors, and the direction is one linear combination of them (Chen et
    al., Large-scale L-BFGS using MapReduce, 2014). Every stored vector is read twice per iteration, where the plain
    recursion passes over ten vectors for each pair.

    Parameters
    ----------
    memory : int
    size : int
        Length of the vectors.
    threads : Threads
        Columns are cut into fixed blocks, so that the sums do not depend on the number of threads.
    """

    def __init__(self, memory: int, size: int, threads: Threads):
        self.memory, self.size, self.threads = memory, size, threads
        kind = np.float32 if size >= SHORT_FROM else np.float64
        self._rows = np.empty((2 * memory, size), kind)  # pair k: step in row 2k, change in row 2k + 1
        self._gram = np.zeros((2 * memory, 2 * memory))
        self._order: list[int] = []  # slots, oldest pair first
        self._cuts = [np.uint64(cut) for cut in (*range(0, size, COLUMNS), size)]

    def __len__(self) -> int:
        return len(self._order)

    def forget(self) -> None:
        """Drop all pairs."""
        self._order.clear()

    def add(self, before: Point, after: Point) -> None:
        """Remember the step between two points if its curvature is positive; the oldest pair makes room."""
        along, step, change = step_products(after.theta, before.theta, after.gradient, before.gradient)
        flat = FLAT if self._rows.dtype == np.float64 else FLAT_ROUNDED
        if not along > flat * np.sqrt(step * change):
            return
        slot = len(self._order) if len(self._order) < self.memory else self._order.pop(0)
        self._order.append(slot)
        np.subtract(after.theta, before.theta, out=self._rows[2 * slot], casting="same_kind")
        np.subtract(after.gradient, before.gradient, out=self._rows[2 * slot + 1], casting="same_kind")

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """Return minus the inverse Hessian times ``gradient``."""
        if not self._order:
            return -gradient
        coefficient, scale = self._two_loops(self._products(gradient))
        out, n_rows = np.empty(self.size), np.uint64(2 * len(self._order))

        def run(k: int) -> None:
            columns = self._cuts[k], self._cuts[k + 1]
            combine_history(self._flat, n_rows, np.uint64(self.size), *columns, coefficient, scale, gradient, out)

        self.threads.map(run, range(len(self._cuts) - 1))
        return out

    @property
    def length(self) -> float:
        """How far to go along minus the gradient, by the newest pair; after :meth:`direction` was asked with it."""
        s, y = 2 * self._order[-1], 2 * self._order[-1] + 1
        return float(self._gram[s, y] / self._gram[y, y])

    @property
    def _flat(self) -> np.ndarray:
        return self._rows.reshape(-1)

    def _products(self, gradient: np.ndarray) -> np.ndarray:
        """Bring the Gram matrix up to date with the newest pair; return all rows times ``gradient``."""
        n_rows, newest = 2 * len(self._order), 2 * self._order[-1]
        step, change = self._rows[newest], self._rows[newest + 1]
        parts = np.empty((len(self._cuts) - 1, n_rows, 3))

        def run(k: int) -> None:
            columns = self._cuts[k], self._cuts[k + 1]
            history_products(
                self._flat, np.uint64(n_rows), np.uint64(self.size), *columns, step, change, gradient, parts[k]
            )

        self.threads.map(run, range(len(parts)))
        products = parts.sum(axis=0)
        for row, column in ((newest, 0), (newest + 1, 1)):
            self._gram[row, :n_rows] = self._gram[:n_rows, row] = products[:, column]
        return products[:, 2]

    def _two_loops(self, with_gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients of the rows, and of the gradient, in minus the inverse Hessian times the gradient."""
        n_rows = 2 * len(self._order)
        gram = self._gram[:n_rows, :n_rows]
        coefficient, scale = np.zeros(n_rows), -1.0
        alpha = {}
        for slot in reversed(self._order):
            s, y = 2 * slot, 2 * slot + 1
            alpha[slot] = (gram[s] @ coefficient + scale * with_gradient[s]) / gram[s, y]
            coefficient[y] -= alpha[slot]
        coefficient, scale = coefficient * self.length, scale * self.length
        for slot in self._order:
            s, y = 2 * slot, 2 * slot + 1
            beta = (gram[y] @ coefficient + scale * with_gradient[y]) / gram[s, y]
            coefficient[s] += alpha[slot] - beta
        return coefficient, scale
