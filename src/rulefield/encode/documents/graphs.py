"""From documents to typed graphs: boxes are nodes, lines of sight are edges, places are relations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from rulefield.data.graphs import Features, TypedGraph
from rulefield.data.pages import Page
from rulefield.encode.documents.features import SEPARATOR, Columns, box_table, pair_table, separator_table, touching
from rulefield.encode.documents.layout import BELOW, RIGHT, Layout
from rulefield.encode.documents.scaling import QuantileScale
from rulefield.encode.tokens import TokenFeatures
from rulefield.exceptions import InputError

PAGE = "page"
_DIRECTIONS = {BELOW: "below", RIGHT: "right"}
_BACK = {BELOW: "above", RIGHT: "left"}
WORDS = TokenFeatures(window=0, shapes=True, affixes=3, position=False)
MOST_WORDS = 5_000
LEAST_COUNT = 3
"""Boxes that must have a text feature for it to count."""
Document = Sequence[Page]


@dataclass(frozen=True)
class BoxScales:
    """What training data say of one type of box: scales of its numbers, and the text features that are worth a column.

    ``separator`` scales how far separators are, where these are nodes.
    """

    box: QuantileScale
    pair: Mapping[int, QuantileScale]
    words: Mapping[str, int] = field(default_factory=dict)
    separator: QuantileScale | None = None


class DocumentEncoder:
    """Makes graphs of documents, with scales learned from training documents.

    With ``separators``, ruled lines decorate edges and cut the page into regions. Those across the page are nodes, too,
    if training pages have any, joined to the boxes that see them above and below before any other box.

    All boxes in sight are joined by edges. Relations for rules: ``below``, ``above``, ``left`` and ``right`` lead to the
    nearest one (``"block below"`` and so on for other types than the most frequent one), ``only below`` and ``only right``
    to the one box in sight where it sees no other on that side either and no separator is between (the two are surely of
    one column, or row), ``next in region`` to the next lower box that no separator parts from this one, ``on`` to the page
    and ``boxes`` back, ``"line in block"`` and ``"line of block"`` to the box that holds a box and back.
    """

    def __init__(self, separators: bool = True):
        self.separators = separators
        self.scales: dict[str, BoxScales] = {}
        self.separator_scale: QuantileScale | None = None

    # --- learning scales --------------------------------------------------------------------------

    def fit(self, documents: Sequence[Document]) -> "DocumentEncoder":
        """Learn the scales of every type of box that occurs."""
        count = Counter(kind for pages in documents for page in pages for kind in page.types or ())
        if not count:
            raise InputError("the documents hold no boxes; give pages with at least one.")
        for taken, what in ((PAGE, "the pages themselves"), (SEPARATOR, "ruled lines")):
            if taken in count:
                raise InputError(f"{taken!r} is the type of {what}; call these boxes otherwise.")
        self.scales, self.separator_scale = {}, None
        for kind, _ in sorted(count.items(), key=lambda item: (-item[1], item[0])):
            layouts = [self._layout(pages, kind) for pages in documents]
            ruled = any(one.horizontal.any() for one in layouts)
            self.scales[kind] = BoxScales(
                self._scale([box_table(one) for one in layouts]),
                {way: self._scale([pair_table(one, way) for one in layouts]) for way in _DIRECTIONS},
                self._vocabulary(documents, kind),
                self._scale([touching(one)[1] for one in layouts]) if ruled else None,
            )
            if ruled and self.separator_scale is None:
                self.separator_scale = self._scale([separator_table(one) for one in layouts])
        return self

    def _layout(self, pages: Document, kind: str) -> Layout:
        return Layout(pages, kind, self.separators)

    def _scale(self, tables: Sequence[Columns]) -> QuantileScale:
        return QuantileScale.fit(np.concatenate([table.matrix("numbers") for table in tables]))

    def _vocabulary(self, documents: Sequence[Document], kind: str) -> dict[str, int]:
        count: Counter[str] = Counter()
        for pages in documents:
            for words in _text_features(pages, kind) or ():
                count.update(words)
        kept = [word for word, n in count.most_common(MOST_WORDS) if n >= LEAST_COUNT]
        return {word: k for k, word in enumerate(sorted(kept))}

    # --- graphs -----------------------------------------------------------------------------------

    @property
    def main(self) -> str:
        """The type of most boxes."""
        return next(iter(self.scales))

    def graph(self, pages: Document) -> TypedGraph:
        """Return the graph of one document; a type of box that training did not have is an error."""
        strange = {kind for page in pages for kind in page.types or ()} - set(self.scales)
        if strange:
            raise InputError(f"the model knows boxes of types {sorted(self.scales)}; got {sorted(strange)[0]!r}.")
        nodes: dict[str, Features | int] = {PAGE: len(pages)}
        edges: dict[tuple[str, str], Any] = {}
        relations: dict[str, Any] = {}
        views: dict[str, Features] = {}
        for kind, scales in self.scales.items():
            layout = self._layout(pages, kind)
            nodes[kind], views[kind] = self._boxes(layout, scales, pages, kind)
            edges[kind, kind] = self._edges(layout, scales)
            relations |= self._relations(layout, kind)
            if scales.separator is not None and self.separator_scale is not None:
                pairs, beside = touching(layout)
                edges[kind, SEPARATOR] = (pairs, _scaled(beside, scales.separator))
                if SEPARATOR not in nodes:
                    nodes[SEPARATOR] = _scaled(separator_table(layout), self.separator_scale)
        return TypedGraph(nodes, edges, relations | _containment(pages, self.scales), views)

    def _boxes(self, layout: Layout, scales: BoxScales, pages: Document, kind: str) -> tuple[Features, Features]:
        """Features of boxes for the graph, and for predictors: there a number is one column, 0 if it is missing."""
        table = box_table(layout)
        spread = _scaled(table, scales.box)
        plain = np.hstack([np.nan_to_num(table.matrix("numbers")), table.matrix("flags")])
        if not scales.words:
            return spread, plain
        bag = _bag(_text_features(pages, kind), scales.words, layout.n)
        return sparse.csr_array(sparse.hstack([spread, bag])), sparse.csr_array(sparse.hstack([plain, bag]))

    def _edges(self, layout: Layout, scales: BoxScales) -> tuple[np.ndarray, np.ndarray]:
        """Pairs in both directions; each direction has columns, and so weights, of its own."""
        parts = [_scaled(pair_table(layout, way), scales.pair[way]) for way in _DIRECTIONS]
        rows = np.cumsum([0, *(len(part) for part in parts)])
        columns = np.cumsum([0, *(part.shape[1] for part in parts)])
        features = np.zeros((rows[-1], columns[-1]))
        for k, part in enumerate(parts):
            features[rows[k] : rows[k + 1], columns[k] : columns[k + 1]] = part
        return np.concatenate([sight.pairs for sight in layout.sights]), features

    def _relations(self, layout: Layout, kind: str) -> dict[str, Any]:
        before = "" if kind == self.main else f"{kind} "
        found: dict[str, Any] = {}
        for way, sight in zip(_DIRECTIONS, layout.sights):
            for name, ahead in ((_DIRECTIONS[way], True), (_BACK[way], False)):
                pair = layout.nearest(way, ahead)
                pairs = sight.pairs[pair[pair >= 0]]
                found[f"{before}{name}"] = (kind, kind, pairs if ahead else pairs[:, ::-1])
            alone = sight.simple(layout.n) & (sight.crossed == 0)
            found[f"{before}only {_DIRECTIONS[way]}"] = (kind, kind, sight.pairs[alone])
        found[f"{before}next in region"] = (kind, kind, layout.next_in_region)
        on = np.stack([np.arange(layout.n), layout.page], axis=1)
        found[f"{before}on"] = (kind, PAGE, on)
        found[f"{before}boxes"] = (PAGE, kind, on[:, ::-1])
        return found

    def names(self, kind: str) -> list[str]:
        """Names of the columns of a type's node features."""
        scales, layout = self.scales[kind], self._layout([Page([])], kind)
        table = box_table(layout)
        return [*scales.box.names(list(table.numbers)), *table.flags, *(f"text {word}" for word in scales.words)]


