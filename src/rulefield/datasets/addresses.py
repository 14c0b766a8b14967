"""US postal addresses, made up: boxes, highways, units, towns that are also streets, noise."""

from typing import Any

import numpy as np

from rulefield.datasets import words as w
from rulefield.datasets.draw import Draw, add_noise
from rulefield.datasets.messy import messy_texts
from rulefield.datasets.tagged import label_tagged
from rulefield.exceptions import InputError


def make_addresses(
    n: int = 100, seed: int = 0, *, noise: float = 0.2, messy: bool = False, plain: bool = False
) -> tuple[list[Any], list[Any]]:
    """Make up tagged US addresses.

    Parameters
    ----------
    n : int
        How many.
    seed : int
        The same seed gives the same addresses.
    noise : float, from 0 to 1
        How often commas are lost, letters are swapped, parts are missing.
    messy : bool
        Make texts as people type them, and spans of characters: blanks are lost after commas or doubled, letters have odd
        case, punctuation is stray, characters look alike.
    plain : bool
        Make numbers and streets only: no boxes, rural routes, highways, crossings, buildings, or streets without a number.

    Returns
    -------
    tokens : list of lists of str
        Separated at white space, with punctuation attached; if messy, texts.
    labels : list of lists of str
        BIO labels of number, street, unit, box, building, city, state and zip; if messy, lists of (start, end, label).

    Examples
    --------
    >>> tokens, labels = make_addresses(1, seed=2, noise=0)
    >>> labels[0][-1]
    'B-zip'
    >>> texts, spans = make_addresses(8, seed=37, noise=0, messy=True)
    >>> texts[7], spans[7][0]
    ('P.O. Box 8955,Brighton, WA 27622', (0, 13, 'box'))
    """
    if n < 0 or not 0 <= noise <= 1:
        raise InputError(f"n must be >= 0 and noise between 0 and 1; got n={n}, noise={noise}.")
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        draw = Draw(rng)
        tokens, labels = label_tagged(_address(draw, noise, plain))
        damaged, _ = add_noise(tokens, labels, noise, draw)
        made.append((_with_needed_comma(damaged, tokens, labels), labels))
    if messy:
        return messy_texts(made, Draw(rng))
    return [tokens for tokens, _ in made], [labels for _, labels in made]


def _with_needed_comma(damaged: list[str], tokens: list[str], labels: list[str]) -> list[str]:
    """Return the damaged tokens with the comma before the city, if the end of the street cannot be told without it."""
    city = labels.index("B-city")
    street = [token.strip(",") for token, label in zip(tokens, labels) if label.endswith("street")]
    if not labels[city - 1].endswith("street") or damaged[city - 1].endswith(","):
        return damaged
    ends_openly = not any(word in w.STREET_TYPES or word.isdigit() for word in street)
    if ends_openly or street[-1] in w.DIRECTIONS or tokens[city] in w.DIRECTIONS:
        damaged[city - 1] += ","
    return damaged


def _tag(name: str, text: str) -> str:
    return f"<{name}> {text} </{name}>"


def _address(draw: Draw, noise: float, plain: bool) -> str:
    lines = []
    if not plain and draw.chance(0.08):
        lines.append(_tag("building", f"{draw.one(w.TOWNS)} {draw.one(w.BUILDINGS)},"))
    kind = "street" if plain else draw.one(["street", "box", "rural", "none"], [85, 7, 4, 4])
    if kind == "street":
        lines += _street(draw, plain)
    elif kind == "box":
        lines.append(_tag("box", f"{draw.one(['PO Box', 'P.O. Box', 'Box', 'P O Box'])} {draw.between(1, 9999)},"))
    elif kind == "rural":
        route = f"{draw.one(['RR', 'Rural Route', 'Route'])} {draw.between(1, 9)}"
        with_box = draw.chance(0.5) or route.startswith("Route")  # without a box, Route 7 is a street
        lines.append(_tag("box", f"{route} Box {draw.between(1, 400)}," if with_box else f"{route},"))
    return " ".join([*lines, *_place(draw, noise)])


def _street(draw: Draw, plain: bool) -> list[str]:
    number = draw.one(
        [str(draw.between(1, 19999)), f"{draw.between(10, 99)}-{draw.between(10, 99)}", f"{draw.between(1, 99)}B"],
        [18, 1, 1],
    )
    numbered = plain or draw.chance(0.93)
    shapes = [
        f"{draw.one(w.STREETS)} {draw.one(w.STREET_TYPES)}",
        f"{draw.one(w.DIRECTIONS)} {draw.one(w.STREETS)} {draw.one(w.STREET_TYPES)}",
        f"{draw.one(w.STREETS)} {draw.one(w.STREET_TYPES)} {draw.one(w.DIRECTIONS)}",
        f"{_ordinal(draw.between(1, 120))} {draw.one(w.STREET_TYPES)}",
        f"{draw.one(['US', 'State', 'County', ''])} {draw.one(['Highway', 'Hwy', 'Road'])} {draw.between(2, 400)}",
        draw.one(w.STREETS),
        f"{draw.one(w.TOWNS)} {draw.one(w.STREET_TYPES)}",
        f"{draw.one(w.STREETS)} at {draw.one(w.STREETS)}",
    ]
    street = draw.one(shapes, [8, 5, 2, 3, 0, 0, 2, 0] if plain else [8, 5, 2, 3, 2, 2, 2, 0.5]).strip()
    if " at " in street:  # a crossing
        numbered = False
    elif street in w.STREETS:  # a name alone could be any place
        numbered = True
    made = [_tag("number", number)] if numbered else []
    unit = draw.chance(0.2)
    comma = "" if unit and draw.chance(0.5) else ","
    made.append(_tag("street", street + comma))
    if unit:
        word = draw.one(["Apt", "Suite", "Ste", "Unit", "#", "Floor", "Room"])
        made.append(_tag("unit", f"{word} {draw.one([str(draw.between(1, 900)), draw.one('ABCDEFG')])},"))
    return made


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _name_of_state(entry: str) -> str:
    return entry[3:]


def _place(draw: Draw, noise: float) -> list[str]:
    state = draw.one(w.STATES)
    code, name = state[:2], _name_of_state(state)
    town = draw.one(w.TOWNS)
    if draw.chance(0.06):
        town = f"{draw.one(['North', 'South', 'East', 'West', 'New', 'Fort', 'Port'])} {town}"
    made = [_tag("city", town + ",")]
    with_state = not draw.chance(noise * 0.2)
    if with_state or town in map(_name_of_state, w.STATES):
        made.append(_tag("state", draw.one([code, name], [4, 1]) + draw.one(["", ","], [5, 1])))
    zip_code = f"{draw.between(501, 99950):05d}"
    if draw.chance(0.1):
        zip_code += f"-{draw.between(0, 9999):04d}"
    return made if draw.chance(noise * 0.3) else [*made, _tag("zip", zip_code)]
