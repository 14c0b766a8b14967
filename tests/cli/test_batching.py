"""Questions that are answered together: each gets its own answer or its own error, whatever it came with."""

import asyncio
import threading

import pytest

from rulefield.cli.pages.work_threads import MOST_TOGETHER, Batches
from rulefield.exceptions import InputError


class Library:
    """Says each text backwards; waits at its first call until it is let go, so that questions gather."""

    def __init__(self):
        self.go, self.calls = threading.Event(), []

    def __call__(self, texts, probabilities):
        assert self.go.wait(20)
        self.calls.append((len(texts), probabilities))
        if "bad" in texts:
            raise InputError("bad.")
        if "broken" in texts:
            raise ZeroDivisionError
        return [f"{text[::-1]}{probabilities:d}" for text in texts]


def asked(questions):
    """Ask all questions at once; return the answers, errors among them, and the library."""
    library = Library()

    async def run():
        batches = Batches(library, 20.0)
        tasks = [asyncio.create_task(batches.ask(*question)) for question in questions]
        await asyncio.sleep(0.05)
        library.go.set()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    return asyncio.run(run()), library


def test_each_question_gets_its_own_answers():
    questions = [([f"text {k} {i}" for i in range(k % 7)], k % 5 == 0) for k in range(300)]
    answers, library = asked(questions)
    assert answers == [[f"{text[::-1]}{p:d}" for text in texts] for texts, p in questions]
    assert len(library.calls) < 150
    assert max(size for size, _ in library.calls) <= MOST_TOGETHER


def test_a_large_question_is_answered_by_itself():
    large = [str(i) for i in range(2 * MOST_TOGETHER)]
    answers, library = asked([(["a"], False), (large, False), (["b"], False)])
    assert answers == [["a0"], [f"{text[::-1]}0" for text in large], ["b0"]]
    assert [size for size, _ in library.calls] == [1, len(large), 1]


@pytest.mark.parametrize(("text", "error"), [("bad", InputError), ("broken", ZeroDivisionError)])
def test_the_mistake_of_one_is_told_to_that_one(text, error):
    answers, library = asked([(["a"], False), (["b", text], False), (["c"], False), (["d"], False)])
    assert [answers[0], *answers[2:]] == [["a0"], ["c0"], ["d0"]]
    assert isinstance(answers[1], error)
    assert library.calls[0] == (5, False)


def test_who_asks_as_soon_as_answered_is_answered_again():
    library = Library()
    library.go.set()

    async def run():
        batches = Batches(library, 20.0)
        for k in range(50):
            assert await batches.ask([f"{k}"], False) == [f"{k}"[::-1] + "0"]

    asyncio.run(asyncio.wait_for(run(), 20))


def test_what_nobody_waits_for_is_not_worked_on():
    library = Library()

    async def run():
        batches = Batches(library, 20.0)
        first = asyncio.create_task(batches.ask(["a"], False))
        await asyncio.sleep(0.05)
        given_up = asyncio.create_task(batches.ask(["b"] * 9, False))
        last = asyncio.create_task(batches.ask(["c"], False))
        await asyncio.sleep(0.05)
        given_up.cancel()
        await asyncio.sleep(0.05)
        library.go.set()
        return await asyncio.wait_for(asyncio.gather(first, last), 20), given_up

    answers, given_up = asyncio.run(run())
    assert answers == [["a0"], ["c0"]]
    assert library.calls == [(1, False), (1, False)]
    with pytest.raises(asyncio.CancelledError):
        given_up.result()
