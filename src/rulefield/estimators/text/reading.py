"""From texts to columns of spans: cut, label, find segments, work out probabilities, for many texts at a time."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain as joined
from typing import Any, NamedTuple

import numpy as np

from rulefield.data.cut_texts import CutTexts
from rulefield.data.documents import Document, as_span
from rulefield.encode.alignment import align
from rulefield.encode.keyed.cutting import cut
from rulefield.encode.spans import SegmentTable
from rulefield.encode.tokenizers import Tokenizer
from rulefield.estimators.answers import Batch
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.text.parse import Parse, Readings
from rulefield.inference.sequences.reading import SegmentRows, find_segments, read_chains
from rulefield.interrupts import check
from rulefield.parallel import n_threads

PORTION = 1000
"""Texts that are read at a time: what belongs to them stays in the cache."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Make many small objects, none of which refers to itself, without looking for those that do.

    The search goes through all objects of the process again and again, which took half of the time of bulk parsing.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def chain_of(model: Any) -> ChainCRF | None:
    """Return the chain whose sums give probabilities, or None if the model is no chain."""
    inner = model.estimator_ if model._kind == "ruled" else model
    return inner if isinstance(inner, ChainCRF) else None


def scheme_of(model: Any) -> str | None:
    """Return the scheme of a model's labels."""
    return (model.estimator_ if hasattr(model, "estimator_") else getattr(model, "estimator", None) or model).scheme


class Asked(NamedTuple):
    """What a caller asks for beside the texts."""

    rules: Any
    known: Any
    probabilities: bool
    chances: bool


