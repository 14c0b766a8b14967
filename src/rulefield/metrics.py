"""Scores of label sequences: segments as conlleval counts them, tokens, whole sequences; reports and scorers.

Segments of impossible label sequences (``I-x`` after ``O``) are counted as the conlleval script counts them.
Tokens whose gold label is not exactly known (``None`` or a set) are left out of token scores; segment and
sequence scores refuse them.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from rulefield.encode.labels import as_label_sequences, check_lengths
from rulefield.encode.schemes import OUTSIDE, Scheme, as_scheme, guess_scheme
from rulefield.encode.spans import SegmentTable, Span
from rulefield.exceptions import InputError, LabelError


class Counts(NamedTuple):
    """How many were right, how many were predicted, how many there are; if texts have weights, their sums."""

    correct: float
    predicted: float
    gold: float

    @property
    def precision(self) -> float:
        """Share of the predicted ones that are right; 0 where there are none."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold ones that were found; 0 where there are none."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 0.0


# --- segments -------------------------------------------------------------------------------------


def span_counts(
    y_true: Any, y_pred: Any, *, scheme: str | None = "auto", level: int | None = None
) -> dict[str, Counts]:
    """Count the segments of each type.

    Parameters
    ----------
    y_true, y_pred : lists of label sequences
    scheme : str or None, default "auto"
        Label scheme; "auto" guesses it from the prefixes. Without one, runs of a label other than ``O`` are segments.
    level : int or None
        Level of hierarchical labels, 0 the outermost; by default all levels together.

    Returns
    -------
    dict of str to Counts
        A segment is right when start, end and type agree; types below the first level are paths (``authors/person``).
    """
    names, true, pred, lengths = _encode(y_true, y_pred, "segment")
    kind = guess_scheme(names) if scheme == "auto" else as_scheme(scheme)
    table = SegmentTable([str(name) for name in names], kind)
    levels = range(table.depth) if level is None else range(table.depth)[level : level + 1 or None]
    totals = np.zeros((3, len(table.types)), dtype=np.int64)
    for k in levels:
        gold, found = (table.find(ids, lengths, k) for ids in (true, pred))
        right = _right(gold, found, len(true))
        for row, kinds in enumerate((found[2][right], found[2], gold[2])):
            totals[row] += np.bincount(kinds, minlength=len(table.types))
    outside = OUTSIDE if kind is Scheme.none else None
    counted = {name: Counts(*map(int, totals[:, i])) for i, name in enumerate(table.types) if name != outside}
    return {name: counts for name, counts in counted.items() if counts.predicted or counts.gold}


def text_span_counts(y_true: Any, y_pred: Any, sample_weight: Sequence[float] | None = None) -> dict[str, Counts]:
    """Count the spans of characters of each label; a span is right if start, end and label agree.

    Parameters
    ----------
    y_true, y_pred : lists of lists of (start, end, label)
        One list per text, as ``TextParser.fit`` takes and ``TextParser.predict`` returns them; what comes after the label
        is not read, and a span that is given twice counts once.
    sample_weight : list of float, optional
        Each text counts by its weight.
    """
    if len(y_true) != len(y_pred):
        raise InputError(f"there are {len(y_true)} lists of gold spans but {len(y_pred)} of predicted ones.")
    weights = [1] * len(y_true) if sample_weight is None else sample_weight
    totals: dict[str, list[Any]] = {}
    for gold, found, weight in zip(y_true, y_pred, weights):
        both = ({tuple(span[:3]) for span in gold}, {tuple(span[:3]) for span in found})
        for place, spans in enumerate((both[0] & both[1], both[1], both[0])):
            for _, _, label in spans:
                totals.setdefault(label, [0, 0, 0])[place] += weight
    return {label: Counts(*totals[label]) for label in sorted(totals)}


def text_span_f1(y_true: Any, y_pred: Any, *, average: str | None = "micro", sample_weight: Any = None) -> Any:
    """F1 of spans of characters, counted by :func:`text_span_counts`; ``average=None`` gives a dict by label."""
    return _average(text_span_counts(y_true, y_pred, sample_weight), "f1", average)


Found = tuple[np.ndarray, np.ndarray, np.ndarray]


