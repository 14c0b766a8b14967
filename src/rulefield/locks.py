"""Locks and forks: a child process has only the thread that forked, and must not wait for one that it does not have."""

import os
import sys
from functools import cached_property
from threading import RLock
from typing import Any


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


if hasattr(os, "register_at_fork") and sys.version_info < (3, 12):  # later ones have no lock
    os.register_at_fork(after_in_child=_renew_cached_properties)
