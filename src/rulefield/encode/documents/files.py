"""Files of pages, found by name and content: PAGE XML, JSON of boxes, PDF."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rulefield.data.pages import Page
from rulefield.data.source import Source
from rulefield.encode.documents import boxes_json, page_xml, pdf
from rulefield.exceptions import InputError

_ROOT = re.compile(r"<([\w.-]+:)?PcGts\b")
ANY_BYTES = "latin-1"  # reads every file; names of elements and keys are ASCII
_JSON_NAMES = (".json", ".jsonl", ".ndjson")


def read_pages(path: str | Path, label: str = "label") -> list[Page]:
    """Return the pages of a file (``.gz`` is read, too); ``label`` is the field of a box's label in JSON."""
    source = Source(str(path))
    name = source.path.lower().removesuffix(".gz")
    if name.endswith(".pdf"):
        return pdf.read(source)
    if name.endswith(_JSON_NAMES):
        return boxes_json.read(source, label)
    if name.endswith(".xml"):
        return page_xml.read(source)
    raise InputError(f"{source.place} is no file of pages; known are .xml, {', '.join(_JSON_NAMES)}, .pdf.")


def write_pages(pages: Sequence[Page], source: str | Path, target: str | Path) -> Path:
    """Write a file as it was read, with the labels of its pages put in; returns where (a PDF becomes ``.jsonl``)."""
    given = Source(str(source))
    name, path = given.path.lower().removesuffix(".gz"), Path(target)
    if path.suffix == ".gz":
        path = path.with_suffix("")
    if name.endswith(".xml"):
        page_xml.write(given, pages, str(path))
        return path
    if name.endswith(".pdf"):
        path = path.with_suffix(".jsonl")
        boxes_json.write(pages, str(path))
    else:
        boxes_json.write_again(given, pages, str(path))
    return path


def is_page_file(path: str) -> bool:
    """Whether a name, or what stands at the beginning of a JSON or XML file, is one of a file of pages."""
    name = path.lower().removesuffix(".gz")
    if name.endswith(_JSON_NAMES) and Path(path).is_file():
        return boxes_json.recognizes(Source(path))
    if name.endswith(".xml") and Path(path).is_file():  # texts with inline elements have that name, too
        return bool(_ROOT.search("".join(line for _, line in islice(Source(path, ANY_BYTES).lines(), 50))[:5000]))
    return name.endswith(".pdf")
