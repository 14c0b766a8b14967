"""spaCy's DocBin (``.spacy``): what ``spacy train`` reads. Needs spaCy (the extra ``spacy``).

Spans are ``doc.ents``; where they overlap or nest, the span group ``sc``. spaCy labels tokens, so tokens are cut where a
span begins or ends: nothing is lost.
"""

import zlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from rulefield.data.documents import Document, TextSpan
from rulefield.data.source import Source
from rulefield.data.unpacking import ALWAYS_UNPACKED, MOST_UNPACKED
from rulefield.encode.formats.base import Format, as_name, bad_record, document
from rulefield.encode.tokenizers import Words
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

GROUP = "sc"
_DAMAGE = (ValueError, KeyError, TypeError, IndexError, AssertionError, AttributeError, OverflowError)


def _spacy(what: str) -> Any:
    try:
        import spacy.tokens
        import spacy.vocab
    except ImportError:
        raise InputError(f"{what} needs spaCy; install rulefield[spacy].") from None
    return spacy


def read(source: Source) -> Iterator[Document]:
    """Yield the documents: text, tokens, and entities where they are annotated."""
    spacy = _spacy("reading a DocBin")
    with source.open() as file:
        data = file.read()
    _check_size(data, source.place)
    try:
        docs = spacy.tokens.DocBin().from_bytes(data).get_docs(spacy.vocab.Vocab())
        for number, doc in enumerate(docs, 1):
            yield _document(doc, f"{source.place}, document {number}")
    except _DAMAGE as error:
        raise bad_record(
            source.place, f"is not a DocBin of spaCy, or damaged ({type(error).__name__}: {error})."
        ) from None


def _check_size(data: bytes, place: str) -> None:
    """Unpack piece by piece first: spaCy unpacks without a limit."""
    unpack, left, rest = zlib.decompressobj(), max(ALWAYS_UNPACKED, MOST_UNPACKED * len(data)), data
    try:
        while rest and left > 0:
            left -= len(unpack.decompress(rest, 1 << 20))
            rest = unpack.unconsumed_tail
    except zlib.error:
        raise bad_record(place, "is not a DocBin of spaCy: it cannot be unpacked.") from None
    if left <= 0:
        raise bad_record(place, f"unpacks to more than {MOST_UNPACKED} times its size.")


def _document(doc: Any, place: str) -> Document:
    marks: list[Any] | None = list(doc.spans[GROUP]) if GROUP in doc.spans else None
    if doc.has_annotation("ENT_IOB"):
        marks = list(doc.ents)
    scores = doc.user_data.get("scores") or [None] * len(marks or ())
    spans = marks and [TextSpan(m.start_char, m.end_char, m.label_, s) for m, s in zip(marks, scores, strict=True)]
    tokens = tuple((token.idx, token.idx + len(token)) for token in doc if not token.is_space)
    return document(place, doc.text, spans, tokens=tokens, name=as_name(doc.user_data.get("id")))


def write(documents: Iterable[Document], path: str) -> None:
    """Write a DocBin; names and scores go into the user data of each document."""
    spacy = _spacy("writing a DocBin")
    vocab = spacy.vocab.Vocab()
    made = spacy.tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE"], store_user_data=True)
    for doc in documents:
        made.add(_doc(spacy, vocab, doc))
    with whole_file(path) as file:
        file.write(made.to_bytes())


def _doc(spacy: Any, vocab: Any, document: Document) -> Any:
    words, spaces = cut(document)
    try:
        doc = spacy.tokens.Doc(vocab, words=words, spaces=spaces)
    except UnicodeEncodeError:
        raise InputError(f"spaCy cannot hold the text {document.text[:30]!r}...: it has lone surrogates.") from None
    if document.name is not None:
        doc.user_data["id"] = document.name
    if document.spans is None:
        return doc
    marks = [doc.char_span(span.start, span.end, label=span.label) for span in document.spans]
    if all(a.end <= b.start for a, b in pairwise(document.spans)):
        doc.set_ents(marks, default="outside")
    else:
        doc.spans[GROUP] = marks
    if any(span.score is not None for span in document.spans):
        doc.user_data["scores"] = [span.score for span in document.spans]
    return doc


def cut(document: Document) -> tuple[list[str], list[bool]]:
    """Words that make up the text, white space included, and whether a blank follows each; spans cut words."""
    text, spans = document.text, document.spans or ()
    starts, ends = {span.start for span in spans}, {span.end for span in spans}
    edges = {0, len(text)} | starts | ends
    for place in document.tokens or Words()(text):
        edges.update(place)
    words: list[str] = []
    spaces: list[bool] = []
    for a, b in pairwise(sorted(edges)):
        piece = text[a:b]
        belongs = a in starts or a + 1 in ends  # a blank that is the first or last of a span is a word of its own
        if words and not spaces[-1] and piece.startswith(" ") and not belongs:
            spaces[-1], piece = True, piece[1:]
        if piece:
            words.append(piece)
            spaces.append(False)
    return words, spaces


FORMAT = Format("docbin", "spaCy's DocBin", (".spacy",), read, write)
