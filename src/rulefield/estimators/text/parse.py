"""What a parser says of one text: fields, spans of characters, probabilities, broken rules."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from math import isfinite
from typing import Any

from rulefield.data.documents import Document, TextSpan
from rulefield.estimators.labelings import BrokenRule


@dataclass(frozen=True)
class ParsedSpan:
    """Characters ``start`` to ``end`` (not included) are a ``label``; ``text`` is what stands there.

    ``probability`` is that of the whole span: exactly these characters, exactly this label.
    """

    start: int
    end: int
    label: str
    text: str
    probability: float | None = None


@dataclass(frozen=True)
class Parse:
    """One parsed text.

    Parameters
    ----------
    text : str
    spans : tuple of ParsedSpan
        In order of their start.
    probability : float or None
        Of the whole labeling, under the model and its rules; None if the text is empty.
    broken : tuple of BrokenRule
        Rules that it breaks, with amounts and costs.
    status : str
        ``optimal`` (proved), ``bounded`` or ``infeasible``.
    """

    text: str
    spans: tuple[ParsedSpan, ...]
    probability: float | None
    broken: tuple[BrokenRule, ...]
    status: str
    _more: Callable[[int], "list[Parse]"] | None = field(default=None, repr=False, compare=False)

    @property
    def fields(self) -> dict[str, str | list[str]]:
        """Label to text, or to a list of texts where the label comes back."""
        found: dict[str, str | list[str]] = {}
        for span in self.spans:
            before = found.get(span.label)
            if before is None:
                found[span.label] = span.text
            else:
                found[span.label] = [*(before if isinstance(before, list) else [before]), span.text]
        return found

    def alternatives(self, k: int = 5) -> "list[Parse]":
        """Return the k best parses of the same text, this one first, each with its probability."""
        return [self] if self._more is None else self._more(k)

    @property
    def document(self) -> Document:
        """The text with its spans and their probabilities, as writers of files take it."""
        return Document(self.text, tuple(TextSpan(s.start, s.end, s.label, s.probability) for s in self.spans))

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it; the cost of a broken hard rule, which is infinite, is None."""
        spans = [
            {"start": s.start, "end": s.end, "label": s.label, "text": s.text, "probability": s.probability}
            for s in self.spans
        ]
        broken = [
            {"rule": b.rule, "amount": b.amount, "cost": b.cost if isfinite(b.cost) else None} for b in self.broken
        ]
        whole = {"text": self.text, "fields": self.fields, "spans": spans, "probability": self.probability}
        return {**whole, "broken": broken, "status": self.status}

    def to_json(self) -> str:
        """:meth:`to_dict` as one JSON object, in ASCII."""
        spans = [(s.start, s.end, json_label(s.label), s.probability) for s in self.spans]
        return as_json(self.text, spans, self.probability, self.broken, self.status)

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
