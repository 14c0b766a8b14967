"""PDF: lines of text and rulings of every page, by pdfplumber (extra ``documents``)."""

from io import BytesIO

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import BoxCollector
from rulefield.encode.formats.base import bad_record
from rulefield.exceptions import InputError

THIN = 3.0  # points: a rectangle that is thinner is a ruled line


def read(source: Source) -> list[Page]:
    """Return the pages of a PDF: its lines of text, and its lines and thin rectangles as separators."""
    try:
        import pdfplumber
    except ImportError:
        raise InputError("PDF files need pdfplumber: pip install 'rulefield[documents]'.") from None
    found = []
    try:
        with source.open() as file, pdfplumber.open(BytesIO(file.read())) as pdf:
            for k, page in enumerate(pdf.pages):
                collector = BoxCollector(source.place, f"page {k + 1}", float(page.width), float(page.height))
                for i, line in enumerate(page.extract_text_lines(return_chars=False)):
                    box = (line["x0"], line["top"], line["x1"], line["bottom"])
                    collector.add(box, LINE, line["text"], None, -1, str(i))
                for one in [*page.lines, *page.rects]:
                    box = (one["x0"], one["top"], one["x1"], one["bottom"])
                    if min(box[2] - box[0], box[3] - box[1]) <= THIN:
                        collector.separators.append(box)
                found.append(collector.page())
    except InputError:
        raise
    except Exception as error:  # every reader of PDF has its own; what they have in common is a broken file
        raise bad_record(
            source.place, f"is not a PDF that can be read: {str(error) or type(error).__name__:.80}."
        ) from None
    return found