class Reader:
    """Reads texts with one model; what depends on the model alone is made once.

    Parameters
    ----------
    model : ChainCRF, RuledCRF or SegmentCRF, fitted
    tokenizer : Tokenizer
    """

    def __init__(self, model: Any, tokenizer: Tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.chain, self.scheme = chain_of(model), scheme_of(model)
        self._decoder: ChainDecoder | None = None
        self._under: tuple[Any, Any, Any] | None = None
        self._table: SegmentTable | None = None
        if self.chain is not None:
            self._table = SegmentTable([str(c) for c in model.classes_], self.scheme)

    def read(self, texts: list[str], asked: Asked) -> list[Readings]:
        """Read all texts, a portion at a time; all at once if rules or known labels may be infeasible for one."""
        acting = self.model._acting(asked.rules)
        plain = self.chain is not None and not acting
        size = PORTION if plain and asked.known is None else max(len(texts), 1)
        made = []
        for first in range(0, len(texts), size):
            check()
            part = cut(self.tokenizer, texts[first : first + size])
            found = self._plain(part, asked) if plain else None
            made.append(self._under_rules(part, asked, acting) if found is None else found)
        return made

    def _known(self, part: CutTexts, known: Any) -> list[Any] | None:
        """Return labels of tokens that are known beforehand, for each text."""
        return None if known is None else [self._clamped(part, i, known[i]) for i in range(len(part))]

    def _clamped(self, part: CutTexts, i: int, known: Any) -> Any:
        if known is None:
            return None
        document = Document(part.texts[i], tuple(as_span(span) for span in known))
        labels = align(document, lambda _: part.places(i), self.scheme, "snap").labels or []  # type: ignore[arg-type]
        return [None if label == "O" else label for label in labels]

    # --- chains without rules -------------------------------------------------------------------

    def _plain(self, part: CutTexts, asked: Asked) -> Readings | None:
        """Read texts in one pass over all of them; None if that does not prove each labeling."""
        chain, table = self.chain, self._table
        assert chain is not None
        assert table is not None
        data = chain._encoder.transform(part)
        known = self._known(part, asked.known)
        allowed = None if known is None else chain._possible(known, Batch(part, data))
        scores = self._current_decoder(chain).scores(data, allowed, 0, len(data))
        read = read_chains(*scores, table, asked.probabilities)
        if not read.proved.all():
            return None
        if read.total is None:
            return self._readings(part, read.segments, table, asked)
        chance = read.chance if asked.chances else None
        whole = np.minimum(np.exp(read.score - read.total), 1.0).tolist()
        probability = [p if n else None for p, n in zip(whole, part.lengths.tolist())]
        return self._readings(part, read.segments, table, asked, chance, probability)

    def _current_decoder(self, chain: ChainCRF) -> ChainDecoder:
        """Return the decoder of the chain's weights, made anew if these were replaced."""
        if (
            self._decoder is None
            or self._decoder.theta is not chain.theta_
            or self._decoder.model is not chain.model_
        ):
            self._decoder = chain._decoder()
        return self._decoder

    # --- other models, and rules ----------------------------------------------------------------

    def _under_rules(self, part: CutTexts, asked: Asked, acting: list[Any]) -> Readings:
        """Read texts by the model's own ``decode`` or ``predict``; texts without tokens are left out."""
        if acting and self.chain is not None and asked.probabilities and self._ruled_decoder(acting)._is_plain:
            return self._ruled_chain(part, asked, self._ruled_decoder(acting))
        rows = np.flatnonzero(part.lengths).tolist()
        tokens = [part[i] for i in rows]
        known = self._known(part, asked.known)
        more = {"rules": asked.rules, "known": None if known is None else [known[i] for i in rows]}
        labelings: list[Labeling] | None = None
        if not rows:
            labels: list[Any] = []
        elif asked.probabilities:
            sums = {"probability": True} if self.chain is not None else {}
            labelings = self.model.decode(tokens, **more, **sums)
            labels = [labeling.labels for labeling in labelings]
        else:
            labels = list(self.model.predict(tokens, **more))
        table = self._table or SegmentTable(sorted({str(y) for row in labels for y in row}), self.scheme)
        segments = find_segments(table, numbered(table, labels), part.lengths)
        chance = None
        if asked.chances and self.chain is not None:
            chance = self._ruled_chances(part, segments, table, acting, known)
        if labelings is None:
            return self._readings(part, segments, table, asked, chance)
        probability, broken, status = _scattered(labelings, rows, len(part))
        made = self._readings(part, segments, table, asked, chance, probability, broken, status)
        made.error = [0.0] * len(part)
        for i, labeling in zip(rows, labelings):
            made.error[i] = labeling.probability_error or 0.0
        return made

    def _ruled_chances(
        self, part: CutTexts, segments: SegmentRows, table: SegmentTable, acting: list[Any], known: list[Any] | None
    ) -> list[float]:
        """Return the probability of every segment under rules and known labels."""
        assert self.chain is not None
        data = self.chain._encoder.transform(part)
        allowed = None if known is None else self.chain._possible(known, Batch(part, data))
        rules = self.chain._ruled_decoder(acting)
        tokens = [part[i] for i in range(len(part))]
        return rules.segment_chances(data, tokens, allowed, segments, table)[0].tolist()

    def _ruled_chain(self, part: CutTexts, asked: Asked, decoder: Any) -> Readings:
        """Read texts by a chain under rules; one pass of sums gives the probabilities of labelings and of segments."""
        chain, table = self.chain, self._table
        assert chain is not None
        assert table is not None
        data = chain._encoder.transform(part)
        known = self._known(part, asked.known)
        allowed = None if known is None else chain._possible(known, Batch(part, data))
        tokens = list(part) if decoder.compiler.reads_tokens else part.lengths.tolist()
        labelings = decoder.decode(data, tokens, allowed)
        segments = find_segments(table, numbered(table, [one.labels for one in labelings]), part.lengths)
        chance, _, total, share = decoder.segment_chances(data, tokens, allowed, segments, table)
        with np.errstate(invalid="ignore"):
            whole = np.exp(np.minimum(np.array([one.objective for one in labelings]) - total, 0.0))
        probability = [
            None if n == 0 else 0.0 if any(b.cost == np.inf for b in one.broken) else p
            for one, p, n in zip(labelings, whole.tolist(), part.lengths.tolist())
        ]
        broken, status = [one.broken for one in labelings], [one.status for one in labelings]
        made = self._readings(
            part, segments, table, asked, chance if asked.chances else None, probability, broken, status
        )
        made.error = (whole * share).tolist()
        return made

    def _ruled_decoder(self, acting: list[Any]) -> Any:
        """Return what decodes under rules; it is kept for the next call under the same ones."""
        assert self.chain is not None
        how = self.model.on_infeasible, n_threads(self.model.n_jobs)
        key = (*map(id, acting), id(self.chain.theta_), *how)
        if self._under is None or self._under[0] != key:
            made = self.model._answers(acting, *how)._under_rules()
            self._under = key, (acting, self.chain.theta_), made  # what is kept keeps its place in memory
        return self._under[2]

    # --- columns ----------------------------------------------------------------------------------

    def _readings(
        self,
        part: CutTexts,
        segments: SegmentRows,
        table: SegmentTable,
        asked: Asked,
        chance: Any = None,
        probability: list[float | None] | None = None,
        broken: list[Any] | None = None,
        status: list[str] | None = None,
    ) -> Readings:
        spans = part.start[segments.first], part.stop[segments.last], segments.kind
        labels = [name.rsplit("/", 1)[-1] for name in table.types]  # as users wrote them
        whole: list[float | None] = [None] * len(part) if probability is None else probability
        made = Readings(part.texts, segments.pointer, spans, labels, chance, whole, broken, status)
        made.more = lambda i, k: self._alternatives(part, made, asked, i, k)
        return made

    def _alternatives(self, part: CutTexts, best: Readings, asked: Asked, i: int, k: int) -> list[Parse]:
        """Return the k best parses of text i; the certificate is that of the best."""
        first = Parse(best, i)
        if not part.lengths[i]:
            return [first]
        known = None if asked.known is None else [self._clamped(part, i, asked.known[i])]
        answers = self.model.predict_kbest([part[i]], rules=asked.rules, known=known, k=k)[0]
        labels = [list(row) for row, _ in answers]
        table = self._table or SegmentTable(sorted({str(y) for row in labels for y in row}), self.scheme)
        lengths = np.full(len(labels), part.lengths[i])
        segments = find_segments(table, numbered(table, labels), lengths)
        own = np.tile(np.arange(part.offsets[i], part.offsets[i + 1]), len(labels))
        spans = part.start[own[segments.first]], part.stop[own[segments.last]], segments.kind
        names = [name.rsplit("/", 1)[-1] for name in table.types]
        made = Readings(
            [part.texts[i]] * len(labels), segments.pointer, spans, names, None, [float(p) for _, p in answers],
            [()] * len(labels), [first.status] * len(labels),
        )  # fmt: skip
        parses = made.parses()
        for row, parse in enumerate(parses):
            if [s[:3] for s in parse.spans] == [s[:3] for s in first.spans]:
                made.broken[row] = first.broken  # type: ignore[index]
        return parses


def numbered(table: SegmentTable, labels: Sequence[Sequence[Any]]) -> np.ndarray:
    """Return the numbers of all labels, one labeling after the other."""
    number = {label: i for i, label in enumerate(table.labels)}
    return np.array([number[str(label)] for label in joined.from_iterable(labels)], np.int64)


def _scattered(
    labelings: Sequence[Labeling], rows: Sequence[int], n: int
) -> tuple[list[float | None], list[Any], list[str]]:
    """Return probabilities, broken rules and statuses of all texts, of which ``rows`` were labeled."""
    probability: list[float | None] = [None] * n
    broken: list[Any] = [()] * n
    status = ["optimal"] * n
    for i, labeling in zip(rows, labelings):
        probability[i], broken[i], status[i] = labeling.probability, labeling.broken, labeling.status
    return probability, broken, status
