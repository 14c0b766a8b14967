"""brat: ``name.txt`` with the text, ``name.ann`` with ``T1<tab>Label start end<tab>text`` lines; a folder of pairs."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rulefield.data.documents import Document, TextSpan
from rulefield.data.limits import is_whole
from rulefield.data.source import Source
from rulefield.encode.formats.base import Format, bad_record, document
from rulefield.exceptions import InputError
from rulefield.outputs import write_whole

_NAME = re.compile(r"[\w.-]+")


def read(source: Source) -> Iterator[Document]:
    """Yield the documents of a folder, or the one of a pair; relations, events and notes are no spans and are passed over."""
    path = Path(source.path)
    texts = sorted(path.glob("*.txt")) if path.is_dir() else [path.with_suffix(".txt")]
    if not texts:
        raise InputError(f"there is no .txt file in {source.place}; brat keeps each text beside its .ann file.")
    for text_path in texts:
        text = Source(str(text_path), source.encoding).text()
        marks = text_path.with_suffix(".ann")
        spans = list(_spans(Source(str(marks), source.encoding))) if marks.is_file() else None
        yield document(repr(str(marks)), text, spans, name=text_path.stem)


def _spans(source: Source) -> Iterator[TextSpan]:
    for number, line in source.lines():
        if not line.startswith("T"):
            continue
        place = f"{source.place}, line {number}"
        cells = line.split("\t")
        words = cells[1].split(" ", 1) if len(cells) > 1 else []
        if len(words) != 2:
            raise bad_record(place, f"a span is 'T1<tab>Label start end<tab>text'; got {line!r:.80}.")
        if ";" in words[1]:
            raise bad_record(
                place, f"{words[0]!r} has several pieces ({words[1]}), which a chain cannot label; mark each alone."
            )
        bounds = words[1].split(" ")
        if len(bounds) != 2 or not all(map(is_whole, bounds)):
            raise bad_record(place, f"a span begins and ends at whole numbers; got {words[1]!r:.40}.")
        yield TextSpan(int(bounds[0]), int(bounds[1]), words[0])


def write(documents: Iterable[Document], path: str) -> None:
    """Write a folder with a pair of files per document, named by the documents or numbered."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for number, doc in enumerate(documents):
        name = doc.name if doc.name is not None and _NAME.fullmatch(doc.name) else f"{number:06d}"
        write_whole(folder / f"{name}.txt", doc.text.encode("utf-8"))
        if doc.spans is None:
            continue
        lines = []
        for i, span in enumerate(doc.spans, 1):
            if re.search(r"\s", span.label):
                raise InputError(f"brat labels hold no white space; got {span.label!r}.")
            words = re.sub(r"[\r\n\t]", " ", doc.text[span.start : span.end])
            lines.append(f"T{i}\t{span.label} {span.start} {span.end}\t{words}\n")
        write_whole(folder / f"{name}.ann", "".join(lines).encode("utf-8"))


FORMAT = Format("brat", "brat standoff: a folder of .txt and .ann", (".ann",), read, write)
