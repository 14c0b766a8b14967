"""The decorators of all kernels.

Cached on disk (a second process does not compile), GIL released (threads run in parallel), no fast
maths (minus infinity means "forbidden", and the full flag lets the compiler assume that infinities do
not exist). Division follows numpy, so that no kernel carries Python's zero-division branches.

Numba itself is imported at the first call of a kernel: a process that reads a model and labels one text never pays for it
(see :mod:`rulefield.kernels.light`).

A cached kernel is not recompiled when a kernel *in another file* that it calls is edited: remove the
``__pycache__`` folder of this package after such an edit.
"""

import os
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import cache, cached_property, partial, update_wrapper
from importlib import import_module
from time import perf_counter
from typing import Any, ClassVar

from rulefield.interrupts import deferred
from rulefield.locks import held_over_forks


class Kernel:
    """A function that is compiled at its first call, with options of ``numba.njit``.

    Numba takes it for a dispatcher of its own where another kernel calls it: it asks every global for its
    ``_numba_type_``, and for ``targetoptions`` and ``py_func`` where it may be inlined. ``twin`` does the same in numpy, for
    little work in a process that has loaded no kernel yet; it returns NotImplemented if the work is not little.
    """

    any_loaded: ClassVar[bool] = False
    """Whether any kernel of this process was loaded: from then on all work is done by kernels."""
    keeps_code: ClassVar[bool] = True
    """Whether compiled code can be kept on disk."""

    def __init__(self, function: Callable, **options: Any):
        update_wrapper(self, function)
        self.py_func, self.targetoptions = function, options
        self.twin: Callable | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel, or its twin."""
        if self.twin is not None and not Kernel.any_loaded:
            answer = self.twin(*arguments)
            if answer is not NotImplemented:
                return answer
        return self.dispatcher(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """What numba makes of the function."""
        from numba import njit

        if not Kernel.any_loaded:
            _listen()
        Kernel.any_loaded = True
        with _LOADING:  # no other thread compiles before all of them are known
            while _overloads:
                _overload(*_overloads.pop())
        made = self._compilable(njit)
        stored = getattr(getattr(made, "_cache", None), "_cache_file", None)
        if stored is not None:
            stored._load_index = _or_nothing(stored._load_index)
        if not hasattr(made, "get_call_template"):
            return made  # NUMBA_DISABLE_JIT: the function itself
        made.get_call_template = _without_literals(made.get_call_template)
        if hasattr(made._cache, "_load_overload"):
            made._cache.load_overload = partial(_load, made._cache)
        return made

    def _compilable(self, njit: Callable) -> Any:
        """Return numba's dispatcher; it keeps compiled code in a temporary folder if no other can be written, or nowhere."""
        if not Kernel.keeps_code:
            return njit(**{**self.targetoptions, "cache": False})(self.py_func)
        try:
            return njit(**self.targetoptions)(self.py_func)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
        _keep_elsewhere()
        return self._compilable(njit)

    @cached_property
    def inner(self) -> Any:
        """The same for calls by other kernels: without the code that turns Python's objects into arrays and back."""
        from numba import njit

        made: Any = njit(**(self.targetoptions | {"cache": False, "no_cpython_wrapper": True}))(self.py_func)
        made.get_call_template = _without_literals(made.get_call_template)
        return made

    @property
    def _numba_type_(self) -> Any:
        return self.inner._numba_type_


def _keep_elsewhere() -> None:
    """Keep compiled code in a temporary folder, or not at all if that is not this user's own; warn once."""
    config: Any = import_module("numba.core.config")
    folder = _own_temporary_folder()
    folder = None if folder == config.CACHE_DIR else folder
    Kernel.keeps_code = folder is not None
    config.CACHE_DIR = folder or ""
    where = f"is kept in {folder!r}" if folder else "cannot be kept, so that every process compiles again"
    warnings.warn(
        f"compiled code {where}: neither the package's folder nor the user's cache folder can be written. Set "
        "NUMBA_CACHE_DIR to a folder that can, or run 'rulefield warm-up' when the package is installed.",
        RuntimeWarning,
        stacklevel=2,
    )


