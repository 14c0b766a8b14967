"""One reader for all commands: any format, the same options, tokens or texts as a model takes them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rulefield.cli.corpus import JSON_NAMES, FileContents, read_corpus
from rulefield.cli.options import FileOptions, ReadOptions
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


def source_of(path: str, how: FileOptions) -> Source:
    """Return a file with what the options say of it."""
    if path.lower().endswith((".xlsx", ".xls")):
        raise InputError(f"{path!r}: spreadsheets are not read; save it as .csv, or read it with pandas.")
    options = {"text": how.text, "column": how.column, "apart": how.apart or None}
    return Source(path, how.encoding, {name: value for name, value in options.items() if value is not None})


def text_format(path: str, how: FileOptions) -> str | None:
    """Return the name of the format of texts that a file is in, or None if it holds tokens and labels."""
    if how.form in SEQUENCES or (how.form == "auto" and path == STANDARD):
        return None
    if how.form != "auto":
        if how.form not in (LINES, *FORMATS):
            known = ", ".join(["auto", "jsonl", LINES, *FORMATS])
            raise InputError(f"--format must be one of {known}; got {how.form!r}.")
        return how.form
    source = source_of(path, how)
    name = path.lower().removesuffix(".gz")
    if not Path(path).is_dir() and name.endswith(JSON_NAMES):
        return _json_format(source)
    form = find_format(source).name
    return None if form in SEQUENCES else form


def _json_format(source: Source) -> str | None:
    """Return the format that the first record shows; what none recognizes is for the reader of sequences to judge."""
    try:
        _, record = next(json_records(source), ("", None))
    except InputError:
        return None
    if isinstance(record, dict) and "labels" in record and ("tokens" in record or "features" in record):
        return None
    return next((form.name for form in FORMATS.values() if form.recognizes(record)), None)


def iterate_texts(path: str, how: FileOptions) -> Iterator[Document]:
    """Yield the texts of a file: one per line of .txt and .log files, or any format of annotated texts."""
    source = source_of(path, how)
    named = how.form == "auto" and path.lower().removesuffix(".gz").endswith(_LINE_NAMES)
    if how.form == LINES or named:
        return (Document(line) for _, line in source.lines() if line.strip())
    return read_documents(path, how.form, encoding=how.encoding, **source.options)


def read_texts(path: str, how: FileOptions) -> list[Document]:
    """Return the texts of a file."""
    return list(iterate_texts(path, how))


def read_labeled_texts(path: str, how: FileOptions) -> tuple[list[Document], list[list[Any]]]:
    """Return the texts of a file, all of which must be labeled, and their spans (start, end, label)."""
    documents = read_texts(path, how)
    bare = next((i for i, document in enumerate(documents) if document.spans is None), None)
    if bare is not None:
        raise InputError(f"{path!r}: text {bare + 1} has no labels to compare with; label it, or leave it out.")
    return documents, [[tuple(span[:3]) for span in document.spans or ()] for document in documents]


def read_sequences(
    path: str, how: ReadOptions, *, labeled: bool, unknown: str | None = None, parser: Any = None
) -> FileContents:
    """Return tokens and labels of a file: its own, or those of its texts as the parser (or tokenizer) cuts them."""
    if text_format(path, how) is None:
        return read_corpus(path, how.form, labeled=labeled, unknown=unknown, encoding=how.encoding)
    documents = read_labeled_texts(path, how)[0] if labeled else read_texts(path, how)
    tokens, labels = _cut(documents, parser._tokenizer if parser is not None else how.tokenizer)
    if not tokens:
        raise InputError(f"{path!r} holds no text.")
    return FileContents(tokens, labels, [{"tokens": row} for row in tokens], "jsonl")


def _cut(documents: Iterable[Document], tokenizer: Any) -> tuple[list[list[str]], list[Any] | None]:
    from rulefield.encode.alignment import align
    from rulefield.encode.tokenizers import as_tokenizer

    cut = as_tokenizer(tokenizer)
    aligned_texts = [(document.text, align(document, cut, "BIO", "snap")) for document in documents]
    aligned_texts = [(text, aligned) for text, aligned in aligned_texts if aligned.places]
    tokens = [[text[a:b] for a, b in aligned.places] for text, aligned in aligned_texts]
    return tokens, [aligned.labels for _, aligned in aligned_texts]


def open_model(path: str, jobs: int = 1) -> Any:
    """Read a model file that labels sequences or texts; threads as asked for."""
    from rulefield.estimators.saving import load

    model = load(path)
    inner = getattr(model, "model_", model) if model._kind == "text" else model
    if model._kind == "document":
        raise InputError(
            f"{path!r} labels pages: rulefield predict takes it with files of PAGE XML, JSON of boxes or PDF."
        )
    if inner._kind not in ("chain", "ruled", "segments", "joint"):
        raise InputError(
            f"the commands label sequences, but {path!r} holds a {type(model).__name__}; use it from Python."
        )
    inner.set_params(n_jobs=jobs)
    return model


def sequence_model(model: Any) -> Any:
    """Return what labels tokens: the model inside a parser of texts, or the model itself."""
    return model.model_ if model._kind == "text" else model


def as_parser(model: Any, tokenizer: str) -> Any:
    """Return a model as a parser of texts."""
    from rulefield.estimators.text.parser import TextParser

    return model if model._kind == "text" else TextParser.of(model, tokenizer)


def with_spans(document: Document, parse: Any) -> Document:
    """Return a document with the spans of its parse, in place of those that it had."""
    parsed = parse.document
    return replace(document, spans=parsed.spans, score=1.0 if parse.probability is None else parse.probability)
