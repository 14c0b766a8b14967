"""Compressed files from untrusted sources: a small one must not fill the memory."""

import gzip
import zlib
from contextlib import suppress
from pathlib import Path

from rulefield.exceptions import InputError

MOST_UNPACKED = 100
"""How many times its size a compressed file may unpack to, beyond :data:`ALWAYS_UNPACKED` bytes."""
ALWAYS_UNPACKED = 1 << 24
_PIECE = 1 << 20


class Unpacked(gzip.GzipFile):
    """A compressed file that is refused if it unpacks to more than a text would: a bomb fills no memory.

    It is unpacked once to count, before a reader makes many times as much of its first megabytes.
    """

    def __init__(self, path: Path):
        super().__init__(path, "rb")
        self._path = path
        most = max(ALWAYS_UNPACKED, MOST_UNPACKED * path.stat().st_size)
        self._left = most
        with suppress(gzip.BadGzipFile, EOFError, zlib.error):  # its reader will see that, and say so
            while self.read1(_PIECE):
                pass
        self.rewind()
        self._left = most

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes, or all of them, piece by piece, so that a bomb is seen before it is unpacked."""
        if size is not None and size >= 0:
            return self._counted(super().read(size))
        pieces = []
        while piece := self.read1(_PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def read1(self, size: int = -1) -> bytes:
        """Read some bytes (what a text reader calls)."""
        return self._counted(super().read1(size))

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise InputError(
                f"{str(self._path)!r} unpacks to more than {MOST_UNPACKED} times its size; unpack it yourself and give "
                "the plain file, if that is meant."
            )
        return data
