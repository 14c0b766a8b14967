"""Texts of three trades, made up, with spans of characters: invoices, log lines, medical notes."""

from collections.abc import Callable

import numpy as np

from rulefield.datasets import words as w
from rulefield.datasets.draw import Draw
from rulefield.datasets.messy import Spans, make_messy
from rulefield.exceptions import InputError

Piece = tuple[str, str]
"""A label ("" for none) and the text that it covers."""
Texts = tuple[list[str], list[Spans]]

DRUGS = "metformin;aspirin;ibuprofen;lisinopril;amoxicillin;warfarin;simvastatin;omeprazole;insulin;prednisone".split(
    ";"
)
PROBLEMS = "headache;chest pain;type 2 diabetes;high blood pressure;fever;cough;back pain;pneumonia".split(";")
GOODS = "paper;toner cartridge;desk lamp;office chair;usb cable;whiteboard;filter;oak shelf".split(";")
SERVICES = "sshd;nginx;cron;kernel;postgres;dhclient".split(";")


def make_invoices(n: int = 100, seed: int = 0, *, messy: bool = False) -> Texts:
    """Make up lines of invoices: supplier, number, date, item, quantity, net, tax and total.

    Parameters
    ----------
    n, seed : int
        How many; the same seed gives the same texts.
    messy : bool
        Type them as people do: lost and odd blanks, odd case, stray punctuation, characters that look alike.

    Returns
    -------
    texts : list of str
    spans : list of lists of (start, end, label)
        Characters from 0, the end not included, as ``TextParser.fit`` takes them.

    Examples
    --------
    >>> texts, spans = make_invoices(1, seed=0)
    >>> [label for _, _, label in spans[0]][:2]
    ['supplier', 'invoice_number']
    """
    return _make(_invoice, n, seed, messy)


def make_log_lines(n: int = 100, seed: int = 0, *, messy: bool = False) -> Texts:
    """Make up lines of system logs: time, host, service, process, user, address and port; as ``make_invoices``.

    Examples
    --------
    >>> texts, spans = make_log_lines(1, seed=0)
    >>> [label for _, _, label in spans[0]][:3]
    ['time', 'host', 'service']
    """
    return _make(_log_line, n, seed, messy)


def make_notes(n: int = 100, seed: int = 0, *, messy: bool = False) -> Texts:
    """Make up sentences of medical notes: problem, drug, dose, frequency and duration; as ``make_invoices``.

    Examples
    --------
    >>> texts, spans = make_notes(1, seed=0)
    >>> "drug" in {label for _, _, label in spans[0]}
    True
    """
    return _make(_note, n, seed, messy)


def _make(pieces_of: Callable[[Draw], list[Piece]], n: int, seed: int, messy: bool) -> Texts:
    if n < 0:
        raise InputError(f"n must be >= 0; got {n}.")
    draw = Draw(np.random.default_rng(seed))
    made = [_filled(pieces_of(draw)) for _ in range(n)]
    if messy:
        made = [make_messy(text, spans, draw) for text, spans in made]
    return [text for text, _ in made], [spans for _, spans in made]


_NO_BLANK_BEFORE, _NO_BLANK_AFTER = "[]:.,;)", "[("


def _filled(pieces: list[Piece]) -> tuple[str, Spans]:
    """Return the text of some pieces, blanks between them as people write, and where the labeled ones lie."""
    spans: Spans = []
    made = ""
    for label, text in pieces:
        if made and made[-1] not in _NO_BLANK_AFTER and text[0] not in _NO_BLANK_BEFORE:
            made += " "
        if label:
            spans.append((len(made), len(made) + len(text), label))
        made += text
    return made, spans


def _money(cents: int) -> str:
    return f"{cents // 100:,}.{cents % 100:02d}"


def _invoice(draw: Draw) -> list[Piece]:
    quantity, price = draw.between(1, 40), draw.between(100, 90_000)
    net = quantity * price
    tax = net // 5
    made = [("supplier", f"{draw.one(w.LAST)} {draw.one(['Ltd', 'GmbH', '& Sons', 'Inc.'])}")]
    made += [("", draw.one(["Invoice", "Inv.", "No."]))] if draw.chance(0.8) else []
    made += [("invoice_number", f"{draw.one(['INV-', 'R', ''])}{draw.between(1000, 99999)}")]
    day = (draw.between(2019, 2026), draw.between(1, 12), draw.between(1, 28))
    made += [("date", draw.one(["{0}-{1:02d}-{2:02d}", "{2}.{1}.{0}", "{1}/{2}/{0}"]).format(*day))]
    made += [("quantity", str(quantity)), ("", "x")] if draw.chance(0.8) else []
    made += [("item", draw.one(GOODS)), ("net", _money(net))]
    made += [("", draw.one(["VAT", "tax", "VAT 20%"]))] if draw.chance(0.7) else []
    made += [("tax", _money(tax))] if draw.chance(0.8) else []
    made += [("", draw.one(["total", "Total due", "EUR"]))] if draw.chance(0.6) else []
    return [*made, ("total", _money(net + tax))]


def _log_line(draw: Draw) -> list[Piece]:
    month = draw.one("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
    clock = f"{draw.between(0, 23):02d}:{draw.between(0, 59):02d}:{draw.between(0, 59):02d}"
    made = [
        ("time", f"{month} {draw.between(1, 28)} {clock}"),
        ("host", f"{draw.one(['web', 'db', 'mail'])}{draw.between(1, 9)}"),
    ]
    made += [("service", draw.one(SERVICES)), ("", "["), ("process", str(draw.between(100, 32000))), ("", "]:")]
    user = ("user", draw.one(["root", "admin", "backup", draw.one(w.LAST).lower()]))
    address = ("address", ".".join(str(draw.between(1, 254)) for _ in range(4)))
    kind = draw.between(0, 2)
    if kind == 0:
        made += [("", draw.one(["Failed password for", "Accepted key for", "session opened for user"])), user]
        made += [("", "from"), address] if draw.chance(0.8) else []
    elif kind == 1:
        made += [("", draw.one(["connection from", "refused", "timeout talking to"])), address]
    else:
        made += [
            ("", draw.one(["job started by", "(", "permission denied:"])),
            user,
            ("", draw.one([") CMD", "exit 1", "done"])),
        ]
    made += [("", "port"), ("port", str(draw.between(20, 65535)))] if kind < 2 and draw.chance(0.6) else []
    return made


def _note(draw: Draw) -> list[Piece]:
    made: list[Piece] = [("", draw.one(["Patient with", "Complains of", "History of", "Seen for"]))]
    made += [("problem", draw.one(PROBLEMS))]
    made += [("", "and"), ("problem", draw.one(PROBLEMS))] if draw.chance(0.3) else []
    made += [("", draw.one([". Start", ", given", "; continue", ", on"]))]
    for k in range(draw.between(1, 2)):
        made += [("", "and")] if k else []
        made += [("drug", draw.one(DRUGS))]
        made += (
            [("dose", f"{draw.one([5, 10, 20, 81, 250, 500])} {draw.one(['mg', 'ml', 'units'])}")]
            if draw.chance(0.8)
            else []
        )
        made += (
            [("frequency", draw.one(["daily", "twice daily", "every 8 hours", "at night", "bid"]))]
            if draw.chance(0.7)
            else []
        )
        made += (
            [("", "for"), ("duration", f"{draw.between(2, 14)} {draw.one(['days', 'weeks'])}")]
            if draw.chance(0.4)
            else []
        )
    return [*made, ("", ".")]
