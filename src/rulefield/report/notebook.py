"""What notebooks show of results: small self-contained pieces of HTML, everything escaped."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rulefield.encode.schemes import OUTSIDE, guess_scheme
from rulefield.report.marks import Piece, hues, pieces, render, runs


def labeling_html(labeling: Any) -> str:
    """Labels as colored pieces (by task or type where there are several), status, bounds and broken rules."""
    labels = labeling.labels
    rows = labels.items() if isinstance(labels, Mapping) else [("", labels)]
    rows_shown = [(str(name), _labels(row)) for name, row in rows if isinstance(row, Sequence)]
    types = [piece.type for _, row in rows_shown for piece in row if piece.type is not None]
    return render("notebook.html", what="labeling", it=labeling, rows=rows_shown, hues=hues(types))


def _labels(labels: Sequence[Any]) -> list[Piece]:
    names = [str(label) for label in labels]
    return pieces(names, names, str(guess_scheme(names)) if names else None)


def parse_html(parse: Any) -> str:
    """Show the text with its fields in color, and each with its probability."""
    cut = text_pieces(parse.text, [(span.start, span.end, span.label) for span in parse.spans])
    return render("notebook.html", what="parse", it=parse, pieces=cut, hues=hues(s.label for s in parse.spans))


def text_pieces(text: str, spans: Sequence[tuple[int, int, str]]) -> list[Piece]:
    """Cut a text at its spans of characters, the inner one where they nest."""
    owner = [-1] * len(text)
    for number, (start, end, _) in enumerate(spans):
        owner[start:end] = [number] * (end - start)
    return [
        Piece(None if owner[low] < 0 else spans[owner[low]][2], ((text[low:high], False),))
        for low, high in runs(owner)
    ]


def explanation_html(explanation: Any) -> str:
    """One row per token: its label, the runner-up, and what decided between them."""
    rows = [{"word": str(token.token), "gold": "", "wrong": False, "why": token} for token in explanation.tokens]
    return render("notebook.html", what="explanation", it=explanation, rows=rows)


def weights_html(explanation: Any) -> str:
    """Show the largest weights of a model: features by label, and transitions."""
    features = {str(label): rows for label, rows in explanation.features.items() if label != OUTSIDE or rows}
    return render("notebook.html", what="weights", it=explanation, features=features)


def rules_html(rows: Iterable[Mapping[str, Any]]) -> str:
    """Render a table with one row per rule; all rows have the same keys."""
    return render("notebook.html", what="rules", it=None, rows=list(rows))


def model_html(facts: Sequence[tuple[str, str]]) -> str:
    """Show what a fitted model holds."""
    return render("notebook.html", what="model", it=None, facts=facts)
