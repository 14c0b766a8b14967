"""Between characters and tokens: labeled spans become labels of tokens, and back, and nothing gets lost on the way.

Annotators mark characters; chains label tokens. Where a span begins or ends inside a token the two disagree, and one of
three things happens, by the user's choice, never in silence: the span is widened to whole tokens (``"snap"``), the token
is cut in two (``"split"``), or the document is refused (``"raise"``).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rulefield.data.documents import Document, TextSpan
from rulefield.encode.schemes import OUTSIDE, SEPARATOR, guess_scheme
from rulefield.encode.spans import convert, spans
from rulefield.encode.tokenizers import Place, Words
from rulefield.exceptions import InputError

ON_CUT = ("split", "snap", "raise")


class Cut(NamedTuple):
    """A span that begins or ends inside a token."""

    span: TextSpan
    token: Place
    text: str

    def __str__(self) -> str:
        return f"{self.span.label!r} ({self.span.start} to {self.span.end}) cuts the token {self.text!r} at {self.token[0]}"


class Aligned(NamedTuple):
    """Tokens of one text and, where spans are known, their labels; ``cuts`` tells where the two disagreed."""

    places: list[Place]
    labels: list[str] | None
    cuts: list[Cut]


def align(
    document: Document, tokenizer: Callable[[str], list[Place]], scheme: str | None = "BIO", on_cut: str = "split"
) -> Aligned:
    """Label the tokens of a document.

    Parameters
    ----------
    document : Document
        Spans may nest (labels are then paths, ``B-authors/B-person``) but not cross.
    tokenizer : callable
        Returns (start, end) of each token of a text.
    scheme : str or None
        Label scheme; without one, labels are the spans' own (paths of them) and neighbors of one type run together.
    on_cut : {"split", "snap", "raise"}

    Notes
    -----
    O(tokens + spans x (tokens of a span + log tokens)).
    """
    if on_cut not in ON_CUT:
        raise InputError(f"on_cut must be one of {', '.join(map(repr, ON_CUT))}; got {on_cut!r}.")
    places = tokenizer(document.text)
    if document.spans is None:
        return Aligned(places, None, [])
    cuts = find_cuts(document, places)
    if cuts and on_cut == "raise":
        raise InputError(f"{cuts[0]}; use on_cut='split' or 'snap', or another tokenizer.")
    if on_cut == "split":
        places = _split(places, document)
    paths = _paths(document.spans, places)
    labels = [SEPARATOR.join(f"{prefix}-{label}" for prefix, label in path) or OUTSIDE for path in paths]
    return Aligned(places, convert(labels, "BIO", scheme), cuts)


def find_cuts(document: Document, places: list[Place]) -> list[Cut]:
    """Return the edges of spans that lie inside a token."""
    starts = [start for start, _ in places]
    found = []
    for span in document.spans or ():
        for edge in (span.start, span.end):
            token = (
                places[bisect_left(starts, edge) - 1] if places else (0, 0)
            )  # the last that begins before the edge
            if token[0] < edge < token[1]:
                found.append(Cut(span, token, document.text[token[0] : token[1]]))
    return found


def _split(places: list[Place], document: Document) -> list[Place]:
    edges = sorted({edge for span in document.spans or () for edge in (span.start, span.end)})
    made: list[Place] = []
    at = 0
    for start, end in places:
        while at < len(edges) and edges[at] <= start:
            at += 1
        begin, k = start, at
        while k < len(edges) and edges[k] < end:
            made.append((begin, edges[k]))
            begin = edges[k]
            k += 1
        made.append((begin, end))
    return made


def _paths(found: Sequence[TextSpan], places: list[Place]) -> list[list[tuple[str, str]]]:
    """For each token the spans that cover it, outermost first, as (B or I, label).

    A token that spans beside each other share belongs to the one with more of its characters: only spans that nest make
    a path.
    """
    owners: list[list[TextSpan]] = [[] for _ in places]
    open_until: list[TextSpan] = []
    starts, ends = [start for start, _ in places], [end for _, end in places]
    for span in sorted(found, key=lambda s: (s.start, -s.end)):
        if SEPARATOR in span.label:
            raise InputError(f"label {span.label!r} holds {SEPARATOR!r}, which separates levels; rename it.")
        while open_until and open_until[-1].end <= span.start:
            open_until.pop()
        _refuse_crossing(open_until, span)
        open_until.append(span)
        for t in range(bisect_right(ends, span.start), bisect_left(starts, span.end)):
            closed = [other for other in owners[t] if other.end <= span.start]
            if closed and _shared(closed[0], places[t]) >= _shared(span, places[t]):
                continue
            owners[t] = [other for other in owners[t] if other not in closed] + [span]
    before: list[list[TextSpan]] = [[], *owners]
    return [
        [("I" if any(span is other for other in earlier) else "B", span.label) for span in own]
        for earlier, own in zip(before, owners)
    ]


def _refuse_crossing(opened: list[TextSpan], span: TextSpan) -> None:
    if opened and span.end > opened[-1].end:
        outer = opened[-1]
        raise InputError(
            f"spans {outer.label!r} ({outer.start} to {outer.end}) and {span.label!r} ({span.start} to {span.end}) "
            f"cross; spans may nest, but each token has one label."
        )


def _shared(span: TextSpan, place: Place) -> int:
    """Return how many characters of a token a span covers."""
    return min(span.end, place[1]) - max(span.start, place[0])


def spans_of(labels: Sequence[str], places: Sequence[Place], scheme: str | None = "auto") -> list[TextSpan]:
    """Spans of characters of labeled tokens, all levels; without a scheme, runs of one label other than ``O``."""
    kind = guess_scheme(labels) if scheme == "auto" else scheme
    return [
        TextSpan(places[s.start][0], places[s.stop - 1][1], s.type.rsplit(SEPARATOR, 1)[-1])
        for s in spans(labels, kind, level=None)
        if s.type != OUTSIDE
    ]


def tagged(document: Document, scheme: str | None = "BIO") -> tuple[list[str], list[str] | None]:
    """Return words and labels of a document, by its own tokens or else :class:`Words`; tokens are split at cuts."""
    own = document.tokens
    made = align(document, Words() if own is None else lambda text: list(own), scheme)
    return [document.text[a:b] for a, b in made.places], made.labels


def labels_of_tokens(document: Document) -> list[str] | None:
    """Return BIO labels of the tokens that a document came with; spans that cut one are widened to it."""
    return align(document, lambda text: list(document.tokens or ()), "BIO", "snap").labels
