"""Ctrl-C at safe moments: a fit that is interrupted keeps a model, and no compiled call is torn in two.

Python raises ``KeyboardInterrupt`` between any two instructions. In the middle of an update that leaves a learner in
a state that never was; inside a call into compiled code it becomes a ``SystemError``. So learners run under
:func:`deferred`: the first Ctrl-C is kept until they (or the executor, between two parts) call :func:`check`, the
second one interrupts at once. Elsewhere in a fit :func:`watched` turns a ``SystemError`` that Ctrl-C caused back into
``KeyboardInterrupt``.

Signals belong to the main thread: in other threads, and where a program handles SIGINT itself, all of this does
nothing.

Work may also have a time limit (:func:`until`), which ends it at the same moments: servers stop what no client waits for.
"""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from time import monotonic
from typing import Any, TypeVar, cast

from rulefield.exceptions import TimeLimitError

Function = TypeVar("Function", bound=Callable[..., Any])


class _Watch:
    """What the handler has seen: interrupts since the watch began, the one that waits, learners that defer it."""

    active, seen, waiting, deferring = False, 0, False, 0

    def begin(self) -> None:
        """Forget what was seen."""
        self.active, self.seen, self.waiting, self.deferring = True, 0, False, 0

    def on_signal(self, number: int, frame: Any) -> None:
        self.seen += 1
        if self.deferring and not self.waiting:
            self.waiting = True
            return
        self.waiting = False
        raise KeyboardInterrupt


class _Limit(threading.local):
    """The moment when the work of this thread must end."""

    at = math.inf


_WATCH = _Watch()
_LIMIT = _Limit()


@contextmanager
def _told_by_kernels() -> Iterator[None]:
    """Within this block the ``SystemError`` with which a compiled call ends on Ctrl-C is a ``KeyboardInterrupt``."""
    try:
        yield
    except SystemError as error:
        if _WATCH.seen:
            raise KeyboardInterrupt from error
        raise


@contextmanager
def watched() -> Iterator[None]:
    """Within this block Ctrl-C is a ``KeyboardInterrupt`` and nothing else."""
    if _WATCH.active or not _ours_to_handle():
        yield
        return
    _WATCH.begin()
    signal.signal(signal.SIGINT, _WATCH.on_signal)
    try:
        with _told_by_kernels():
            yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _WATCH.active = False
    if _WATCH.waiting:
        raise KeyboardInterrupt


@contextmanager
def deferred() -> Iterator[None]:
    """Within this block the first Ctrl-C waits for :func:`check`; one that nobody asked for is raised at the end."""
    with watched():
        if not _in_charge():
            yield
            return
        _WATCH.deferring += 1
        try:
            with _told_by_kernels():
                yield
        finally:
            _WATCH.deferring -= 1
        if not _WATCH.deferring:
            check()


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Within this block :func:`check` raises ``TimeLimitError`` after ``moment`` (of ``time.monotonic``), in this thread."""
    before = _LIMIT.at
    _LIMIT.at = min(before, moment)
    try:
        yield
    finally:
        _LIMIT.at = before


def seconds_left(seconds: float | None = None) -> float | None:
    """Return ``seconds``, or the time to the limit of this thread's work if that is less; None if there is no limit."""
    left = max(_LIMIT.at - monotonic(), 0.0)
    return seconds if left == math.inf or (seconds is not None and seconds <= left) else left


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that works under the limit of the present thread in any other one."""
    moment = _LIMIT.at
    if moment == math.inf:
        return function

    def limited(*args: Any) -> Any:
        with until(moment):
            check()
            return function(*args)

    return limited


def check() -> None:
    """Raise the Ctrl-C that waits, if any, or the end of the time limit: call it where a learner's state is whole."""
    if _LIMIT.at < math.inf and monotonic() >= _LIMIT.at:
        raise TimeLimitError("the time limit of this work is over; give less work, or more time.")
    if _WATCH.waiting and _in_charge():
        _WATCH.waiting = False
        raise KeyboardInterrupt


def interruptible(fit: Function) -> Function:
    """Decorate a ``fit``: Ctrl-C leaves it as ``KeyboardInterrupt`` wherever no model can be kept yet."""

    @wraps(fit)
    def run(*args: Any, **kwargs: Any) -> Any:
        with watched():
            with deferred():
                load_compiler()
            return fit(*args, **kwargs)

    return cast(Function, run)


@cache
def load_compiler() -> None:
    """Import numba: torn in two, an import could not be repeated."""
    from numba.core.registry import cpu_target

    assert cpu_target.target_context is not None  # made when it is first asked for


def _ours_to_handle() -> bool:
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _in_charge() -> bool:
    return _WATCH.active and threading.current_thread() is threading.main_thread()