def _right(gold: Found, found: Found, n_tokens: int) -> np.ndarray:
    """Which found segments are gold: at one level at most one segment begins at a token."""
    last = np.full(n_tokens, -1, dtype=np.int64)
    kind = np.full(n_tokens, -1, dtype=np.int64)
    last[gold[0]], kind[gold[0]] = gold[1], gold[2]
    return (last[found[0]] == found[1]) & (kind[found[0]] == found[2])


def _average(counts: dict[str, Counts], what: str, average: str | None) -> Any:
    if average is None:
        return {name: getattr(c, what) for name, c in counts.items()}
    if average == "micro":
        return getattr(_total(counts), what)
    if average == "macro":
        return float(np.mean([getattr(c, what) for c in counts.values()])) if counts else 0.0
    if average == "weighted":
        total = _total(counts).gold
        return sum(getattr(c, what) * c.gold for c in counts.values()) / total if total else 0.0
    raise InputError(f"average must be 'micro', 'macro', 'weighted' or None; got {average!r}.")


def _total(counts: dict[str, Counts]) -> Counts:
    return Counts(*(sum(c[i] for c in counts.values()) for i in range(3)))


def span_f1(y_true: Any, y_pred: Any, *, average: str | None = "micro", **options: Any) -> Any:
    """F1 of segments; ``options`` as in :func:`span_counts`. ``average=None`` gives a dict by type."""
    return _average(span_counts(y_true, y_pred, **options), "f1", average)


def span_precision(y_true: Any, y_pred: Any, *, average: str | None = "micro", **options: Any) -> Any:
    """Precision of segments; ``options`` as in :func:`span_counts`."""
    return _average(span_counts(y_true, y_pred, **options), "precision", average)


def span_recall(y_true: Any, y_pred: Any, *, average: str | None = "micro", **options: Any) -> Any:
    """Recall of segments; ``options`` as in :func:`span_counts`."""
    return _average(span_counts(y_true, y_pred, **options), "recall", average)


# --- kinds of error -------------------------------------------------------------------------------


class SpanPair(NamedTuple):
    """A gold segment and the predicted one that answers it, or one of them alone; ``sequence`` is where."""

    sequence: int
    gold: Span | None
    found: Span | None

    @property
    def kind(self) -> str:
        """One of :data:`SPAN_KINDS`."""
        if self.gold is None or self.found is None:
            return "spurious" if self.gold is None else "missed"
        place, kind = self.gold[:2] == self.found[:2], self.gold.type == self.found.type
        return "correct" if place and kind else "type" if place else "boundary" if kind else "both"


SPAN_KINDS = ("correct", "type", "boundary", "both", "missed", "spurious")
"""Right; right place, wrong type; right type, wrong place; overlapping and both wrong; not found; not there."""


def span_pairs(y_true: Any, y_pred: Any, *, scheme: str | None = "auto") -> list[SpanPair]:
    """Pair gold and predicted segments, level by level.

    As nervaluate pairs them: a predicted segment belongs to the gold one with its boundaries, else to the first that it
    overlaps and that no other has taken. Linear in the number of segments.
    """
    names, true, pred, lengths = _encode(y_true, y_pred, "segment")
    kind = guess_scheme(names) if scheme == "auto" else as_scheme(scheme)
    table = SegmentTable([str(name) for name in names], kind)
    starts = np.cumsum(lengths) - lengths
    pairs: list[SpanPair] = []
    for level in range(table.depth):
        gold, found = (_by_sequence(table, ids, lengths, starts, level, kind) for ids in (true, pred))
        for i, (g, f) in enumerate(zip(gold, found)):
            pairs += [SpanPair(i, *pair) for pair in _paired(g, f)]
    return pairs


def text_span_pairs(y_true: Any, y_pred: Any) -> list[SpanPair]:
    """Pair gold and predicted spans of characters, (start, end, label): equal ones first, then those that overlap.

    A span that is given twice counts once; the spans of a text may nest.
    """
    pairs: list[SpanPair] = []
    for i, (gold, found) in enumerate(zip(y_true, y_pred)):
        both = [sorted({Span(*span[:3]) for span in spans}) for spans in (gold, found)]
        right = [span for span in both[1] if span in both[0]]
        left = [[span for span in spans if span not in right] for spans in both]
        pairs += [SpanPair(i, span, span) for span in right]
        pairs += [SpanPair(i, *pair) for pair in _paired(*left)]
    return pairs


