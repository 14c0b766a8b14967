"""One reader for all commands: any format, the same options, tokens or texts as a model takes them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rulefield.cli.corpus import JSON_NAMES, FileContents, read_corpus
from rulefield.data.documents import Document
from rulefield.data.source import STANDARD, Source
from rulefield.encode.formats import FORMATS, find_format, read_documents
from rulefield.encode.formats.base import json_records
from rulefield.exceptions import InputError

SEQUENCES = ("columns", "jsonl")
"""Formats of tokens and labels, for which there is nothing to parse."""
LINES = "lines"
"""A text per line."""
_LINE_NAMES = (".txt", ".log")


@dataclass(frozen=True)
class Reading:
    """The options that all commands share: how a file is read.

    Parameters
    ----------
    form : str
        "auto" (by name and content), "columns", "jsonl", "lines", or a format of annotated texts.
    text, column : str, optional
        The field of the text (Label Studio), the column of texts (tables) or of labels (CoNLL-U).
    encoding : str
    tokenizer : str
        Cuts texts for a model that is no parser.
    apart : bool
        Keep XML elements of one label apart that stand beside each other.
    """

    form: str = "auto"
    text: str | None = None
    column: str | None = None
    encoding: str = "utf-8-sig"
    tokenizer: str = "auto"
    apart: bool = False

    def source(self, path: str) -> Source:
        """Return a file with what the options say of it."""
        options = {"text": self.text, "column": self.column, "apart": self.apart or None}
        return Source(path, self.encoding, {name: value for name, value in options.items() if value is not None})

    def text_format(self, path: str) -> str | None:
        """Name of the format of texts that a file is in, or None if it holds tokens and labels."""
        if self.form in SEQUENCES or (self.form == "auto" and path == STANDARD):
            return None
        if self.form != "auto":
            if self.form not in (LINES, *FORMATS):
                known = ", ".join(["auto", "jsonl", LINES, *FORMATS])
                raise InputError(f"--format must be one of {known}; got {self.form!r}.")
            return self.form
        source = self.source(path)
        name = path.lower().removesuffix(".gz")
        if not Path(path).is_dir() and name.endswith(JSON_NAMES):
            return _json_format(source)
        found = find_format(source).name
        return None if found in SEQUENCES else found

    def documents(self, path: str) -> Iterator[Document]:
        """Yield the texts of a file: one per line of .txt and .log files, or any format of annotated texts."""
        named = self.form == "auto" and path.lower().removesuffix(".gz").endswith(_LINE_NAMES)
        if self.form == LINES or named:
            lines = self.source(path).lines()
            return (Document(line) for _, line in lines if line.strip())
        source = self.source(path)
        return read_documents(path, self.form, encoding=self.encoding, **source.options)

    def sequences(self, path: str, *, labeled: bool, unknown: str | None = None, parser: Any = None) -> FileContents:
        """Return tokens and labels of a file: its own, or those of its texts as the parser (or tokenizer) cuts them."""
        if self.text_format(path) is None:
            return read_corpus(path, self.form, labeled=labeled, unknown=unknown, encoding=self.encoding)
        documents = labeled_only(self.documents(path), path) if labeled else list(self.documents(path))
        tokens, labels = _cut(documents, parser._tokenizer if parser is not None else self.tokenizer)
        if not tokens:
            raise InputError(f"{path!r} holds no text.")
        return FileContents(tokens, labels, [{"tokens": row} for row in tokens], "jsonl")


def as_reading(form: "str | Reading") -> Reading:
    """Return the options; a string is the name of a format."""
    return Reading(form) if isinstance(form, str) else form


def labeled_only(documents: Any, path: str) -> list[Document]:
    """Return documents, all of which must be labeled."""
    found = list(documents)
    bare = next((i for i, document in enumerate(found) if document.spans is None), None)
    if bare is not None:
        raise InputError(f"{path!r}: text {bare + 1} has no labels to compare with; label it, or leave it out.")
    return found


def _json_format(source: Source) -> str | None:
    """Return the format that the first record shows; what none recognizes is for the reader of sequences to judge."""
    try:
        _, record = next(json_records(source), ("", None))
    except InputError:
        return None
    if isinstance(record, dict) and "labels" in record and ("tokens" in record or "features" in record):
        return None
    return next((form.name for form in FORMATS.values() if form.recognizes(record)), None)


def _cut(documents: list[Document], tokenizer: Any) -> tuple[list[list[str]], list[Any] | None]:
    from rulefield.encode.alignment import align
    from rulefield.encode.tokenizers import as_tokenizer

    cut = as_tokenizer(tokenizer)
    made = [(document.text, align(document, cut, "BIO", "snap")) for document in documents]
    made = [(text, aligned) for text, aligned in made if aligned.places]
    tokens = [[text[a:b] for a, b in aligned.places] for text, aligned in made]
    return tokens, [aligned.labels for _, aligned in made]


def as_parser(model: Any, tokenizer: str) -> Any:
    """Return a model as a parser of texts."""
    from rulefield.estimators.text.parser import TextParser

    return model if model._kind == "text" else TextParser.of(model, tokenizer)


def with_spans(document: Document, parse: Any) -> Document:
    """Return a document with the spans of its parse, in place of those that it had."""
    found = parse.document
    return replace(document, spans=found.spans, score=1.0 if parse.probability is None else parse.probability)
