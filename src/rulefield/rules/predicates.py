"""What a discovered rule may say of a token: its class, its neighbors, its place, the labels beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.rules.finding.observed import NameTables, Observed
from rulefield.rules.tokens import (
    TokenCondition,
    first_token,
    last_token,
    next_token,
    previous_token,
    token_equals,
    token_matches,
)

TOKEN_CLASSES: dict[str, TokenCondition] = {
    "a number": token_matches(r"^\d+$"),
    "a year": token_matches(r"^\(?(1[89]|20)\d\d[a-z]?\)?[.,;:]?$"),
    "something with a digit": token_matches(r"\d"),
    "an initial": token_matches(r"^[A-Z]\.?$"),
    "capitalized": token_matches(r"^[A-Z][a-z]"),
    "all capitals": token_matches(r"^[A-Z]{2,}$"),
    "in lower case": token_matches(r"^[a-z]+$"),
    "punctuation": token_matches(r"^\W+$"),
}


@dataclass(frozen=True)
class Predicate:
    """One thing that is true or false of a token in its sequence.

    Parameters
    ----------
    words : str
    condition : TokenCondition or None
        On the token (and its neighbors); None if the predicate is about a label.
    place : {"prev", "next"} or None
        Beside the token, which label is spoken of.
    label : str or None
    """

    words: str
    condition: TokenCondition | None = None
    place: str | None = None
    label: str | None = None


def token_predicates(delimiters: Sequence[str]) -> list[Predicate]:
    """Classes of the token, delimiters at it and beside it, and its place."""
    found = [Predicate(f"the token is {words}", condition) for words, condition in TOKEN_CLASSES.items()]
    for text in delimiters:
        mark = token_equals(text)
        found.append(Predicate(f"the token is {text!r}", mark))
        found.append(Predicate(f"the token before is {text!r}", previous_token(mark)))
        found.append(Predicate(f"the token after is {text!r}", next_token(mark)))
    found.append(Predicate("the token is the first", first_token()))
    found.append(Predicate("the token is the last", last_token()))
    return found


def label_predicates(names: Sequence[str]) -> list[Predicate]:
    """Labels before and after the token."""
    words = {"prev": "before", "next": "after"}
    return [Predicate(f"{words[p]} it stands {name}", place=p, label=name) for p in words for name in names]


def truth_table(data: Observed, predicates: Sequence[Predicate], names: Sequence[str]) -> np.ndarray:
    """Truth of each predicate for each token of all sequences, (n_tokens, n_predicates)."""
    tables = NameTables(names, data.table)
    row = {name: i for i, name in enumerate(names)}
    blocks = [_sequence(tokens, labels, predicates, tables, row) for tokens, labels in data]
    return np.concatenate(blocks) if blocks else np.zeros((0, len(predicates)), dtype=bool)


def _sequence(
    tokens: Any, labels: np.ndarray, predicates: Sequence[Predicate], tables: NameTables, row: dict[str, int]
) -> np.ndarray:
    n = len(labels)
    truth = np.zeros((n, len(predicates)), dtype=bool)
    match = tables.matches[:, labels]
    for j, predicate in enumerate(predicates):
        if predicate.condition is not None:
            truth[:, j] = predicate.condition.over(tokens)
        elif predicate.place == "prev":
            truth[1:, j] = match[row[str(predicate.label)], : n - 1]
        else:
            truth[: n - 1, j] = match[row[str(predicate.label)], 1:]
    return truth
