"""Pages as plain JSON: one object per page with its lines (boxes) and separators."""

from collections.abc import Mapping, Sequence
from typing import Any

from rulefield.data.pages import LINE, Page
from rulefield.data.source import Source
from rulefield.encode.documents.boxes import labels_in_file, unique_names
from rulefield.encode.formats.base import bad_record, compact, json_records
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

BOXES = "lines"


def read(source: Source, label: str = "label") -> list[Page]:
    """Read JSON lines or a list: ``{"page", "width", "height", "lines": [{"box", "text", "type", LABEL}], "separators"}``."""
    pages = [_page(place, record, label, k) for k, (place, record) in enumerate(json_records(source), 1)]
    if not pages:
        raise bad_record(source.place, "holds no page.")
    return pages


def _page(place: str, record: Any, label: str, number: int) -> Page:
    if not isinstance(record, Mapping) or not isinstance(record.get(BOXES), list):
        raise bad_record(place, f'a page must be an object with a list "{BOXES}"; got {record!r:.60}.')
    lines = record[BOXES]
    for k, line in enumerate(lines):
        if not isinstance(line, Mapping) or not isinstance(line.get("box"), list):
            raise bad_record(place, f'"{BOXES}"[{k}] must be an object with a "box"; got {line!r:.60}.')
    rulings = record.get("separators") or []
    if not isinstance(rulings, list):
        raise bad_record(place, f'"separators" must be a list; got {rulings!r:.60}.')
    labels = [line.get(label) for line in lines]
    texts = [line.get("text") for line in lines]
    try:
        return Page(
            [line["box"] for line in lines],
            record.get("width") or 0.0,
            record.get("height") or 0.0,
            types=[line.get("type") or LINE for line in lines],
            texts=None if all(text is None for text in texts) else [str(text or "") for text in texts],
            labels=None if all(one is None for one in labels) else labels,
            parents=[-1 if line.get("parent") is None else line["parent"] for line in lines],
            separators=[one["box"] if isinstance(one, Mapping) else one for one in rulings],
            ids=unique_names([str(line.get("id", "")) for line in lines]),
            name=str(record.get("page") or f"page {number}"),
        )
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise bad_record(place, f"is no page: {error}") from None


def write(pages: Sequence[Page], path: str) -> None:
    """Write one JSON object per page and line."""
    with whole_file(path, text=True) as file:
        for page in pages:
            file.write(compact(_record(page)) + "\n")


def _record(page: Page) -> dict[str, Any]:
    lines = []
    for k in range(page.n_boxes):
        line: dict[str, Any] = {"box": page.boxes[k].tolist()}
        if page.types is not None and page.types[k] != LINE:
            line["type"] = page.types[k]
        if page.texts is not None:
            line["text"] = page.texts[k]
        if page.labels is not None:
            line["label"] = page.labels[k]
        if page.parents[k] >= 0:
            line["parent"] = int(page.parents[k])
        if page.ids is not None:
            line["id"] = page.ids[k]
        lines.append(line)
    separators = [{"box": one} for one in page.separators.tolist()]
    return {"page": page.name, "width": page.width, "height": page.height, BOXES: lines, "separators": separators}


def write_again(source: Source, pages: Sequence[Page], path: str) -> None:
    """Write a file's records as they are, a list as a list, with the pages' labels in their lines."""
    records = [record for _, record in json_records(source)]
    named = [[str(line.get("id", "")) for line in record[BOXES]] for record in records]
    for record, labels in zip(records, labels_in_file(pages, named)):
        for line, label in zip(record[BOXES], labels):
            line["label"] = label
    is_list = source.text().lstrip().startswith("[")
    with whole_file(path, text=True) as file:
        text = (",\n" if is_list else "\n").join(map(compact, records))
        file.write(f"[{text}]\n" if is_list else f"{text}\n")


def recognizes(source: Source) -> bool:
    """Whether the first record of a file is a page."""
    try:
        _, record = next(json_records(source), ("", None))
    except InputError:
        return False
    return isinstance(record, Mapping) and BOXES in record
