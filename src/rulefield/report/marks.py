"""Labeled text for pages: tokens cut into colored pieces, and the templates that show them. All text is escaped."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from rulefield.encode.schemes import OUTSIDE
from rulefield.encode.spans import spans

LONGEST = 300
"""Tokens of one sequence that are shown; the rest is counted."""


class Piece(NamedTuple):
    """Some tokens of one type (None: outside); ``parts`` are (text, wrong) in turn."""

    type: str | None
    parts: tuple[tuple[str, bool], ...]


def word_of(token: Any) -> str:
    """Return what people call a token: itself, its first column, or its first feature."""
    if isinstance(token, str):
        return token
    if isinstance(token, Mapping):
        token = token.get("word", next(iter(token.values()), ""))
    elif isinstance(token, Sequence) and len(token):
        token = token[0]
    return str(token)[:80]


def pieces(
    tokens: Sequence[Any], labels: Sequence[Any], scheme: str | None, other: Sequence[Any] = ()
) -> list[Piece]:
    """Cut a labeled sequence at its (deepest) segments; tokens that ``other`` labels otherwise are wrong."""
    names = [str(label) for label in labels[:LONGEST]]
    words = [word_of(token) for token in tokens[: len(names)]]
    wrong = [a != b for a, b in zip(labels, other)] if len(other) else [False] * len(words)
    segments = [span for span in spans(names, scheme, level=None) if span.type != OUTSIDE] if names else []
    owner = [-1] * len(words)
    for number, span in enumerate(segments):
        owner[span.start : span.stop] = [number] * (span.stop - span.start)
    cut: list[Piece] = []
    for low, high in runs(owner):
        parts = tuple((" ".join(words[low + a : low + b]), wrong[low + a]) for a, b in runs(wrong[low:high]))
        cut.append(Piece(None if owner[low] < 0 else segments[owner[low]].type, parts))
    if len(labels) > LONGEST:
        cut.append(Piece(None, ((f"… {len(labels) - LONGEST} more tokens", False),)))
    return cut


def runs(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Cut a sequence where its value changes: (low, high) of every run."""
    cuts = [i for i in range(1, len(values)) if values[i] != values[i - 1]]
    return list(zip([0, *cuts], [*cuts, len(values)])) if len(values) else []


def hues(types: Iterable[str]) -> dict[str, int]:
    """Give each type a hue, far from those of its neighbors (steps of the golden angle)."""
    return {name: round(i * 137.508 + 210) % 360 for i, name in enumerate(dict.fromkeys(types))}


@cache
def templates() -> Any:
    """Jinja2's environment of the package's templates: everything is escaped unless a template says otherwise."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rulefield.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=_percent, signed=_signed, short=_short)
    return environment


_LONE = re.compile("[\ud800-\udfff]")


def render(name: str, **values: Any) -> str:
    """Fill a template of the package; what UTF-8 cannot hold (half a surrogate pair) is shown as a replacement character."""
    return _LONE.sub("\ufffd", templates().get_template(name).render(**values))


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def _signed(value: float, digits: int = 2) -> str:
    return f"{value:+.{digits}f}".replace("-", "−").replace("inf", "∞")


def _short(value: Any, most: int = 120) -> str:
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
