"""Where a file of documents comes from: its bytes, lines or text, decompressed, decoded, with limits."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rulefield.data.unpacking import Unpacked
from rulefield.exceptions import InputError

STANDARD = "-"


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
