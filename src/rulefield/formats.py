"""Data in and out: files of annotation tools, pages, encoded sequences and corpora, spans of labels, labelings."""

from rulefield.data.documents import Document, TextSpan
from rulefield.data.pages import Page
from rulefield.data.sequences import Sequences
from rulefield.encode.documents.files import read_pages, write_pages
from rulefield.encode.formats import FORMATS, read_documents, write_documents
from rulefield.encode.spans import Span, convert, spans
from rulefield.estimators.labelings import BrokenRule, Labeling
from rulefield.learning.chain.corpus import Corpus

__all__ = [
    "FORMATS",
    "BrokenRule",
    "Corpus",
    "Document",
    "Labeling",
    "Page",
    "Sequences",
    "Span",
    "TextSpan",
    "convert",
    "read_documents",
    "read_pages",
    "spans",
    "write_documents",
    "write_pages",
]
