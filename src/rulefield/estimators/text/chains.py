"""What a parser needs of a sequence model: labels of tokens, their probability, and that of each segment."""

from collections.abc import Sequence
from typing import Any

from rulefield.encode.spans import SegmentTable, Span, spans
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.ruled.estimator import RuledCRF
from rulefield.inference.chain.spans import span_probabilities
from rulefield.problem.chain_rules import ChainProblem


def chain_of(model: Any) -> ChainCRF | None:
    """Return the chain whose sums give probabilities, or None where the model is no chain."""
    if isinstance(model, RuledCRF):
        return model.crf_
    return model if isinstance(model, ChainCRF) else None


def acting_rules(model: Any, rules: Any) -> list[Any]:
    """Return the rules that act in a prediction: the model's own where ``rules`` is None."""
    if rules is not None:
        return list(rules)
    return list(model.rules_ if isinstance(model, RuledCRF) else model.rules or ())


class SpanChances:
    """Probabilities of segments of one model under one list of rules; tables and compiled rules are made once."""

    def __init__(self, chain: ChainCRF, rules: Sequence[Any]):
        self.chain = chain
        self.table = SegmentTable([str(c) for c in chain.classes_], chain.scheme)
        self.decoder = chain._ruled_decoder(rules) if rules else None

    def __call__(self, tokens: list[str], labels: Sequence[str]) -> list[tuple[Span, float | None]]:
        """Return every segment of a labelling, all levels, with its probability."""
        found = leveled(labels, self.chain.scheme)
        data = self.chain._encoder.transform([tokens])
        potentials = self.chain._decoder().potentials(data, 0)
        compiled = self.decoder.compiler(tokens) if self.decoder else ()
        chances = span_probabilities(ChainProblem(potentials, compiled), found, self.table)
        return [(span, chance) for (span, _), chance in zip(found, chances)]


def leveled(labels: Sequence[str], scheme: str | None) -> list[tuple[Span, int]]:
    """Segments of one labelling with their level, outermost first at each start; runs of ``O`` are none."""
    found = [
        (span, span.type.count("/") if scheme else 0)
        for span in spans(list(labels), scheme, level=None)
        if span.type != "O"
    ]
    return found if labels is not None and len(labels) else []


def characters(span: Span, places: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Characters of a segment of tokens."""
    return places[span.start][0], places[span.stop - 1][1]


def label_of(span: Span) -> str:
    """Return the label of a segment as users wrote it: the last component of its path."""
    return span.type.rsplit("/", 1)[-1]
