"""Citations, made up: many styles, missing fields, confusable words, noise; flat or hierarchical labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.datasets.citation_parts import CitationParts
from rulefield.datasets.draw import Draw, add_noise
from rulefield.datasets.messy import messy_texts
from rulefield.datasets.tagged import label_tagged
from rulefield.exceptions import InputError

KINDS = {"article": 0.34, "inproceedings": 0.34, "book": 0.1, "chapter": 0.08, "report": 0.09, "draft": 0.05}


def make_citations(
    n: int = 100, seed: int = 0, *, hierarchical: bool = False, noise: float = 0.2, messy: bool = False
) -> tuple[list[Any], list[Any]]:
    """Make up tagged citations.

    Parameters
    ----------
    hierarchical : bool
        Labels are paths, ``I-authors/B-person/B-last``, not fields, ``I-author``.
    noise : float, from 0 to 1
        How often punctuation is lost, markers such as "In" and "pp." are missing, letters are swapped, fields
        stand in an unusual place.
    n, seed, messy
        As in :func:`~rulefield.datasets.make_addresses`.

    Returns
    -------
    tokens : list of lists of str
        Separated at white space, with punctuation attached; if messy, texts.
    labels : list of lists of str
        BIO labels of author, title, booktitle, journal, editor, volume, number, pages, date, publisher, location,
        institution, tech and note. About one citation in fifty has a field in two places, as real ones do.
        If messy, lists of (start, end, label).

    Examples
    --------
    >>> tokens, labels = make_citations(2, seed=1, noise=0)
    >>> len(tokens), labels[0][0]
    (2, 'B-author')
    """
    if n < 0 or not 0 <= noise <= 1:
        raise InputError(f"n must be >= 0 and noise between 0 and 1; got n={n}, noise={noise}.")
    rng = np.random.default_rng(seed)
    made = [_citation(Draw(rng), hierarchical, noise) for _ in range(n)]
    if messy:
        return messy_texts(made, Draw(rng))
    return [tokens for tokens, _ in made], [labels for _, labels in made]


def _citation(draw: Draw, hierarchical: bool, noise: float) -> tuple[list[str], list[str]]:
    style = _style(draw)
    kind = draw.one(list(KINDS), list(KINDS.values()))
    parts = CitationParts(draw, style, noise, hierarchical)
    tokens, labels = label_tagged(_arrange(parts, kind, style, draw, noise))
    return add_noise(tokens, labels, noise * 0.6, draw)


@dataclass(frozen=True)
class Style:
    """How one citation is written."""

    date_first: bool
    stop: str
    quote: str
    names: str
    short: bool
    number_style: str
    title_case: bool


def _style(draw: Draw) -> Style:
    return Style(
        date_first=draw.chance(0.3),
        stop=draw.one([".", ","], [2, 1]),
        quote=draw.one(["", '"', "``"], [4, 1, 0.4]),
        names=draw.one(["F. Last", "Last, F.", "First Last", "Last F"], [4, 3, 2, 1]),
        short=draw.chance(0.35),
        number_style=draw.one(["vol. 1, no. 2", "1(2)", "1:", "1"], [2, 3, 1, 1]),
        title_case=draw.chance(0.4),
    )


def _arrange(parts: CitationParts, kind: str, style: Style, draw: Draw, noise: float) -> str:
    """Put the fields of one citation into an order."""
    head = [parts.authors()]
    if kind == "book" and draw.chance(0.25):
        head = [parts.editors(in_book=False)]
    title = [parts.title(book=kind == "book")]
    date = parts.date(parenthesis=style.date_first)
    venue = getattr(parts, kind)()
    split_date = not style.date_first and draw.chance(0.02)
    tail = [] if style.date_first else [date]
    if split_date:
        venue.insert(0, parts.date(parenthesis=False, month_only=True))
    if draw.chance(noise * 0.25):
        place = draw.between(0, len(venue))
        venue[place:place] = tail
        tail = []
    if draw.chance(0.06):
        tail.append(parts.note())
    if draw.chance(noise * 0.1):
        title, head = head, title
    if style.date_first:
        head.append(date)
    if draw.chance(0.12 * noise + 0.02):
        head = head[1:] or head
    return " ".join([*head, *title, parts.inside("venue", " ".join(venue)), *tail])
