"""From texts to columns of spans: cut, label, find segments, work out probabilities, for many texts at a time."""

import gc
from collections.abc import Iterator
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
from rulefield.estimators.base import Batch
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.labelings import broken_rules
from rulefield.estimators.text.parse import Parse, Readings
from rulefield.inference.sequences.reading import SegmentRows, find_segments, read_chains
from rulefield.interrupts import check

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
    """Return the scheme of a model's labels; a ruled model has that of the estimator inside it."""
    inner = getattr(model, "estimator_", None) or getattr(model, "estimator", None) or model
    return getattr(inner, "scheme", None)


class Asked(NamedTuple):
    """What a caller asks for beside the texts."""

    rules: Any
    known: Any
    probabilities: bool
    chances: bool


class Reader:
    """Reads texts with one model; what depends on the model and the rules alone is made once.

    Parameters
    ----------
    model : ChainCRF, RuledCRF or SegmentCRF, fitted
    tokenizer : Tokenizer
    """

    def __init__(self, model: Any, tokenizer: Tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.chain, self.scheme = chain_of(model), scheme_of(model)
        self._decoder: ChainDecoder | None = None
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
            batch = self.model._encode(part)
            if asked.known is not None:
                known = [self._clamped(part, i, asked.known[i]) for i in range(len(part))]
                batch.allowed = self.model._possible(known, batch)
            readings = self._without_rules(part, batch, asked) if plain else None
            made.append(self._under_rules(part, batch, asked, acting) if readings is None else readings)
        return made

    def _clamped(self, part: CutTexts, i: int, known: Any) -> Any:
        """Return labels of the tokens of text ``i`` that are known beforehand."""
        if known is None:
            return None
        document = Document(part.texts[i], tuple(as_span(span) for span in known))
        labels = align(document, lambda _: part.places(i), self.scheme, "snap").labels or []
        return [None if label == "O" else label for label in labels]

    def _without_rules(self, part: CutTexts, batch: Batch, asked: Asked) -> Readings | None:
        """Read texts by a chain, in one pass over all of them; None if that does not prove each labeling."""
        chain, table = self.chain, self._table
        assert chain is not None
        assert table is not None
        if (
            self._decoder is None
            or self._decoder.theta is not chain.theta_
            or self._decoder.model is not chain.model_
        ):
            self._decoder = chain._decoder()
        scores = self._decoder.scores(batch.data, batch.allowed, 0, len(batch))
        read = read_chains(*scores, table, asked.probabilities)
        if not read.proved.all():
            return None
        if read.total is None:
            return self._readings(part, read.segments, table, asked)
        chance = read.chance if asked.chances else None
        whole = np.minimum(np.exp(read.score - read.total), 1.0).tolist()
        probability = [p if n else None for p, n in zip(whole, part.lengths.tolist())]
        return self._readings(part, read.segments, table, asked, chance, probability)

    def _under_rules(self, part: CutTexts, batch: Batch, asked: Asked, acting: list[Any]) -> Readings:
        """Read texts by the answers of the model; one pass of sums gives probabilities of labelings and of segments."""
        answers, chance, error = self.model._answers_under(acting), None, None
        if not asked.probabilities:
            labels = answers.labels(batch)
            return self._readings(part, *self._segments(labels, part.lengths), asked)
        results = answers.results(batch)
        segments, table = self._segments([answers.named(one.labels) for one in results], part.lengths)
        probability: list[float | None] = [None] * len(part)
        if self.chain is not None:
            if asked.chances:
                chance, _, sums = answers.segment_chances(batch, segments, table)
            else:
                sums = answers.sums(batch)
            whole, error_of_whole, _ = answers.probabilities(results, sums)
            probability = [p if n else None for p, n in zip(whole.tolist(), part.lengths.tolist())]
            error = error_of_whole.tolist()
        broken = [broken_rules(one, answers.names) for one in results]
        made = self._readings(
            part, segments, table, asked, chance, probability, broken, [str(one.status) for one in results]
        )
        made.error = error
        return made

    def _segments(self, labels: list[Any], lengths: np.ndarray) -> tuple[SegmentRows, SegmentTable]:
        """Return the segments of labelings, and the table that numbers them."""
        table = self._table or SegmentTable(sorted({str(y) for row in labels for y in row}), self.scheme)
        number = {label: i for i, label in enumerate(table.labels)}
        ids = np.array([number[str(label)] for label in joined.from_iterable(labels)], np.int64)
        return find_segments(table, ids, lengths), table

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
        segments, table = self._segments(labels, np.full(len(labels), part.lengths[i]))
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