def _paired(gold: list[Span], found: list[Span]) -> list[tuple[Span | None, Span | None]]:
    """Pair each found span with the first gold one that has its boundaries, or else overlaps it, and is not taken."""
    pairs: list[tuple[Span | None, Span | None]] = []
    rest = list(gold)
    for span in found:
        near = [g for g in rest if g.start < span.stop and span.start < g.stop]
        match = next((g for g in near if g[:2] == span[:2]), near[0] if near else None)
        if match is not None:
            rest.remove(match)
        pairs.append((match, span))
    return pairs + [(g, None) for g in rest]


def span_errors(y_true: Any, y_pred: Any, *, scheme: str | None = "auto") -> dict[str, int]:
    """How many segments are of each of :data:`SPAN_KINDS`; "incorrect" of nervaluate is type + boundary + both."""
    kinds = [pair.kind for pair in span_pairs(y_true, y_pred, scheme=scheme)]
    return {kind: kinds.count(kind) for kind in SPAN_KINDS}


def _by_sequence(
    table: SegmentTable, ids: np.ndarray, lengths: np.ndarray, starts: np.ndarray, level: int, scheme: Scheme
) -> list[list[Span]]:
    found: list[list[Span]] = [[] for _ in lengths]
    first, last, kinds = table.find(ids, lengths, level)
    owners = np.searchsorted(np.cumsum(lengths), first, side="right")
    for a, b, k, i in zip(first.tolist(), last.tolist(), kinds.tolist(), owners.tolist()):
        if scheme is not Scheme.none or table.types[k] != OUTSIDE:
            found[i].append(Span(a - int(starts[i]), b - int(starts[i]) + 1, table.types[k]))
    return found


# --- tokens and sequences -------------------------------------------------------------------------


def token_counts(y_true: Any, y_pred: Any, *, exclude: Sequence[Any] = ()) -> dict[Any, Counts]:
    """Count the tokens of each label; labels in ``exclude`` get no entry (but cost precision where confused)."""
    names, true, pred, _ = _encode(y_true, y_pred, None)
    m = len(names)
    right, found, gold = (np.bincount(ids, minlength=m) for ids in (true[true == pred], pred, true))
    return {
        name: Counts(int(right[i]), int(found[i]), int(gold[i]))
        for i, name in enumerate(names)
        if name not in exclude
    }


def token_accuracy(y_true: Any, y_pred: Any) -> float:
    """Share of tokens with the right label."""
    _, true, pred, _ = _encode(y_true, y_pred, None)
    return float((true == pred).mean()) if len(true) else 0.0


def token_f1(y_true: Any, y_pred: Any, *, average: str | None = "macro", exclude: Sequence[Any] = ()) -> Any:
    """F1 of token labels."""
    return _average(token_counts(y_true, y_pred, exclude=exclude), "f1", average)


def token_precision(y_true: Any, y_pred: Any, *, average: str | None = "macro", exclude: Sequence[Any] = ()) -> Any:
    """Precision of token labels."""
    return _average(token_counts(y_true, y_pred, exclude=exclude), "precision", average)


def token_recall(y_true: Any, y_pred: Any, *, average: str | None = "macro", exclude: Sequence[Any] = ()) -> Any:
    """Recall of token labels."""
    return _average(token_counts(y_true, y_pred, exclude=exclude), "recall", average)


def sequence_accuracy(y_true: Any, y_pred: Any) -> float:
    """Share of sequences without a wrong label (an empty sequence is right)."""
    _, true, pred, lengths = _encode(y_true, y_pred, "sequence")
    if not len(lengths):
        return 0.0
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return (len(lengths) - len(np.unique(owner[true != pred]))) / len(lengths)


# --- reports --------------------------------------------------------------------------------------


def span_report(y_true: Any, y_pred: Any, *, output_dict: bool = False, digits: int = 2, **options: Any) -> Any:
    """Precision, recall, F1 and support of every segment type, as a text table or a dict.

    ``options`` as in :func:`span_counts`.
    """
    return _report(span_counts(y_true, y_pred, **options), output_dict, digits)


