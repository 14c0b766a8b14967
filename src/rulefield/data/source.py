"""Where a file of documents comes from: its bytes, lines or text, decompressed, decoded, with limits."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rulefield.exceptions import InputError

STANDARD = "-"
MOST_UNPACKED = 100
"""How many times its size a compressed file may unpack to, beyond :data:`ALWAYS_UNPACKED` bytes."""
ALWAYS_UNPACKED = 1 << 24
_PIECE = 1 << 20


@dataclass(frozen=True)
class Source:
    """A file (or ``-``, standard input), its encoding, and what the user said of its fields.

    Parameters
    ----------
    path : str
    encoding : str
        UTF-8 with or without a byte order mark by default.
    options : mapping
        Of one format or another: ``column`` (of a table or of CoNLL-U), ``text``.
    """

    path: str
    encoding: str = "utf-8-sig"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """What error messages call it."""
        return "standard input" if self.path == STANDARD else repr(self.path)

    def open(self) -> IO[bytes]:
        """Open the bytes, decompressed where the name ends in .gz."""
        if self.path == STANDARD:
            return sys.stdin.buffer
        path = Path(self.path)
        if not path.is_file():
            raise InputError(f"there is no file {self.place}.")
        return Unpacked(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (number from 1, line without its end); only the line in work is in memory."""
        file = self.open()
        try:
            with io.TextIOWrapper(file, encoding=self.encoding, newline="\n") as text:
                for number, line in enumerate(text, 1):
                    yield number, line.rstrip("\n").removesuffix("\r")
        except (UnicodeDecodeError, LookupError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self.unreadable(error) from None

    def text(self) -> str:
        """Return the whole text, line ends as they are."""
        try:
            with self.open() as file:
                return file.read().decode(self.encoding)
        except (UnicodeDecodeError, LookupError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self.unreadable(error) from None

    def unreadable(self, error: Exception) -> InputError:
        """Say why it cannot be read."""
        if isinstance(error, UnicodeDecodeError):
            return InputError(
                f"{self.place} is not {self.encoding.removesuffix('-sig')} text ({error.reason} at byte {error.start}); "
                f"give its encoding (--encoding latin-1, say)."
            )
        if isinstance(error, LookupError):
            return InputError(f"there is no encoding {self.encoding!r}; try utf-8, latin-1 or cp1252.")
        return InputError(f"{self.place} is not a whole gzip file: {error}.")


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
