"""Which tokenizer fits labeled texts: one whose tokens the gold spans do not cut.

A token that a gold span cuts is split in training, but prediction never sees that split: the span cannot be found. If
more than :data:`MOST_CUT_SHARE` of the edges are cut, a few tokenizers that cut fewer are compared by cross-validation.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from rulefield.data.documents import Document
from rulefield.encode.alignment import find_cuts
from rulefield.encode.tokenizers import Matches, Tokenizer, Words, as_tokenizer
from rulefield.metrics import Counts, text_span_counts

AUTO = "auto"
MOST_CUT_SHARE = 0.01
MOST_COMPARED_TEXTS = 300
FOLDS = 3
_OTHERS: tuple[Tokenizer, ...] = (
    Words(),
    Words(lower_split=True),
    Matches(r"\w+|[^\w\s]"),
    Matches(r"[^\W\d_]+|\d+|[^\w\s]"),
)

Scores = dict[str, float]
"""Span F1 of each tokenizer that was compared, by what it is called."""


def choose_tokenizer(given: Any, documents: Sequence[Document], fit: Callable[..., Any]) -> tuple[Tokenizer, Scores]:
    """Return the tokenizer to use, and the scores of those that were compared.

    Parameters
    ----------
    given : str, callable or tokenizer
        "auto" takes the best; anything else is taken as it is, and the scores may show a better one.
    documents : labeled texts
    fit : callable
        ``fit(tokenizer, documents)`` returns a parser.
    """
    first = Words() if given == AUTO else as_tokenizer(given)
    edges = 2 * sum(len(document.spans or ()) for document in documents)
    cuts = count_cuts(first, documents)
    if cuts <= MOST_CUT_SHARE * edges:
        return first, {}
    fewer = [other for other in _OTHERS if count_cuts(other, documents) < cuts]
    if not fewer:
        return first, {}
    compared = [first, *fewer]
    scores = [held_out_f1(tokenizer, documents, fit) for tokenizer in compared]
    best = compared[scores.index(max(scores))] if given == AUTO else first
    return best, dict(zip(map(name_of, compared), scores))


def count_cuts(tokenizer: Tokenizer, documents: Sequence[Document]) -> int:
    """Return how many edges of gold spans lie inside a token."""
    return sum(len(find_cuts(document, tokenizer(document.text))) for document in documents)


def name_of(tokenizer: Tokenizer) -> str:
    """Return what a user writes to get a tokenizer."""
    config = tokenizer.to_config()
    if config.get("lower_split"):
        return "fine"
    return str(config.get("pattern") or config.get("name") or config["kind"])


def advice(used: Tokenizer, scores: Scores) -> str:
    """Say which tokenizer was found best, if it is not the one in use."""
    best = max(scores, key=scores.__getitem__, default=None)
    own = name_of(used)
    if best is None or best == own:
        return ""
    return f"; tokenizer={best!r} has a span F1 of {scores[best]:.3f} by cross-validation, {own!r} {scores[own]:.3f}"


def held_out_f1(tokenizer: Tokenizer, documents: Sequence[Document], fit: Callable[..., Any]) -> float:
    """Return span F1 on texts held out, in turns; at most :data:`MOST_COMPARED_TEXTS` of them, evenly chosen."""
    step = -(-len(documents) // MOST_COMPARED_TEXTS)
    chosen = documents[::step]
    total = Counts(0, 0, 0)
    for fold in range(min(FOLDS, len(chosen))):
        held_out = chosen[fold::FOLDS]
        rest = [document for i, document in enumerate(chosen) if i % FOLDS != fold] or held_out
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fit(tokenizer, rest).predict([document.text for document in held_out])
        counts = text_span_counts([document.spans or () for document in held_out], found)
        total = Counts(*(sum(c[i] for c in (total, *counts.values())) for i in range(3)))
    return total.f1
