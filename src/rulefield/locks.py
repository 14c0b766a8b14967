"""Locks and forks: a child process has only the thread that forked, and must not wait for one that it does not have."""

import os
import sys
from functools import cached_property
from threading import RLock
from time import monotonic, sleep
from typing import Any

IMPORT_SECONDS = 5.0
"""How long a fork waits for imports of other threads: they take less, unless the thread that forks is importing itself."""
PACKAGES = ("rulefield", "numba", "llvmlite", "numpy", "scipy", "sklearn")
"""What the library imports when it is first needed, in any thread."""


def held_over_forks(lock: Any) -> Any:
    """Have every fork take a module's lock first, so that the child finds it free and what it guards whole; return it.

    Locks are taken in the reverse order of these calls: those of the modules that import others come first, as in use.
    """
    if hasattr(os, "register_at_fork"):  # not on Windows, which knows no fork
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def _renew_cached_properties() -> None:
    """Give each cached property of the library a new lock: nothing is kept of a value that was not complete."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rulefield."):
            for owner in [value for value in vars(module).values() if isinstance(value, type)]:
                for member in vars(owner).values():
                    if isinstance(member, cached_property):
                        vars(member)["lock"] = RLock()


def _wait_for_imports() -> None:
    """Wait until no module of the library is half imported: the child would wait for ever for the thread that does it."""
    moment = monotonic() + IMPORT_SECONDS
    while monotonic() < moment and any(map(_is_half_imported, list(sys.modules.items()))):
        sleep(0.001)


def _is_half_imported(entry: tuple[str, Any]) -> bool:
    name, module = entry
    return name.partition(".")[0] in PACKAGES and getattr(getattr(module, "__spec__", None), "_initializing", False)


if hasattr(os, "register_at_fork"):  # the first one registered is the last to be called: when the locks are held
    os.register_at_fork(before=_wait_for_imports)
if hasattr(os, "register_at_fork") and sys.version_info < (3, 12):  # later ones have no lock
    os.register_at_fork(after_in_child=_renew_cached_properties)