def _own_temporary_folder() -> str | None:
    """Return a folder that nobody else can write: what lies there is loaded as code."""
    if not hasattr(os, "getuid"):
        return None
    folder = os.path.join(tempfile.gettempdir(), f"rulefield-{os.getuid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder if private and os.access(folder, os.W_OK) else None


class _CompileTime:
    """Adds up the time of compilations, and says once on the error stream that there are some when they take long."""

    def __init__(self) -> None:
        self.seconds, self._begun, self._depth, self._told = 0.0, 0.0, 0, False

    def notify(self, event: Any) -> None:
        """Take an event of numba: a compilation begins or ends; one may lie within another."""
        if event.is_start:
            self._begun = perf_counter() if self._depth == 0 else self._begun
        else:
            self.seconds += perf_counter() - self._begun if self._depth == 1 else 0.0
        running = perf_counter() - self._begun if self._depth or event.is_start else 0.0
        self._depth += 1 if event.is_start else -1
        if not self._told and self.seconds + running > TOLD_SECONDS:
            self._told = True
            print("rulefield: compiling, once per installation ...", file=sys.stderr, flush=True)


TOLD_SECONDS = 1.0
"""Compilation that takes longer is announced."""
_compile_time = _CompileTime()


def compile_seconds() -> float:
    """Return how long this process has compiled, in seconds of the clock."""
    return _compile_time.seconds


def _listen() -> None:
    """Hear of compilations; what is loaded from the disk is none."""
    from numba.core import event

    event.Listener.register(_CompileTime)
    event.register("numba:compile", _compile_time)


def _or_nothing(load_index: Callable[[], dict]) -> Callable[[], dict]:
    """Take a cache that names classes of another version of the library for an empty one; numba raises."""

    def load() -> dict:
        try:
            return load_index()
        except (AttributeError, ImportError, TypeError):
            return {}

    return load


@cache
def _name_runtime() -> None:
    """Tell the linker where arrays are allocated and freed; compiled code holds the rest of numba's runtime."""
    from llvmlite import binding

    for name, address in import_module("numba.core.runtime._nrt_python").c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _load(cache: Any, signature: Any, context: Any) -> Any:
    """Load compiled code, as numba does, but without what only compilation needs (50 MB, .3 s); None if there is none.

    Ctrl-C waits meanwhile: an import that is torn in two cannot be repeated.
    """
    _name_runtime()
    with deferred():
        with cache._guard_against_spurious_io_errors():
            found = cache._load_overload(signature, context)
            if found is not None:
                return found
        context.refresh()
    return None


def _without_literals(get_call_template: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Compile a kernel that others call with constants for their type; numba would do so again for each constant."""
    from numba.core.types import unliteral

    def get(arguments: Any, keywords: Any) -> Any:
        return get_call_template(
            tuple(map(unliteral, arguments)), {name: unliteral(kind) for name, kind in dict(keywords).items()}
        )

    return get


def kernel(function: Callable) -> Any:
    """Compile a function at its first call, and keep it on disk."""
    return Kernel(function, cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)


def piece(function: Callable) -> Any:
    """Mark a small piece of a kernel, which the compiler puts into its callers: a call passes every array as seven words.

    LLVM does so. Numba's own ``inline="always"`` copies and types the piece again for every caller, which takes longer and
    gives no faster code.
    """
    return Kernel(function, nogil=True, error_model="numpy", forceinline=True)


class Intrinsic:
    """An intrinsic of numba by its place, imported when a kernel that uses it is compiled."""

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name

    @cached_property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        made = getattr(import_module(self.module), self.name)
        cpu_target.typing_context.refresh()  # it learns of intrinsics that were made since the kernel's compilation began
        return cpu_target.typing_context.resolve_value_type(made)


_LOADING = held_over_forks(threading.Lock())
_overloads: list[tuple[Callable, Callable]] = []


def overload(function: Callable) -> Callable[[Callable], Callable]:
    """Say, as ``numba.extending.overload`` does, what a function is in kernels; numba hears of it before the first one."""

    def keep(implementation: Callable) -> Callable:
        _overloads.append((function, implementation))
        return implementation

    return keep


def _overload(function: Callable, implementation: Callable) -> None:
    from numba.extending import overload as now

    now(function)(implementation)
