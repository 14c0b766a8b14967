"""Data cut into shards, worked through in threads; the same shards and the same sums for any number of threads."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import TypeVar

import numpy as np

from rulefield.exceptions import InputError

MOST_SHARDS = 64
# Scores of labels in one shard: enough that zeroing and adding up its gradient is a small part of its work.
LEAST_SCORES = 750_000

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def shard_bounds(lengths: np.ndarray, n_labels: int) -> np.ndarray:
    """Cut sequences into shards of about equally many tokens.

    Returns
    -------
    ndarray of uint64, shape (n_shards + 1,)
        First sequence of each shard, and the number of sequences. Depends on the data only, never on the number
        of threads, so that sums over shards are always taken in the same order.
    """
    ends = np.cumsum(lengths)
    n_tokens = int(ends[-1]) if len(ends) else 0
    n_shards = int(np.clip(n_tokens * n_labels // LEAST_SCORES, 1, MOST_SHARDS))
    cuts = np.searchsorted(ends, n_tokens * np.arange(1, n_shards) / n_shards) + 1
    return np.unique(np.concatenate([[0], np.minimum(cuts, len(lengths)), [len(lengths)]])).astype(np.uint64)


def n_threads(n_jobs: int | None) -> int:
    """Threads for scikit-learn's ``n_jobs``: None is 1, -1 one per core, -2 one per core but one, and so on."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InputError(f"n_jobs must be a whole number of threads, or -1 for all cores; got {n_jobs!r}.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(n_jobs) if n_jobs > 0 else cores + 1 + int(n_jobs))


class Threads:
    """Runs a function over shards, in order of answers, whatever the order of work.

    Where work shall go elsewhere (processes, machines), this is the class to replace: it needs ``map`` only.
    """

    def __init__(self, n_jobs: int | None = 1):
        self.n = n_threads(n_jobs)
        self._pool = ThreadPoolExecutor(self.n) if self.n > 1 else None

    def map(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
        """Return [function(item) for item in items]."""
        if self._pool is None:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))
