"""What a parser says of one text: fields, spans of characters, probabilities, broken rules."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from json.encoder import encode_basestring_ascii as _quoted
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from rulefield.data.documents import Document, TextSpan
from rulefield.estimators.labelings import BrokenRule

OPTIMAL = "optimal"


class ParsedSpan(NamedTuple):
    """Characters ``start`` to ``end`` (not included) are a ``label``; ``text`` is what stands there.

    ``probability`` is that of the whole span: exactly these characters, exactly this label.
    """

    start: int
    end: int
    label: str
    text: str
    probability: float | None = None


_span = partial(tuple.__new__, ParsedSpan)


@dataclass(eq=False)
class Readings:
    """What a parser says of some texts, as columns; a :class:`Parse` is one row.

    Spans ``pointer[i] : pointer[i + 1]`` belong to text i, in order of their start: start and end in characters, and
    the place of the label in ``labels``. ``chance`` is the probability of each span, ``probability`` that of each
    text's labeling and ``error`` how far it may be off. ``broken`` and ``status`` are None if nothing is broken and
    all are ``optimal``; ``more(i, k)`` returns the k best parses of text i.
    """

    texts: list[str]
    pointer: np.ndarray
    spans: tuple[np.ndarray, np.ndarray, np.ndarray]
    labels: list[str]
    chance: Any
    probability: list[float | None]
    broken: list[tuple[BrokenRule, ...]] | None = None
    status: list[str] | None = None
    more: Callable[[int, int], "list[Parse]"] | None = None
    error: list[float] | None = None

    @cached_property
    def columns(self) -> tuple[list[Any], ...]:
        """Pointers, and of all spans: start, end, label, probability, as Python objects."""
        start, end, kind = (column.tolist() for column in self.spans)
        chance = [None] * len(start) if self.chance is None else self.chance
        if isinstance(chance, np.ndarray):
            chance = chance.tolist()
        return self.pointer.tolist(), start, end, list(map(self.labels.__getitem__, kind)), chance

    def span_rows(self, i: int) -> "zip[tuple[int, int, str, float | None]]":
        """Return (start, end, label, probability) of each span of text i."""
        pointer, *columns = self.columns
        own = slice(pointer[i], pointer[i + 1])
        return zip(*(column[own] for column in columns))

    def tuples(self) -> list[list[tuple[int, int, str]]]:
        """Return the spans of all texts as lists of (start, end, label)."""
        pointer, start, end, label, _ = self.columns
        flat = list(zip(start, end, label))
        return [flat[a:b] for a, b in zip(pointer, pointer[1:])]

    def parses(self) -> "list[Parse]":
        """Return one object per text."""
        return [Parse(self, i) for i in range(len(self.texts))]

    def json(self) -> list[str]:
        """Return what :meth:`Parse.to_json` writes of each text."""
        return [self.json_of(i) for i in range(len(self.texts))]

    def json_of(self, i: int) -> str:
        """Return what :meth:`Parse.to_json` writes of text i."""
        rows = ((a, b, json_label(name), chance) for a, b, name, chance in self.span_rows(i))
        broken = () if self.broken is None else self.broken[i]
        status = OPTIMAL if self.status is None else self.status[i]
        return as_json(self.texts[i], rows, self.probability[i], broken, status)


class Parse:
    """One parsed text.

    Its spans are made when they are first asked for; parses of one call share their columns.
    """

    __slots__ = ("_readings", "_row", "_spans")

    def __init__(self, readings: Readings, row: int):
        self._readings, self._row = readings, row
        self._spans: tuple[ParsedSpan, ...] | None = None

    @property
    def text(self) -> str:
        """The text, as it was given."""
        return self._readings.texts[self._row]

    @property
    def spans(self) -> tuple[ParsedSpan, ...]:
        """Labeled spans in order of their start."""
        if self._spans is None:
            text = self.text
            rows = self._readings.span_rows(self._row)
            self._spans = tuple([_span((a, b, name, text[a:b], chance)) for a, b, name, chance in rows])
        return self._spans

    @property
    def probability(self) -> float | None:
        """Probability of the whole labeling, under the model and its rules; None if the text is empty."""
        return self._readings.probability[self._row]

    @property
    def probability_error(self) -> float | None:
        """How far the probability may be off: 0 if it is exact, None if there is none."""
        if self.probability is None:
            return None
        return 0.0 if self._readings.error is None else self._readings.error[self._row]

    @property
    def broken(self) -> tuple[BrokenRule, ...]:
        """Rules that the labeling breaks, with amounts and costs."""
        broken = self._readings.broken
        return () if broken is None else broken[self._row]

    @property
    def status(self) -> str:
        """``optimal`` (proved), ``bounded`` or ``infeasible``."""
        status = self._readings.status
        return OPTIMAL if status is None else status[self._row]

    @property
    def fields(self) -> dict[str, str | list[str]]:
        """Label to text, or to a list of texts if the label comes back."""
        fields: dict[str, str | list[str]] = {}
        for _, _, label, text, _ in self.spans:
            if label not in fields:
                fields[label] = text
            else:
                before = fields[label]
                fields[label] = [*before, text] if isinstance(before, list) else [before, text]
        return fields

    def alternatives(self, k: int = 5) -> "list[Parse]":
        """Return the k best parses of the same text, this one first, each with its probability."""
        return [self] if self._readings.more is None else self._readings.more(self._row, k)

    def without_spans(self, status: str) -> "Parse":
        """Return a parse of the same text without spans and probability, which breaks the same rules."""
        none = np.zeros(2, np.int64), (np.zeros(0, np.int64),) * 3
        return Parse(Readings([self.text], *none, [], None, [None], [self.broken], [status]), 0)

    @property
    def document(self) -> Document:
        """The text with its spans and their probabilities, as writers of files take it."""
        return Document(self.text, tuple(TextSpan(s.start, s.end, s.label, s.probability) for s in self.spans))

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it; the cost of a broken hard rule, which is infinite, is None."""
        return json.loads(self.to_json())

    def to_json(self) -> str:
        """:meth:`to_dict` as one JSON object, in ASCII."""
        return self._readings.json_of(self._row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parse) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.text)

    def _key(self) -> tuple[Any, ...]:
        return self.text, self.spans, self.probability, self.broken, self.status

    def __repr__(self) -> str:
        names = ("text", "spans", "probability", "broken", "status")
        return f"Parse({', '.join(f'{name}={value!r}' for name, value in zip(names, self._key()))})"

    def _repr_html_(self) -> str:
        from rulefield.report.notebook import parse_html

        return parse_html(self)

    def __str__(self) -> str:
        lines = [f"{s.label}: {s.text}" + _chance(s.probability) for s in self.spans]
        lines.append(f"({self.status}{_chance(self.probability)})")
        return "\n".join([*lines, *(f"breaks {b.rule!r} by {b.amount:g}, cost {b.cost:.3g}" for b in self.broken)])


