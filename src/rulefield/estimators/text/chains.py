"""What a parser needs of a sequence model: labels of tokens, their probability, and that of each segment."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from rulefield.encode.spans import SegmentTable, Span
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.parameters import rule_list
from rulefield.inference.sequences.spans import span_probabilities
from rulefield.problem.chain_rules import ChainProblem


@contextmanager
def uncollected() -> Iterator[None]:
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
    """Return the chain whose sums give probabilities, or None where the model is no chain."""
    if model._kind == "ruled":
        return model.estimator_
    return model if isinstance(model, ChainCRF) else None


def acting_rules(model: Any, rules: Any) -> list[Any]:
    """Return the rules that act in a prediction: the model's own where ``rules`` is None."""
    if rules is None:
        rules = model.rules_ if model._kind == "ruled" else model.rules
    return rule_list(rules)


class SpanChances:
    """Probabilities of segments of one model under one list of rules; tables and compiled rules are made once."""

    def __init__(self, chain: ChainCRF, rules: Sequence[Any], table: SegmentTable):
        self.chain, self.table = chain, table
        self.decoder = chain._ruled_decoder(rules) if rules else None

    def __call__(self, tokens: list[str], found: list[tuple[Span, int]]) -> list[float | None]:
        """Return the probability of every segment of a labeling."""
        data = self.chain._encoder.transform([tokens])
        potentials = self.chain._decoder().potentials(data, 0)
        compiled = self.decoder.compiler(tokens) if self.decoder else ()
        return list(span_probabilities(ChainProblem(potentials, compiled), found, self.table))


class SegmentFinder:
    """Segments of many labelings at once, by one table of the model's labels.

    Parameters
    ----------
    labels : list of str
    scheme : str or None
    """

    def __init__(self, labels: Sequence[str], scheme: str | None):
        self.table = SegmentTable(list(labels), scheme)
        self.number = {label: i for i, label in enumerate(labels)}

    def __call__(self, labelings: Sequence[Sequence[str]]) -> list[list[tuple[Span, int]]]:
        """Return the segments of each labeling with their level, outermost first at each start; runs of ``O`` are none."""
        lengths = np.array([len(labels) for labels in labelings], dtype=np.int64)
        table = self.table
        flat = map(self.number.__getitem__, chain.from_iterable(labelings))
        ids = np.fromiter(flat, np.int64, int(lengths.sum()))
        offsets = np.cumsum(lengths) - lengths
        found: list[list[tuple[Span, int]]] = [[] for _ in labelings]
        for level in range(table.depth):
            first, last, kind = table.find(ids, lengths, level)
            owner = np.searchsorted(offsets, first, side="right") - 1
            start, stop = first - offsets[owner], last - offsets[owner] + 1
            for i, a, b, k in zip(owner.tolist(), start.tolist(), stop.tolist(), kind.tolist()):
                if table.types[k] != "O":
                    found[i].append((Span(a, b, table.types[k]), level))
        if table.depth > 1:
            for row in found:
                row.sort(key=lambda item: (item[0].start, item[1]))
        return found


def characters(span: Span, places: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Characters of a segment of tokens."""
    return places[span.start][0], places[span.stop - 1][1]


def label_of(span: Span) -> str:
    """Return the label of a segment as users wrote it: the last component of its path."""
    return span.type.rsplit("/", 1)[-1]
