"""Threads that answer questions under a time limit; those that wait for the same threads are answered together."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from time import monotonic
from typing import Any, ClassVar, NamedTuple, TypeVar

from rulefield.exceptions import RulefieldError
from rulefield.interrupts import check, until
from rulefield.parallel import give_back

T = TypeVar("T")
LONG_SECONDS = 1.0
"""Work after which memory is given back to the system."""
MOST_TOGETHER = 2_000
"""Texts that are answered together: more gain little, and those that come meanwhile wait for them."""

Answers = Callable[[list[str], bool], list[str]]


class WorkThreads:
    """A fixed number of threads; a thread is free again when its work has ended, not when its client has gone."""

    busy: ClassVar[set[int]] = set()
    """Threads that work, of all objects of this class."""

    def __init__(self, n: int):
        self._pool = ThreadPoolExecutor(n)

    async def run(self, work: Callable[[], T], seconds: float) -> T:
        """Return ``work()``, done in a thread; it must end, and if it waits too long it never begins, within ``seconds``."""
        moment, loop = monotonic() + seconds, asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        def limited() -> None:
            if answer.done():  # its client has gone
                return
            begin = monotonic()
            self.busy.add(get_ident())
            try:
                with until(moment):
                    check()
                    loop.call_soon_threadsafe(settle, work(), None)
            except RulefieldError as error:  # a traceback would keep the question in memory
                loop.call_soon_threadsafe(settle, None, error.with_traceback(None))
            except BaseException as error:
                loop.call_soon_threadsafe(settle, None, error)
            finally:
                self.busy.discard(get_ident())
                if monotonic() - begin > LONG_SECONDS:
                    give_back()

        self._pool.submit(limited)
        return await answer


class _Question(NamedTuple):
    texts: list[str]
    probabilities: bool
    answer: asyncio.Future[list[str]]


class Batches:
    """Answers questions of one event loop in a thread, those that came meanwhile together: that costs half as much.

    ``answers(texts, probabilities)`` returns one answer per text, within ``seconds``.
    """

    def __init__(self, answers: Answers, seconds: float):
        self.answers, self.seconds = answers, seconds
        self.workers = WorkThreads(1)  # two would only wait for each other's Python
        self._waiting: deque[_Question] = deque()
        self._at_work: set[asyncio.Task[None] | None] = set()

    async def ask(self, texts: list[str], probabilities: bool) -> list[str]:
        """Return the answers to one question."""
        answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Question(texts, probabilities, answer))
        if not self._at_work:
            self._at_work.add(asyncio.create_task(self._work()))
        return await answer

    async def _work(self) -> None:
        while batch := self._next_batch():
            await self._answer(batch)
        self._at_work.discard(asyncio.current_task())  # here and now: who asks next must not count on this task

    async def _answer(self, batch: list[_Question]) -> None:
        """Answer some questions together; if that fails, one by one: the others are not to suffer for one."""
        texts = [text for question in batch for text in question.texts]
        try:
            answers = iter(await self.workers.run(lambda: self.answers(texts, batch[0].probabilities), self.seconds))
        except Exception as error:
            if len(batch) > 1:
                for question in batch:
                    if not question.answer.done():
                        await self._answer([question])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        for question in batch:
            part = [next(answers) for _ in question.texts]
            if not question.answer.done():
                question.answer.set_result(part)

    def _next_batch(self) -> list[_Question]:
        """Take the questions that come first and want the same; those whose client has gone are dropped."""
        batch: list[_Question] = []
        size = 0
        while self._waiting:
            question = self._waiting[0]
            if batch and question.probabilities != batch[0].probabilities:
                break
            if batch and size + len(question.texts) > MOST_TOGETHER:
                break
            self._waiting.popleft()
            if not question.answer.done():
                batch.append(question)
                size += len(question.texts)
        return batch
