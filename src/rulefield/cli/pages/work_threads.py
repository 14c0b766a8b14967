"""Threads that answer questions under a time limit."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread, current_thread
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from rulefield.interrupts import check, until
from rulefield.parallel import give_back

T = TypeVar("T")
LONG_SECONDS = 1.0
"""Work after which memory is given back to the system."""


class _QueuedWork(NamedTuple):
    work: Callable[[], Any]
    moment: float
    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class WorkThreads:
    """A fixed number of threads; a thread is free again when its work has ended, not when its client has gone.

    They are daemons, so that the process ends without them (those of ``concurrent.futures`` and ``anyio`` are waited for).

    Parameters
    ----------
    n : int
        Threads.
    """

    def __init__(self, n: int):
        self.n = n
        self.busy: set[Thread] = set()
        self._jobs: SimpleQueue[_QueuedWork] = SimpleQueue()
        self._threads: list[Thread] = []

    async def run(self, work: Callable[[], T], seconds: float) -> T:
        """Return ``work()``, done in a thread; it must end, and if it waits too long it never begins, within ``seconds``."""
        loop = asyncio.get_running_loop()
        job = _QueuedWork(work, monotonic() + seconds, loop.create_future(), loop)
        self._jobs.put(job)
        if len(self._threads) < self.n:
            self._threads.append(Thread(target=self._serve, daemon=True))
            self._threads[-1].start()
        return await job.answer

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            if job.answer.done():  # its client has gone
                continue
            self.busy.add(current_thread())
            begun = monotonic()
            try:
                with until(job.moment):
                    check()
                    _settle(job, job.work(), None)
            except BaseException as error:
                _settle(job, None, error)
            finally:
                self.busy.discard(current_thread())
            del job  # questions and answers are large
            if monotonic() - begun > LONG_SECONDS:
                give_back()


def _settle(job: _QueuedWork, value: Any, error: BaseException | None) -> None:
    def settle() -> None:
        if job.answer.done():
            return
        if error is None:
            job.answer.set_result(value)
        else:
            job.answer.set_exception(error)

    with suppress(RuntimeError):  # the loop is closed: nothing waits for an answer
        job.loop.call_soon_threadsafe(settle)