def _scaled(table: Columns, scale: QuantileScale) -> np.ndarray:
    return np.hstack([scale(table.matrix("numbers")), table.matrix("flags")])


def _text_features(pages: Document, kind: str) -> list[set[str]] | None:
    """Text features of every box of a type; None if there is no text at all."""
    if all(page.texts is None for page in pages):
        return None
    texts = [
        text
        for page in pages
        for text, own in zip(page.texts or ("",) * page.n_boxes, page.types or ())
        if own == kind
    ]
    return [{word for token in tokens for word in token} for tokens in WORDS.transform([t.split() for t in texts])]


def _bag(found: list[set[str]] | None, columns: Mapping[str, int], n: int) -> sparse.csr_array:
    at = [(i, columns[word]) for i, words in enumerate(found or ()) for word in words if word in columns]
    row, column = np.array(at, dtype=np.int64).reshape(-1, 2).T
    return sparse.csr_array((np.ones(len(row)), (row, column)), shape=(n, len(columns)))


def _containment(pages: Document, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Relations between boxes and the boxes that hold them, by pair of types."""
    number: dict[tuple[int, int], int] = {}
    count: Counter[str] = Counter()
    for p, page in enumerate(pages):
        for b, kind in enumerate(page.types or ()):
            number[p, b] = count[kind]
            count[kind] += 1
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for p, page in enumerate(pages):
        types = page.types or ()
        for child in np.flatnonzero(page.parents >= 0).tolist():
            parent = int(page.parents[child])
            pairs.setdefault((types[child], types[parent]), []).append((number[p, child], number[p, parent]))
    found: dict[str, Any] = {}
    for child_type in kinds:
        for parent_type in kinds:
            if child_type != parent_type:
                inside = np.array(pairs.get((child_type, parent_type), []), dtype=np.int64).reshape(-1, 2)
                found[f"{child_type} in {parent_type}"] = (child_type, parent_type, inside)
                found[f"{child_type} of {parent_type}"] = (parent_type, child_type, inside[:, ::-1])
    return found
