"""Reads a PDF in a process of its own, under limits: bytes from standard input, one line of JSON per page to standard output.

A program, not a module: :mod:`rulefield.encode.documents.pdf` runs it. It imports nothing of the library, so that it starts
quickly. A reader of PDF cannot be stopped from within: a stream of 200 kB may unpack to gigabytes, and a page may draw
millions of letters. So the system limits the time and the memory of the process.
"""

import json
import os
import sys
import time
import types
import zlib
from io import BytesIO
from typing import Any

THIN = 3.0  # points: a rectangle that is thinner is a ruled line
MOST_TIMES, ALWAYS_UNPACKED = 100, 1 << 24  # as :mod:`rulefield.data.source`


class TooMuchError(BaseException):
    """A limit is met; no reader of PDF catches it."""


def main(page_seconds: int, file_seconds: int, megabytes: int, most_objects: int) -> None:
    """Read the file and write its pages, and last ``{"error": why}`` if it cannot be read to its end.

    If the memory or the time is not enough, the process ends with a code other than 0.
    """
    set_limit("RLIMIT_AS", megabytes << 20)
    try:
        import pdfplumber
        from pdfminer import converter, pdftypes

        counter = DrawnCounter(converter.PDFLayoutAnalyzer, most_objects)
        vars(pdftypes)["zlib"] = types.SimpleNamespace(**{**vars(zlib), "decompress": unpack})
        with pdfplumber.open(BytesIO(sys.stdin.buffer.read())) as pdf:
            for page in pdf.pages:
                if time.process_time() > file_seconds:
                    raise TooMuchError(f"it takes more than {file_seconds} s")
                set_limit("RLIMIT_CPU", int(time.process_time()) + page_seconds + 1)
                counter.n = 0
                write(read(page))
                page.close()
    except TooMuchError as error:
        write({"error": str(error)})
    except MemoryError:
        os._exit(1)  # a sentence would need some
    except Exception as error:  # every reader of PDF has its own; what they have in common is a broken file
        if isinstance(error.__context__, MemoryError):
            os._exit(1)
        write({"error": f"is not a PDF that can be read: {str(error) or type(error).__name__:.80}"})


class DrawnCounter:
    """Counts what a page draws, while it is drawn."""

    def __init__(self, device: Any, most: int):
        self.n, self.most = 0, most
        for name in ("render_char", "paint_path"):
            setattr(device, name, self.counted(getattr(device, name)))

    def counted(self, draw: Any) -> Any:
        """Return a function that draws and counts."""

        def drawn(*arguments: Any, **options: Any) -> Any:
            self.n += 1
            if self.n > self.most:
                raise TooMuchError(f"a page has more than {self.most:,} letters and lines")
            return draw(*arguments, **options)

        return drawn


def read(page: Any) -> dict[str, Any]:
    """Return the lines of text of a page, and its lines and thin rectangles as rulings."""
    rulings = [box(one) for one in [*page.lines, *page.rects]]
    return {
        "size": [float(page.width), float(page.height)],
        "lines": [[*box(line), line["text"]] for line in page.extract_text_lines(return_chars=False)],
        "rulings": [b for b in rulings if min(b[2] - b[0], b[3] - b[1]) <= THIN],
    }


def box(found: dict[str, Any]) -> list[float]:
    """Left, top, right and bottom."""
    return [float(found[side]) for side in ("x0", "top", "x1", "bottom")]


def unpack(data: bytes, *how: Any) -> bytes:
    """Decompress a stream, unless it is a bomb."""
    stream = zlib.decompressobj(*how)
    made = stream.decompress(data, max(ALWAYS_UNPACKED, MOST_TIMES * len(data)))
    if stream.unconsumed_tail:
        raise TooMuchError(f"one of its streams unpacks to more than {MOST_TIMES} times its size")
    if not stream.eof:
        raise zlib.error("incomplete or truncated stream")
    return made


def set_limit(name: str, most: int) -> None:
    """Limit what this process may use; Windows cannot."""
    try:
        import resource
    except ImportError:
        return
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def write(record: dict[str, Any]) -> None:
    """Write one line."""
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
