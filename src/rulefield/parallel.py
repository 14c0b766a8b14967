"""Work in parts: how data is cut, what ``n_jobs`` means, and the one executor of the library.

A part is worked on by a pure function: it reads the part and returns its answer, and writes nothing that others see.
Parts depend on the data, never on the number of workers, and answers are added up in the order of parts, so that a
result is the same to the last bit wherever the work was done.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from ctypes import CDLL
from itertools import islice
from numbers import Integral
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from rulefield.exceptions import ClusterError, InputError, RulefieldError
from rulefield.interrupts import carried, check

MOST_SHARDS = 64
# Scores of labels in one shard: enough that zeroing and adding up its gradient is a small part of its work.
LEAST_SCORES = 750_000

MOST_THREADS = 64
"""Per core: more only cost memory, and a system may not have them."""
RETRIES = 3
"""How often a cluster tries a task again whose function failed by surprise."""
PATIENCE = 1.0
LONGEST_WITHOUT_WORKERS = 60.0

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
        raise InputError(f"n_jobs must be a whole number of threads, or -1 for one per core; got {n_jobs!r}.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(1, int(n_jobs) if n_jobs > 0 else cores + 1 + int(n_jobs)), MOST_THREADS * cores)


def give_back() -> None:
    """Give memory that was freed back to the system, if the C library keeps it (glibc; elsewhere nothing is done).

    Arrays of packing and of stochastic steps leave holes that are too small for the vectors of L-BFGS: a tenth of a fit.
    """
    with suppress(OSError, AttributeError, TypeError):
        CDLL(None).malloc_trim(0)


class Threads:
    """The executor of one machine: kernels release the GIL. Threads start with the first work for two.

    ``apart``: whether tasks and answers are sent to other processes.
    """

    apart = False

    def __init__(self, n_jobs: int | None = 1):
        self.n = n_threads(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[..., Answer], items: Iterable[Any], *shared: Any) -> list[Answer]:
        """Return ``[function(item, *shared) for item in items]``; after an error or Ctrl-C nothing is still at work."""
        items = list(items)
        if self.n == 1 or len(items) < 2:
            return [_checked(function, item, *shared) for item in items]
        return list(self.stream(function, items, *shared))

    def stream(self, function: Callable[..., Answer], items: Iterable[Any], *shared: Any) -> Iterator[Answer]:
        """Give the same one by one; no more than two items per thread are taken ahead."""
        if self.n == 1:
            yield from (_checked(function, item, *shared) for item in items)
            return
        pool = self._pool = self._pool or ThreadPoolExecutor(self.n)
        function = carried(function)
        source = iter(items)
        futures = deque(pool.submit(function, item, *shared) for item in islice(source, 2 * self.n))
        try:
            while futures:
                answer = futures.popleft().result()
                check()
                futures.extend(pool.submit(function, item, *shared) for item in islice(source, 1))
                yield answer
        finally:
            for future in futures:
                future.cancel()
            wait(futures)

    def close(self) -> None:
        """End the threads; they start again when there is work."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __enter__(self) -> "Threads":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Workers:
    """The executor of a cluster: every task is a call of its own, and carries all that it needs.

    Nothing is scattered or pinned, so a task whose worker is lost is done again by another one. Functions must be those of a
    module, and items small.
    """

    apart = True

    def __init__(self, client: Any):
        self.client = client

    def stream(self, function: Callable[..., Answer], items: Iterable[Any], *shared: Any) -> Iterator[Answer]:
        """Give the same one by one; no more than three items per thread are taken ahead."""
        source = iter(items)
        futures: deque[Any] = deque()

        def submit(n: int) -> None:
            futures.extend(self._submit(_guarded, function, item, *shared) for item in islice(source, n))

        try:
            submit(3 * self._width())
            while futures:
                answer = self._result(futures[0])
                futures.popleft().release()
                submit(1)
                yield answer
        except _losses() as error:
            raise ClusterError(f"the cluster did not finish a part ({_reason(error)}).") from None
        finally:
            with suppress(Exception):  # a cluster that is gone cannot be told
                self.client.cancel(list(futures))

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self.client.submit(function, *arguments, pure=False, retries=RETRIES)
        except _losses() as error:
            raise ClusterError(f"the cluster takes no work ({_reason(error)}).") from None

    def _width(self) -> int:
        return max(1, sum(worker["nthreads"] for worker in self._workers().values()))

    def _workers(self) -> dict[str, Any]:
        return self.client.scheduler_info(n_workers=-1).get("workers", {})  # {} where the scheduler is gone

    def _result(self, future: Any) -> Any:
        lonely = 0.0
        while True:
            try:
                good, answer = future.result(timeout=PATIENCE)
            except TimeoutError:
                check()
                if self.client.status != "running":
                    raise ClusterError(
                        f"the cluster did not finish a part (its client is {self.client.status})."
                    ) from None
                lonely = 0.0 if self._workers() else lonely + PATIENCE
                if lonely >= LONGEST_WITHOUT_WORKERS:
                    raise ClusterError(f"the cluster has had no worker for {lonely:.0f} s.") from None
                continue
            check()
            if not good:
                raise answer
            return answer

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster as it is: it is the user's."""


def _guarded(function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Answer with errors that a second try would meet again, instead of raising them: nobody tries again."""
    try:
        return True, function(*arguments)
    except RulefieldError as error:
        return False, error


def _losses() -> tuple[type[BaseException], ...]:
    """Return what a client raises when workers or the scheduler are lost."""
    from distributed import KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    return KilledWorker, CommClosedError, ClosedClientError, CancelledError, OSError


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:120]}" if text else type(error).__name__


def _checked(function: Callable[..., Answer], *arguments: Any) -> Answer:
    check()
    return function(*arguments)


def in_threads(function: Callable[[Item], Answer], items: Iterable[Item], n_jobs: int | None = None) -> list[Answer]:
    """Return [function(item) for item in items] from threads that live as long as this call; a single item needs none."""
    items = list(items)
    if len(items) == 1:
        return [_checked(function, items[0])]
    with Threads(n_jobs) as threads:
        return threads.map(function, items)


def executor_of(n_jobs: int | None, client: Any = None) -> "Threads | Workers":
    """Return threads of this process, or the workers of a cluster."""
    return Threads(n_jobs) if client is None else Workers(client)
