"""From pages to labels of their boxes: neighbors in sight, named features, a graph model; one estimator, one file."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from rulefield.data.graphs import TypedGraph
from rulefield.data.pages import Label, Page
from rulefield.encode.documents.features import SEPARATOR
from rulefield.encode.documents.graphs import PAGE, BoxScales, Document, DocumentEncoder
from rulefield.encode.documents.scaling import QuantileScale
from rulefield.estimators.graph.estimator import GraphCRF, Rules
from rulefield.estimators.graph.inputs import checked_weight
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    FLAG,
    Requirement,
    Table,
    check_parameters,
    optional,
)
from rulefield.estimators.saving import SavedModel, State
from rulefield.estimators.sequences import object_array
from rulefield.estimators.types import ArrayLike
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import check_typed, part_of

Documents = Iterable[Page | Document]
"""A page, or a list of pages that belong together, for each document."""
BoxLabels = Sequence[Label]
"""Labels of the boxes of a document, page after page; None where unknown."""
Known = Iterable[BoxLabels | None] | None
SEPARATOR_STATES = 2
"""Hidden states of a ruled line across the page."""
INNER = "model."
"""Beginning of the names of the inner model's arrays in a file."""


@dataclass(kw_only=True, eq=False, repr=False)
class DocumentTagger(SavedModel):
    """Label the boxes of documents: lines of tables, blocks of pages, words of forms.

    Boxes are nodes of a graph, the nearest ones in sight in four directions its edges; ruled lines decorate the edges,
    cut pages into regions, and those across are nodes. A :class:`rulefield.GraphCRF` learns the rest.

    Parameters
    ----------
    model : GraphCRF, optional
        The model of the graphs, with its regularization, rules, predictors and threads; by default
        ``GraphCRF(l2=2.0, random_state=0)``.
    separators : bool, default True
        Whether ruled lines are used. One across the page is a node of its own with two hidden states, joined to the boxes
        above and below it, so that all boxes along a line agree on what it is.

    Attributes
    ----------
    model_ : GraphCRF
    classes_ : list
        Labels of the boxes.

    Notes
    -----
    A document is a :class:`rulefield.formats.Page`, or a list of pages: the foot of one then sees the head of the next. Rules
    speak of nodes of the boxes' types and of ``"page"``, and of the relations ``left``, ``right``, ``above``, ``below``,
    ``only below``, ``only right``, ``on`` (the page), ``boxes`` (of a page) and ``next in region``.

    Examples
    --------
    >>> import rulefield as rf
    >>> def page(n):
    ...     return rf.formats.Page([[0, 20 * k, 100, 20 * k + 15] for k in range(n)])
    >>> pages = [page(3), page(4), page(5)]
    >>> labels = [["head"] + ["row"] * (p.n_boxes - 1) for p in pages]
    >>> rf.DocumentTagger().fit(pages, labels).predict([page(6)])[0]
    ['head', 'row', 'row', 'row', 'row', 'row']
    """

    model: GraphCRF | None = None
    separators: bool = True

    _kind = "document"
    _saved = ("classes_", "_labeled", "_scales", "_separator_scale")
    classes_: list[Label] = field(init=False)
    model_: GraphCRF = field(init=False)
    _labeled: list[str] = field(init=False)
    _scales: list[tuple[str, BoxScales]] = field(init=False)
    _separator_scale: QuantileScale | None = field(init=False)
    _given_to_load = ("predictors",)
    _parameters: ClassVar[Table] = {
        "model": optional(Requirement("a GraphCRF", lambda value: isinstance(value, GraphCRF))),
        "separators": FLAG,
    }

    # --- learning ---------------------------------------------------------------------------------

    def fit(
        self,
        X: Documents,
        y: Iterable[BoxLabels] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Sequence[Any] | np.ndarray | None = None,
    ) -> Self:
        """Learn from labeled documents.

        Parameters
        ----------
        X : list of Page, or of lists of Page
        y : list of lists of labels, optional
            A label for each box, pages one after the other; None where unknown. By default the pages' own labels.
        sample_weight : array-like of shape (n_documents,), optional
        groups : array-like of shape (n_documents,), optional
            Documents that belong together (pages of a book): cross-fitting of predictors never splits them.
        """
        check_parameters(self)
        documents = _checked_documents(X)
        labels = _checked_box_labels(documents, _own_labels(documents) if y is None else y, "y")
        encoder = DocumentEncoder(self.separators).fit(documents)
        model = GraphCRF(l2=2.0, random_state=0) if self.model is None else copy.deepcopy(self.model)
        by_box_type = [_by_type(pages, row, encoder.scales) for pages, row in zip(documents, labels)]
        known = {kind for one in by_box_type for kind, row in one.items() if any(x is not None for x in row)}
        if not known:
            raise InputError("y must hold at least one label that is known; got none.")
        hidden = {kind: 1 for kind in (*encoder.scales, PAGE) if kind not in known}
        if encoder.separator_scale is not None:
            hidden[SEPARATOR] = SEPARATOR_STATES
        model.labels = {**hidden, **(model.labels or {})}
        self.model_ = model.fit(
            [encoder.graph(pages) for pages in documents], by_box_type, sample_weight, groups=groups
        )
        self._encoder, self._labeled = encoder, sorted(known)
        self._scales, self._separator_scale = list(encoder.scales.items()), encoder.separator_scale
        self.classes_ = self._known_labels()
        return self

    def _known_labels(self) -> list[Label]:
        labels = {label for kind in self._labeled for label in self.model_.classes_[kind].tolist()}
        return sorted(labels, key=str)

    def graphs(self, X: Documents) -> list[TypedGraph]:
        """Return the graphs that the model sees."""
        check_is_fitted(self, "model_")
        return [self._encoder.graph(pages) for pages in _checked_documents(X)]

    # --- prediction -------------------------------------------------------------------------------

    def predict(self, X: Documents, *, rules: Rules = None, known: Known = None) -> np.ndarray:
        """Return the labels of each document's boxes: a 1-D object array of lists.

        Parameters
        ----------
        X : list of Page, or of lists of Page
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list, optional
            Labels known beforehand, one entry per document, None where free.
        """
        documents, graphs, allowed = self._encoded(X, known)
        predicted = self.model_.predict(graphs, rules=rules, known=allowed)
        return object_array([self._labels(pages, one) for pages, one in zip(documents, predicted)])

    def decode(
        self,
        X: Documents,
        *,
        rules: Rules = None,
        known: Known = None,
        engine: str = "auto",
        seconds: float | None = None,
    ) -> list[Labeling]:
        """Return the best labeling of each document with score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine, seconds : as in :meth:`rulefield.GraphCRF.decode`
        """
        documents, graphs, allowed = self._encoded(X, known)
        labelings = self.model_.decode(graphs, rules=rules, known=allowed, engine=engine, seconds=seconds)
        return [replace(one, labels=self._labels(pages, one.labels)) for pages, one in zip(documents, labelings)]

    def predict_marginals(self, X: Documents, *, rules: Rules = None, known: Known = None) -> list[np.ndarray]:
        """Return the probability of each label of ``classes_`` at each box, (n_boxes, n_classes) for each document."""
        documents, graphs, allowed = self._encoded(X, known)
        column = {label: k for k, label in enumerate(self.classes_)}
        out = []
        for pages, tables in zip(documents, self.model_.predict_marginals(graphs, rules=rules, known=allowed)):
            wide = {kind: np.zeros((len(table), len(column))) for kind, table in tables.items()}
            for kind in self._labeled:
                wide[kind][:, [column[name] for name in self.model_.classes_[kind].tolist()]] = tables[kind]
            out.append(np.array(_in_order(pages, wide)).reshape(-1, len(column)))
        return out

    def label(self, X: Documents, *, rules: Rules = None) -> list[list[Page]]:
        """Return the pages of each document with the predicted labels on them, ready for a writer."""
        documents = _checked_documents(X)
        out = []
        for pages, labels in zip(documents, self.predict(documents, rules=rules)):
            ends = np.cumsum([page.n_boxes for page in pages])
            out.append([page.with_labels(labels[end - page.n_boxes : end]) for page, end in zip(pages, ends)])
        return out

    def score(
        self,
        X: Documents,
        y: Iterable[BoxLabels],
        *,
        rules: Rules = None,
        known: Known = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Share of boxes with a known label that get it (weighted by document)."""
        documents = _checked_documents(X)
        predicted = self.predict(documents, rules=rules, known=known)
        labels = _checked_box_labels(documents, y, "y")
        weight = checked_weight(sample_weight, len(documents))
        hits = [[a == b for a, b in zip(row, truth) if b is not None] for row, truth in zip(predicted, labels)]
        return float(weight @ [sum(row) for row in hits]) / max(float(weight @ [len(row) for row in hits]), 1e-300)

    def explain(
        self, x: Page | Document, *, rules: Rules = None, known: BoxLabels | None = None, top: int = 5
    ) -> list[list[tuple[str, float]]]:
        """Return what speaks most for the label of each box: (feature, weight x value) of its own, largest first."""
        (pages,), (graph,), allowed = self._encoded([x], None if known is None else [known])
        (labels,) = self.model_.predict([graph], rules=rules, known=allowed)
        reasons: dict[str, list[Any]] = {}
        for kind in self._encoder.scales:
            names, classes = self._encoder.names(kind), self.model_.classes_[kind].tolist()
            features, weights = graph.nodes[kind], self.model_.coef_[kind][:, : len(names)]
            dense = features if isinstance(features, np.ndarray) else features.toarray()
            parts = dense * weights[[classes.index(label) for label in labels[kind].tolist()]]
            best = np.argsort(-parts, axis=1, kind="stable")[:, :top]
            reasons[kind] = [
                [(names[k], float(row[k])) for k in chosen if row[k] > 0] for row, chosen in zip(parts, best)
            ]
        return _in_order(pages, reasons)

    def _encoded(self, X: Documents, known: Known) -> tuple[list[Document], list[TypedGraph], list[Any] | None]:
        check_is_fitted(self, "model_")
        documents = _checked_documents(X)
        graphs = [self._encoder.graph(pages) for pages in documents]
        if known is None:
            return documents, graphs, None
        rows = _checked_box_labels(documents, known, "known")
        return documents, graphs, [_by_type(p, row, self._encoder.scales) for p, row in zip(documents, rows)]

    def _labels(self, pages: Document, labels: Mapping[str, Any]) -> list[Any]:
        """Labels of the boxes in the order of the pages; None for types that have none."""
        named = {
            kind: np.asarray(row).tolist() if kind in self._labeled else [None] * len(row)
            for kind, row in labels.items()
        }
        return _in_order(pages, named)

    # --- scikit-learn and files -------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _params_to_save(self) -> dict[str, Any]:
        return {"model": None}  # one that was given comes back as the fitted one

    def _state(self) -> State:
        arrays, model = self.model_._whole_state()
        inner = {f"{INNER}{name}": array for name, array in arrays.items()}
        return inner, {"model": model, "given": self.model is not None}

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        self.model_ = GraphCRF._from_state(part_of(arrays, INNER), metadata["model"], **given)
        check_typed(metadata["given"], bool, "the model")
        self.model = self.model_ if metadata["given"] else None
        self._encoder = DocumentEncoder(self.separators)
        self._encoder.scales, self._encoder.separator_scale = dict(self._scales), self._separator_scale
        self._check_restored()

    def _check_restored(self) -> None:
        """Refuse scales of a file that do not fit its model."""
        kinds, known = set(self._encoder.scales), self.model_.n_features_in_
        good = bool(kinds) and set(known) - {SEPARATOR} == {*kinds, PAGE} and set(self._labeled) <= kinds
        good = good and all([*s.words.values()] == [*range(len(s.words))] for s in self._encoder.scales.values())
        if good:
            graph = self.model_._graphs([self._encoder.graph([Page([])])])[0]
            widths = self.model_.model_.spec.edge_features
            good = all(graph.nodes[kind].shape[1] == width for kind, width in known.items())
            good = good and all(_width(graph.edges.get(pair)) in (0, width) for pair, width in widths.items())
            good = good and self.classes_ == self._known_labels()
        if not good:
            raise ModelFileError("the boxes of the model file do not fit its model; save the model again.")


def _width(edges: tuple[np.ndarray, Any] | None) -> int:
    return 0 if edges is None or edges[1] is None else edges[1].shape[1]


def _in_order(pages: Document, values: Mapping[str, Sequence[Any] | np.ndarray]) -> list[Any]:
    """Values by type in the order of the boxes of the pages."""
    streams = {kind: iter(row) for kind, row in values.items()}
    return [next(streams[kind]) for page in pages for kind in page.types or ()]


# --- what users give, checked ---------------------------------------------------------------------


def _checked_documents(X: Documents) -> list[Document]:
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


def _own_labels(documents: Sequence[Document]) -> list[BoxLabels]:
    return [[label for page in pages for label in page.labels or (None,) * page.n_boxes] for pages in documents]


def _checked_box_labels(documents: Sequence[Document], y: Iterable[BoxLabels | None], name: str) -> list[list[Any]]:
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


def _by_type(pages: Document, labels: Sequence[Any], kinds: Iterable[str]) -> dict[str, Any]:
    """Labels of the boxes by type, as a graph has them."""
    found: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for kind, label in zip([kind for page in pages for kind in page.types or ()], labels):
        if kind not in found:
            raise InputError(f"the model knows boxes of types {sorted(found)}; got {kind!r}.")
        found[kind].append(label)
    return dict(found)
