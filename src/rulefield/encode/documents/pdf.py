"""PDF: lines of text and rulings of every page, by pdfplumber (extra ``documents``), in a process of its own."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import Box, page_of
from rulefield.encode.formats.base import bad_record
from rulefield.exceptions import InputError

MOST_BYTES = 200_000_000
"""Largest file."""
PAGE_SECONDS, FILE_SECONDS = 20, 600
"""CPU seconds that one page, and all pages of a file, may take."""
MOST_MEGABYTES = 1024
"""Address space of the process that reads a file."""
MOST_OBJECTS = 100_000
"""Letters, lines and rectangles of a page; a full page of small print has 10,000."""
_CHILD = Path(__file__).with_name("pdf_child.py")


def read(source: Source) -> list[Page]:
    """Return the pages of a PDF: its lines of text, and its lines and thin rectangles as separators."""
    if find_spec("pdfplumber") is None:
        raise InputError("PDF files need pdfplumber: pip install 'rulefield[documents]'.")
    with source.open() as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise bad_record(source.place, f"has more than {MOST_BYTES:,} bytes; split it.")
    records = _records(source, data)
    if "error" in (last := records[-1] if records else {"error": "is not a PDF that can be read: it has no pages"}):
        raise bad_record(source.place, f"{last['error']}.")
    return [_page(source, f"page {k}", record) for k, record in enumerate(records, 1)]


def _records(source: Source, data: bytes) -> list[dict[str, Any]]:
    limits = map(str, (PAGE_SECONDS, FILE_SECONDS, MOST_MEGABYTES, MOST_OBJECTS))
    # -P: the folder of the program is no place to import from
    done = subprocess.run([sys.executable, "-P", str(_CHILD), *limits], input=data, capture_output=True, check=False)
    records = [json.loads(line) for line in done.stdout.splitlines() if line.endswith(b"}")]
    if done.returncode == 0:
        return records
    why = f"takes more than {PAGE_SECONDS} s or {MOST_MEGABYTES} MB; split the file, or leave the page out"
    raise bad_record(source.place, f"page {len(records) + 1} {why}.")


def _page(source: Source, name: str, record: dict[str, Any]) -> Page:
    boxes = [Box(tuple(box), LINE, text, None, -1, str(i)) for i, (*box, text) in enumerate(record["lines"])]
    return page_of(source.place, name, record["size"], boxes, record["rulings"])
