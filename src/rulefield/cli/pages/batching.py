"""Questions that wait are answered together: one call for many texts costs half of what many calls for few do."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from rulefield.cli.pages.work_threads import WorkThreads

MOST_TOGETHER = 2_000
"""Texts that are answered together: more gain little, and those that come meanwhile wait for them."""

Answers = Callable[[list[str], bool], list[str]]


class _Question(NamedTuple):
    texts: list[str]
    probabilities: bool
    answer: asyncio.Future[list[str]]


class Batches:
    """Answers the questions of one event loop in a thread, those that came meanwhile together; none waits for company.

    Parameters
    ----------
    answers : function of (texts, probabilities)
        Returns one answer per text. Called in a thread.
    seconds : float
        Time limit of each call.
    """

    def __init__(self, answers: Answers, seconds: float):
        self.answers, self.seconds = answers, seconds
        self.workers = WorkThreads(1)
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
        while batch := self._taken():
            await self._answer(batch)
        self._at_work.discard(asyncio.current_task())  # here and now: who asks next must not count on this task

    async def _answer(self, batch: list[_Question]) -> None:
        """Answer some questions together; where that fails, one by one: the others are not to suffer for one."""
        texts = [text for question in batch for text in question.texts]
        try:
            made = await self.workers.run(lambda: self.answers(texts, batch[0].probabilities), self.seconds)
        except Exception as error:
            if len(batch) > 1:
                for question in batch:
                    if not question.answer.done():
                        await self._answer([question])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        first = 0
        for question in batch:
            if not question.answer.done():
                question.answer.set_result(made[first : first + len(question.texts)])
            first += len(question.texts)

    def _taken(self) -> list[_Question]:
        """Take the questions that come first and want the same; those that nobody waits for any more are dropped."""
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
