"""Writing files: what stands at a path is never lost to a half-written one, nor replaced where it is no file.

Everything that the library writes goes through :func:`whole_file`. A regular file appears when it is complete:
its bytes go to a temporary file beside it, which then takes its name. What is no regular file is not replaced:
pipes and character devices are written into, everything else is refused. Links are followed. Text is packed where the name
ends in .gz, as it is unpacked in reading.
"""

import gzip
import hashlib
import io
import os
import platform
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

from rulefield.exceptions import InputError

TEMPORARY = ".rulefield-tmp"
"""How the names of temporary files end: ``.<file>-<machine>-<process>-<random>.rulefield-tmp``, file and machine as digests.

They are short, so that every legal name of a file can be written to.
"""
LEFT_SECONDS = 86_400.0
"""Age at which a temporary file of another machine, whose processes cannot be asked for, is taken for a leftover."""


def check_output(path: str | Path) -> None:
    """Raise where :func:`whole_file` could not write, so that no work is lost: call it before the work begins.

    Raises
    ------
    InputError
        The path is no name of a file, or that of a directory, a block device or a socket; its folder is missing; or
        nothing may be written there.
    """
    if not str(path) or "\0" in str(path):
        raise InputError(f"cannot write {str(path)!r}: that is no name of a file; give another.")
    if _is_stream(path):
        return
    target = _target(path)
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {str(path)!r}: the folder {str(folder)!r} does not exist; create it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {str(path)!r}: the folder {str(folder)!r} is not writable; choose another.")
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(f"cannot write {str(path)!r}: the file is read-only; give another name.")


@contextmanager
def whole_file(path: str | Path, *, text: bool = False, lasting: bool = True) -> Iterator[IO[Any]]:
    """Open a file to write to (``text``: UTF-8, else bytes) that appears at ``path`` when the block is done.

    ``lasting``: it must survive the machine's fall. What processes of one run tell each other need not, which is quicker.

    Where the block raises, what stood there before is untouched and nothing is left behind. Temporary files that a
    killed process left for the same path are removed.
    """
    check_output(path)
    if _is_stream(path):
        with os.fdopen(os.open(path, os.O_WRONLY), "wb") as raw, _layered(raw, path, text) as file:
            yield file
        return
    target = _target(path)
    _remove_leftovers(target)
    temporary = target.with_name(f".{_digest(target.name)}-{_machine()}-{os.getpid()}-{token_hex(4)}{TEMPORARY}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as raw:
            with _layered(raw, path, text) as file:
                yield file
            raw.flush()
            if lasting:
                os.fsync(raw.fileno())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file in one go; see :func:`whole_file`."""
    with whole_file(path, text=isinstance(content, str)) as file:
        file.write(content)


def _is_stream(path: str | Path) -> bool:
    """Whether to write into what stands there (a pipe, a character device); raises where it is no file at all."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return True
    kind = "directory" if stat.S_ISDIR(mode) else "block device" if stat.S_ISBLK(mode) else "socket"
    raise InputError(f"cannot write {str(path)!r}: it is a {kind}; give the name of a file.")


def _target(path: str | Path) -> Path:
    """Return the file that a path means, links followed (a link that points nowhere names the file to make)."""
    try:
        target = Path(path).resolve()
        with suppress(FileNotFoundError, NotADirectoryError):
            target.lstat()
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"cannot write {str(path)!r}: {error}; give another name.") from None
    if target.is_symlink():  # resolving ends at a link only where links go in a circle (before Python 3.13 it raised)
        raise InputError(f"cannot write {str(path)!r}: its links go in a circle; give another name.")
    return target


@contextmanager
def _layered(raw: IO[bytes], path: str | Path, text: bool) -> Iterator[IO[Any]]:
    """Open bytes for text, packed where the name says so."""
    if not text:
        yield raw
        return
    packed = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if str(path).lower().endswith(".gz") else None
    file = io.TextIOWrapper(packed or raw, encoding="utf-8")
    try:
        yield file
    except UnicodeEncodeError as error:
        character = ord(error.object[error.start])
        raise InputError(
            f"{str(path)!r} is written in UTF-8, which cannot hold U+{character:04X}, half a surrogate pair; remove it "
            "from the text, or write JSON."
        ) from None
    file.detach()  # flushes, and leaves the bytes open
    if packed is not None:
        packed.close()


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of the same path that no process writes to."""
    name = re.compile(rf"\.{_digest(target.name)}-([0-9a-f]{{8}})-(\d+)-[0-9a-f]{{8}}{re.escape(TEMPORARY)}")
    for entry in os.scandir(target.parent):
        if found := name.fullmatch(entry.name):
            with suppress(OSError):  # another save was quicker, or Windows knows that it is in use
                if _is_left(entry, found[1], int(found[2])):
                    os.unlink(entry.path)


def _is_left(entry: os.DirEntry[str], machine: str, process: int) -> bool:
    if machine == _machine():
        return not process_runs(process)
    return time.time() - entry.stat().st_mtime > LEFT_SECONDS


@cache
def _machine() -> str:
    """Return a digest of what a process number belongs to: a machine, and on Linux its start and the container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return _digest("\n".join(parts))


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:8]


def process_runs(process: int) -> bool:
    """Whether a process of this machine runs (on Windows, where one cannot ask, a file in use resists removal)."""
    if os.name == "nt":
        return process == os.getpid()
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
