"""From strings to fields: a tokenizer, a sequence model and the way back to characters, as one estimator and one file."""

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict

import numpy as np

from rulefield.data.documents import Document, as_span
from rulefield.encode.alignment import ON_CUT, Cut, align
from rulefield.encode.spans import SegmentTable
from rulefield.encode.tokenizers import Tokenizer, as_tokenizer, from_config
from rulefield.estimators.chain.estimator import CHOSEN_L1_TOL, ChainCRF
from rulefield.estimators.parameters import (
    Requirement,
    Table,
    check_parameters,
    check_value,
    one_of,
    optional,
)
from rulefield.estimators.saving import SavedModel, State, load
from rulefield.estimators.sequences import checked_weights, object_array
from rulefield.estimators.text.columns import as_frame, field_columns, texts_of
from rulefield.estimators.text.parse import Parse, Readings
from rulefield.estimators.text.reading import Asked, Reader, scheme_of, without_collection
from rulefield.estimators.text.recombined import recombine, with_stray_marks
from rulefield.estimators.text.tokenizing import AUTO, advice, choose_tokenizer
from rulefield.estimators.text.variants import MOST_TEXTS, Labeled, with_variants
from rulefield.estimators.types import ArrayLike, RulesLike
from rulefield.exceptions import InputError
from rulefield.forms import Form, check_arrays, check_typed
from rulefield.metrics import text_span_f1
from rulefield.scikit import check_is_fitted

Spans = Sequence[Sequence[Any]]

PARSER_FORMS = {"model": Form(("uint8",), ("bytes",))}
"""The one array of a parser: the file of its model, which is checked as such."""


class ParserMetadata(TypedDict):
    """What a parser's file holds beside it."""

    tokenizer: dict[str, str | bool]
    given: bool


def _labels_sequences(value: object) -> bool:
    return getattr(value, "_kind", None) in ("chain", "ruled", "segments")


def _is_tokenizer(value: object) -> bool:
    return value is None or isinstance(value, str) or callable(value)