def as_json(
    text: str,
    spans: Iterable[tuple[int, int, str, float | None]],
    probability: float | None,
    broken: Sequence[BrokenRule],
    status: str,
) -> str:
    """Write what :meth:`Parse.to_json` says, without a :class:`Parse`: servers and streams need no objects.

    ``spans`` are (start, end, :func:`json_label`, probability). By hand, which takes a fifth of a general writer's time.
    """
    fields: dict[str, list[str]] = {}
    rows = []
    for start, end, name, chance in spans:
        said = _quoted(text[start:end])
        fields.setdefault(name, []).append(said)
        rows.append(f'{{"start":{start},"end":{end},"label":{name},"text":{said},"probability":{_number(chance)}}}')
    found = ",".join(
        f"{name}:{said[0]}" if len(said) == 1 else f"{name}:[{','.join(said)}]" for name, said in fields.items()
    )
    broke = ",".join(
        f'{{"rule":{_quoted(b.rule)},"amount":{_number(b.amount)},"cost":{_number(b.cost)}}}' for b in broken
    )
    return (
        f'{{"text":{_quoted(text)},"fields":{{{found}}},"spans":[{",".join(rows)}],'
        f'"probability":{_number(probability)},"broken":[{broke}],"status":"{status}"}}'
    )


@lru_cache(maxsize=4096)
def json_label(path: str) -> str:
    """Return the last component of a label's path, which is what users wrote, as JSON."""
    return _quoted(path.rsplit("/", 1)[-1])


def _number(value: float | None) -> str:
    return "null" if value is None or not isfinite(value) else repr(float(value))


def _chance(probability: float | None) -> str:
    return "" if probability is None else f"  p = {probability:.2f}"