def text_span_report(y_true: Any, y_pred: Any, *, output_dict: bool = False, digits: int = 2) -> Any:
    """Precision, recall, F1 and support of the spans of characters of every label, as a text table or a dict."""
    return _report(text_span_counts(y_true, y_pred), output_dict, digits)


def token_report(
    y_true: Any, y_pred: Any, *, output_dict: bool = False, digits: int = 2, exclude: Sequence[Any] = ()
) -> Any:
    """Precision, recall, F1 and support of every token label, as a text table or a dict."""
    return _report(token_counts(y_true, y_pred, exclude=exclude), output_dict, digits)


def _report(counts: dict[Any, Counts], output_dict: bool, digits: int) -> Any:
    rows = {str(name): _row(c) for name, c in counts.items()}
    support = _total(counts).gold
    rows["micro avg"] = _row(_total(counts))
    for average in ("macro", "weighted"):
        scores = {what: _average(counts, what, average) for what in ("precision", "recall", "f1")}
        rows[f"{average} avg"] = {**scores, "support": support}
    return rows if output_dict else _as_text(rows, digits, len(counts))


def _row(counts: Counts) -> dict[str, Any]:
    return {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1, "support": counts.gold}


def _as_text(rows: dict[str, dict[str, Any]], digits: int, n_types: int) -> str:
    width = max(len(name) for name in rows)
    lines = [f"{'':{width}}  precision  recall      f1  support", ""]
    for i, (name, row) in enumerate(rows.items()):
        if i == n_types:
            lines.append("")
        scores = [f"{100 * row[what]:.{digits}f}" for what in ("precision", "recall", "f1")]
        lines.append(f"{name:>{width}}  {scores[0]:>9}  {scores[1]:>6}  {scores[2]:>6}  {row['support']:>7}")
    return "\n".join(lines)


# --- labels to numbers ----------------------------------------------------------------------------


def _encode(y_true: Any, y_pred: Any, unit: str | None) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
    """Give the labels of both numbers; ``unit`` names what needs all gold labels (None: others are left out)."""
    y_true, y_pred = as_label_sequences(y_true), as_label_sequences(y_pred)
    lengths = np.fromiter(map(len, y_true), dtype=np.int64, count=len(y_true))
    found = np.fromiter(map(len, y_pred), dtype=np.int64, count=len(y_pred))
    _check_same(lengths, found)
    true, pred = list(chain.from_iterable(y_true)), list(chain.from_iterable(y_pred))
    known = _known(true)
    if not known.all():
        if unit is not None:
            _refuse_unknown(int(np.flatnonzero(~known)[0]), lengths, unit)
        keep = known.tolist()
        true, pred = ([label for label, k in zip(labels, keep) if k] for labels in (true, pred))
    names = sorted(set(true) | set(pred), key=lambda label: (type(label).__name__, label))
    number = {name: i for i, name in enumerate(names)}
    true_ids, pred_ids = (np.fromiter(map(number.__getitem__, y), np.int64, len(y)) for y in (true, pred))
    return names, true_ids, pred_ids, lengths


def _known(labels: list[Any]) -> np.ndarray:
    partial = (type(None), set, frozenset, list, tuple)
    kinds = set(map(type, labels))
    if not any(issubclass(kind, partial) for kind in kinds):
        return np.ones(len(labels), dtype=bool)
    return np.array([not isinstance(label, partial) for label in labels], dtype=bool)


def _check_same(true: np.ndarray, pred: np.ndarray) -> None:
    try:
        check_lengths(pred, true)
    except LabelError as error:
        text = str(error).replace(" in X", " in y_true").replace(" in y;", " in y_pred;")
        raise LabelError(text.replace("X has", "y_true has").replace("but y has", "but y_pred has")) from None


def _refuse_unknown(token: int, lengths: np.ndarray, unit: str) -> None:
    sequence = int(np.searchsorted(np.cumsum(lengths), token, side="right"))
    place = token - int(lengths[:sequence].sum())
    raise LabelError(
        f"{unit} scores need every gold label, but token {place} of sequence {sequence} is not exactly known; "
        f"leave that sequence out, or use token scores."
    )
