"""Files of pages, found by name and content: PAGE XML, ALTO, hOCR, JSON of boxes, PDF."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType

from rulefield.data.pages import Page
from rulefield.data.source import Source
from rulefield.encode.documents import alto, boxes_json, hocr, page_xml, pdf
from rulefield.encode.documents.xml_tree import local, read_tree
from rulefield.encode.formats.base import bad_record
from rulefield.exceptions import InputError

_XML: dict[str, ModuleType] = {"page-xml": page_xml, "alto": alto, "hocr": hocr}
_ROOT = re.compile(r"<([\w.-]+:)?(PcGts|alto|html)\b", re.IGNORECASE)
ANY_BYTES = "latin-1"  # reads every file; names of elements and keys are ASCII
_XML_NAMES = (".xml", ".alto", ".hocr", ".html", ".xhtml", ".htm")
_JSON_NAMES = (".json", ".jsonl", ".ndjson")


def read_pages(path: str | Path, label: str = "label") -> list[Page]:
    """Return the pages of a file.

    Parameters
    ----------
    path : path
        May end in ``.gz``.
    label : str
        The field of a box's label, in JSON.
    """
    source = Source(str(path))
    name = source.path.lower().removesuffix(".gz")
    if name.endswith(".pdf"):
        return pdf.read(source)
    if name.endswith(_JSON_NAMES):
        return boxes_json.read(source, label)
    if not name.endswith(_XML_NAMES):
        raise InputError(
            f"{source.place} is no file of pages; known are {', '.join((*_XML_NAMES, *_JSON_NAMES, '.pdf'))}."
        )
    root = read_tree(source)
    pages = list(_form(root, source).read(source, root))
    if not pages:
        raise bad_record(source.place, "holds no page: there is no <Page> in it.")
    return pages


def write_pages(pages: Sequence[Page], source: str | Path, target: str | Path) -> Path:
    """Write a file as it was read, with the labels of its pages put in; returns where (a PDF becomes ``.jsonl``)."""
    given = Source(str(source))
    name, path = given.path.lower().removesuffix(".gz"), Path(target)
    if path.suffix == ".gz":
        path = path.with_suffix("")
    if name.endswith(_XML_NAMES):
        root = read_tree(given)
        _form(root, given).write(root, pages, str(path))
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
    return name.endswith((*_XML_NAMES, ".pdf"))


def _form(root: object, source: Source) -> ModuleType:
    for form in _XML.values():
        if form.recognizes(root):
            return form
    raise bad_record(source.place, f"is XML of no known form (<{local(root)}>); known are PAGE XML, ALTO and hOCR.")  # type: ignore[arg-type]
