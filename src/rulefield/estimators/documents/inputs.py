"""What users hand to a DocumentTagger, checked: documents, labels of their boxes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rulefield.data.pages import Label, Page
from rulefield.encode.documents.graphs import Document
from rulefield.exceptions import InputError

Documents = Iterable[Page | Document]
"""A page, or a list of pages that belong together, for each document."""
BoxLabels = Sequence[Label]
"""Labels of the boxes of a document, page after page; None where unknown."""
Known = Iterable[BoxLabels | None] | None


def checked_documents(X: Documents) -> list[Document]:
    """Return each document as a list of pages."""
    if isinstance(X, Page | str | Mapping) or not isinstance(X, Iterable):
        raise InputError(f"X must be a list of pages, or of lists of pages; got {type(X).__name__}.")
    found: list[Document] = []
    for i, one in enumerate(X):
        pages = [one] if isinstance(one, Page) else list(one) if isinstance(one, Sequence) else []
        if not pages or not all(isinstance(page, Page) for page in pages):
            raise InputError(f"X must hold pages, or lists of pages; item {i} is {type(one).__name__}.")
        found.append(pages)
    if not found:
        raise InputError("X holds no document; give at least one.")
    return found


def own_labels(documents: Sequence[Document]) -> list[BoxLabels]:
    """Return the labels that the pages carry themselves."""
    return [[label for page in pages for label in page.labels or (None,) * page.n_boxes] for pages in documents]


def checked_box_labels(documents: Sequence[Document], y: Iterable[BoxLabels | None], name: str) -> list[list[Any]]:
    """Return one list for each document; raise where one has more or fewer labels than boxes."""
    if isinstance(y, str | Mapping) or not isinstance(y, Iterable):
        raise InputError(f"{name} must be a list with the labels of each document; got {type(y).__name__}.")
    given = list(y)
    if len(given) != len(documents):
        raise InputError(f"{name} must hold labels for every document; got {len(documents)} and {len(given)}.")
    rows = []
    for i, (pages, labels) in enumerate(zip(documents, given)):
        n = sum(page.n_boxes for page in pages)
        row = [None] * n if labels is None else list(labels)
        if len(row) != n:
            raise InputError(f"{name}[{i}] must hold a label for each of {n} boxes; got {len(row)}.")
        rows.append(row)
    return rows


def by_type(pages: Document, labels: Sequence[Any], kinds: Iterable[str]) -> dict[str, Any]:
    """Labels of the boxes by type, as a graph has them."""
    found: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for kind, label in zip([kind for page in pages for kind in page.types or ()], labels):
        if kind not in found:
            raise InputError(f"the model knows boxes of types {sorted(found)}; got {kind!r}.")
        found[kind].append(label)
    return dict(found)
