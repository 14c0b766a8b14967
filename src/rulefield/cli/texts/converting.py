"""``rulefield convert``: one format of annotated texts into another."""

from collections.abc import Iterator
from typing import Annotated

import typer

from rulefield.cli.corpus import counted
from rulefield.cli.options import FileOptions, Quiet, command
from rulefield.cli.reading import LINES, source_of
from rulefield.cli.show import console
from rulefield.data.documents import Document
from rulefield.data.source import STANDARD, Source
from rulefield.encode.documents import boxes_json
from rulefield.encode.documents.files import is_page_file, read_pages
from rulefield.encode.formats import FORMATS, find_format, format_to_write, read_documents
from rulefield.exceptions import InputError
from rulefield.outputs import check_output


@command(
    "convert",
    "rulefield convert export.json train.conll",
    "rulefield convert train.xml tasks.json --to label-studio",
)
def convert(
    source: Annotated[str, typer.Argument(help="File (or brat folder) to read.")],
    target: Annotated[str, typer.Argument(help="File (or brat folder) to write.")],
    reading: FileOptions,
    to: Annotated[str, typer.Option(help="Format to write; auto: by name.")] = "auto",
    quiet: Quiet = False,
) -> None:
    """Rewrite annotated texts in another format: doccano, Label Studio, Prodigy, XML, brat, CoNLL, tables, ..."""
    if reading.form == "auto" and is_page_file(source):
        _convert_pages(source, target, quiet)
        return
    written = format_to_write(target, to)
    if written.name != "brat":
        check_output(target)
    file = source_of(source, reading)
    counts = [0, 0]

    def documents() -> Iterator[Document]:
        lines = (Document(line) for _, line in file.lines() if line.strip())
        for document in (
            lines
            if reading.form == LINES
            else read_documents(source, reading.form, encoding=reading.encoding, **file.options)
        ):
            counts[0] += 1
            counts[1] += len(document.spans or ())
            yield document

    written.write(documents(), target)
    if not quiet:
        console(to_error=True).print(
            f"{source}: {_about(file, reading.form)}; {counted(counts[0], 'text')}, "
            f"{counted(counts[1], 'span')} written to {target}: {written.about}."
        )


def _convert_pages(source: str, target: str, quiet: bool) -> None:
    """Write the boxes of pages, a PDF's say, as JSON lines, in which labels can be put."""
    if not target.lower().endswith((".json", ".jsonl")):
        raise InputError(f"{source!r} holds pages, which are written as JSON lines; name a file such as pages.jsonl.")
    check_output(target)
    pages = read_pages(source)
    boxes_json.write(pages, target)
    if not quiet:
        boxes = counted(sum(page.n_boxes for page in pages), "box", "boxes")
        console(to_error=True).print(
            f'{source}: {counted(len(pages), "page")}, {boxes} written to {target}; put a "label" into each box.'
        )


def _about(source: Source, form: str) -> str:
    if form == LINES:
        return "a text per line"
    return FORMATS[form if form != "auto" or source.path == STANDARD else find_format(source).name].about