@dataclass(kw_only=True, eq=False, repr=False)
class TextParser(SavedModel):
    """Cut texts into labeled fields: addresses, citations, names, invoices, log lines.

    Parameters
    ----------
    model : ChainCRF, RuledCRF or SegmentCRF, optional
        What labels the tokens; by default ``ChainCRF(scheme="BIO", l1="auto", l2="auto")``, whose penalties are chosen on
        texts held out. Its scheme is what spans are written in.
    tokenizer : {"auto", "words", "fine", "whitespace"}, str, or callable
        "words" keeps numbers and abbreviations whole and punctuation apart; "fine" also cuts between digits and letters and
        before capitals (``5mg``, ``mainStreet``); any other string is a regular expression; a callable returns tokens, or
        (start, end) places. "auto" is "words"; if gold spans cut more than 1 % of their edges, ``fit`` compares a few
        tokenizers by cross-validation and takes the best. A model file keeps all but a callable, which it names: ``load``
        is then given ``tokenizer=``.
    on_cut : {"split", "snap", "raise"}
        What to do where a gold span begins or ends inside a token: cut the token, widen the span, or refuse.

    Attributes
    ----------
    model_ : the fitted model
    labels_ : list of str
        Labels of fields, sorted.
    cuts_ : list of (int, Cut)
        Where gold spans cut tokens: the number of the text, and the place.
    tokenizer_scores_ : dict
        Span F1 by cross-validation of the tokenizers that ``fit`` compared; empty if it had no need to.

    Examples
    --------
    >>> from rulefield import TextParser
    >>> texts = ["Ada Lovelace, 1843", "Alan Turing, 1936", "Emmy Noether, 1918"]
    >>> spans = [[(0, 12, "name"), (14, 18, "year")], [(0, 11, "name"), (13, 17, "year")]]
    >>> spans.append([(0, 12, "name"), (14, 18, "year")])
    >>> parser = TextParser().fit(texts, spans)
    >>> parser.parse("Grace Hopper, 1952").fields
    {'name': 'Grace Hopper', 'year': '1952'}
    """

    model: Any = None
    tokenizer: Any = "auto"
    on_cut: str = "split"

    _kind = "text"
    _parameters: ClassVar[Table] = {
        "model": optional(Requirement("a ChainCRF, RuledCRF or SegmentCRF", _labels_sequences)),
        "tokenizer": Requirement(
            "'auto', 'words', 'fine', 'whitespace', a regular expression or a function", _is_tokenizer
        ),
        "on_cut": one_of(*ON_CUT),
    }
    _saved = ("labels_", "tokenizer_scores_")
    _given_to_load = ("tokenizer", "features")

    @classmethod
    def of(cls, model: Any, tokenizer: Any = "words") -> "TextParser":
        """Make a parser of a model that is fitted already: give it a tokenizer."""
        check_is_fitted(model)
        made = cls(model=model, tokenizer=tokenizer)
        made.model_, made._tokenizer, made.cuts_, made.tokenizer_scores_ = model, as_tokenizer(tokenizer), [], {}
        table = SegmentTable([str(c) for c in model.classes_], scheme_of(model))
        made.labels_ = sorted({kind.rsplit("/", 1)[-1] for kind in table.types} - {"O"})
        return made

    # --- learning ---------------------------------------------------------------------------------

    def fit(
        self, texts: Any, spans: Iterable[Spans] | None = None, *, sample_weight: ArrayLike | None = None
    ) -> "TextParser":
        """Learn from labeled texts.

        Parameters
        ----------
        texts : list or column of str, or list of Document
        spans : list of lists of (start, end, label)
            Characters from 0, the end not included; not needed where ``texts`` are documents with spans.
        sample_weight : array-like of shape (n_texts,), optional
        """
        check_parameters(self)
        documents = _documents(texts, spans)
        if not documents:
            raise InputError("fit needs at least one labeled text; got none.")
        model = ChainCRF(scheme="BIO", l1="auto", l2="auto") if self.model is None else copy.deepcopy(self.model)
        tokenizer, self.tokenizer_scores_ = self._chosen_tokenizer(documents, scheme_of(model))
        return self._learn(documents, model, tokenizer, checked_weights(sample_weight, len(documents)))

    def _learn(
        self, documents: Sequence[Document], model: Any, tokenizer: Tokenizer, weight: np.ndarray | None = None
    ) -> "TextParser":
        """Learn from documents that are cut by a given tokenizer."""
        scheme = scheme_of(model)
        tokens, labels, kept = [], [], []
        self.cuts_: list[tuple[int, Cut]] = []
        for i, document in enumerate(documents):
            made = _aligned(document, tokenizer, scheme, self.on_cut, i)
            self.cuts_ += [(i, cut) for cut in made.cuts]
            if made.places:
                tokens.append([document.text[a:b] for a, b in made.places])
                labels.append(made.labels)
                kept.append(i)
        self._tokenizer = tokenizer
        self._tell_cuts()
        self.model_ = _fitted(model, Labeled(tokens, labels, np.ones(len(kept)) if weight is None else weight[kept]))
        self.labels_ = sorted({span.label for document in documents for span in document.spans or ()})
        return self

    def _chosen_tokenizer(self, documents: list[Document], scheme: str | None) -> tuple[Tokenizer, dict[str, float]]:
        if self.on_cut == "raise" and self.tokenizer != AUTO:
            return as_tokenizer(self.tokenizer), {}

        def fit(tokenizer: Tokenizer, some: Sequence[Document]) -> TextParser:
            made = TextParser()
            made.tokenizer_scores_ = {}
            return made._learn(some, ChainCRF(scheme=scheme), tokenizer)

        return choose_tokenizer(self.tokenizer, documents, fit)

    def _tell_cuts(self) -> None:
        if not self.cuts_:
            return
        i, cut = self.cuts_[0]
        what = {"split": "the tokens were split", "snap": "the spans were widened"}[self.on_cut]
        warnings.warn(
            f"{len(self.cuts_)} span edges lie inside a token (text {i}: {cut}); {what} (on_cut={self.on_cut!r}), but "
            f"predictions are made of whole tokens{advice(self._tokenizer, self.tokenizer_scores_)}.",
            UserWarning,
            stacklevel=4,
        )

    # --- prediction -------------------------------------------------------------------------------

    def parse(self, text: str, *, rules: RulesLike | None = None, known: Spans | None = None) -> Parse:
        """Parse one text, with the probability of every span.

        Parameters
        ----------
        text : str
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list of (start, end, label), optional
            Spans known beforehand.
        """
        if not isinstance(text, str):
            raise InputError(f"text must be a string; got {type(text).__name__}; for many texts call parse_all.")
        return Parse(self._read([text], rules, None if known is None else [known])[0], 0)

    def parse_all(
        self,
        texts: Any,
        *,
        rules: RulesLike | None = None,
        known: Sequence[Spans | None] | None = None,
        probabilities: bool = True,
    ) -> list[Parse]:
        """Parse many texts; ``probabilities=False`` leaves the probability of each span out, which is quicker."""
        with without_collection():
            read = self._read(texts_of(texts), rules, known, chances=probabilities)
            return [parse for readings in read for parse in readings.parses()]

    def parse_json(self, texts: Any, *, rules: RulesLike | None = None, probabilities: bool = True) -> list[str]:
        """Parse many texts; return one JSON object per text, as ``Parse.to_json`` writes it, without making objects."""
        with without_collection():
            read = self._read(texts_of(texts), rules, None, chances=probabilities)
            return [line for readings in read for line in readings.json()]

    def predict(
        self, X: Any, *, rules: RulesLike | None = None, known: Sequence[Spans | None] | None = None
    ) -> np.ndarray:
        """Return the spans of each text: a 1-D object array of lists of (start, end, label)."""
        with without_collection():
            read = self._read(texts_of(X), rules, known, probabilities=False, chances=False)
            return object_array([row for readings in read for row in readings.tuples()])

    def _read(
        self,
        texts: list[str],
        rules: RulesLike | None,
        known: Sequence[Spans | None] | None,
        *,
        probabilities: bool = True,
        chances: bool = True,
    ) -> list[Readings]:
        """Read texts, with what depends on the model alone made once."""
        reader = getattr(self, "_reader", None)
        if (
            reader is None
            or reader.model is not getattr(self, "model_", None)
            or reader.tokenizer is not self._tokenizer
        ):
            check_is_fitted(self, "model_")
            self._reader = reader = Reader(self.model_, self._tokenizer)
        return reader.read(texts, Asked(rules, known, probabilities, chances))

    def parse_column(self, texts: Any, *, rules: RulesLike | None = None) -> Any:
        """Return one column per field, ``probability`` and ``broken``, in a frame of the same library as ``texts``.

        A pandas, polars or Arrow column gives a frame of its own kind, row by row; a pandas frame has the index of the
        column, so that ``df.join(parser.parse_column(df["address"]))`` puts fields beside their texts. A list gives a dict
        of lists. Missing and empty texts give a row without fields, whose probability is missing.
        """
        parses = self.parse_all(texts, rules=rules, probabilities=False)
        return as_frame(field_columns(parses, self.labels_), texts)

    def score(
        self,
        X: Any,
        y: Iterable[Spans],
        *,
        rules: RulesLike | None = None,
        known: Sequence[Spans | None] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """F1 of spans: start, end and label must agree; each text counts by its weight."""
        found = self.predict(X, rules=rules, known=known)
        gold = list(y)
        if len(gold) != len(found):
            raise InputError(f"X has {len(found)} texts but y has {len(gold)} lists of spans.")
        return float(text_span_f1(gold, found, sample_weight=checked_weights(sample_weight, len(gold))))

    def tokens(self, texts: Any) -> list[list[str]]:
        """Return the tokens of each text, as the model inside sees them."""
        check_is_fitted(self, "model_")
        return [[text[a:b] for a, b in self._tokenizer(text)] for text in texts_of(texts)]

    def labeled_tokens(self, texts: Any, spans: Iterable[Spans] | None = None) -> tuple[list[Any], list[Any]]:
        """Return tokens and gold labels of labeled texts as the model inside sees them; arguments of ``fit``.

        Spans that cut a token are widened to it: predictions are made of whole tokens.
        """
        check_is_fitted(self, "model_")
        scheme = scheme_of(self.model_)
        made = [(d.text, align(d, self._tokenizer, scheme, "snap")) for d in _documents(texts, spans)]
        return [[t[a:b] for a, b in m.places] for t, m in made], [m.labels for _, m in made]

    # --- files and scikit-learn -------------------------------------------------------------------

    def _state(self) -> State:
        inner = np.frombuffer(self.model_.to_bytes(), dtype=np.uint8)
        return {"model": inner}, {"tokenizer": self._tokenizer.to_config(), "given": self.model is not None}

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        check_typed(metadata, ParserMetadata, "the model")
        check_arrays(arrays, PARSER_FORMS, {})
        features = {name: value for name, value in given.items() if name == "features"}
        self.model_ = load(arrays["model"].tobytes(), **features)
        self.model = self.model_ if metadata["given"] else None
        check_value("model", self.model_, self._parameters["model"])
        self._tokenizer = from_config(metadata["tokenizer"], given.get("tokenizer"))
        self.cuts_ = []

    def _params_to_save(self) -> dict[str, Any]:
        return {"model": None}  # one that was given comes back as the fitted one

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


def _fitted(model: Any, texts: Labeled) -> Any:
    """Return the model fitted to labeled texts; a chain of few texts, also to their variants and to texts of their parts."""
    weighted = {} if (texts.weight == 1.0).all() else {"sample_weight": texts.weight}
    plain_chain = model._kind == "chain" and model.scheme == "BIO" and not model.expectations
    if not plain_chain or len(texts.tokens) > MOST_TEXTS:
        return model.fit(texts.tokens, texts.labels, **weighted)
    from sklearn.exceptions import ConvergenceWarning  # scikit-learn is slow to import, and parsing needs none of it

    plain = copy.deepcopy(model)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        made = model.fit(texts.tokens, texts.labels, **weighted)
    interrupted = made.stopped_because_.startswith("Interrupted")
    for one in warned:  # the fit that follows says itself whether it converged
        if interrupted or not issubclass(one.category, ConvergenceWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if interrupted:
        return made
    more = with_variants(texts) + with_stray_marks(texts) + recombine(texts)
    tol = CHOSEN_L1_TOL if model.tol is None and made.l1_ > 0.0 else model.tol
    plain.set_params(l1=made.l1_, l2=made.l2_, tol=tol).fit(more.tokens, more.labels, sample_weight=more.weight)
    return plain.set_params(l1=model.l1, l2=model.l2, tol=model.tol)


def _documents(texts: Any, spans: Iterable[Spans] | None) -> list[Document]:
    if spans is None:
        documents = list(texts)
        wrong = next(
            (i for i, doc in enumerate(documents) if not isinstance(doc, Document) or doc.spans is None), None
        )
        if wrong is not None:
            raise InputError(
                f"fit needs spans: give them as a second argument, or labeled documents (texts[{wrong}] is not)."
            )
        return documents
    plain, marks = texts_of(texts), list(spans)
    if len(plain) != len(marks):
        raise InputError(f"there are {len(plain)} texts but {len(marks)} lists of spans; give one list per text.")
    made = []
    for i, (text, row) in enumerate(zip(plain, marks)):
        try:
            made.append(Document(text, tuple(as_span(span) for span in row)))
        except (TypeError, InputError) as error:
            raise InputError(f"text {i}: {error}") from None
    return made


def _aligned(document: Document, tokenizer: Any, scheme: str | None, on_cut: str, number: int) -> Any:
    try:
        return align(document, tokenizer, scheme, on_cut)
    except InputError as error:
        raise InputError(f"text {number}: {error}") from None
