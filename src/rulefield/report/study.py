"""Everything that a report says of one model: predictions, scores, errors, how sure it is, what its rules do."""

import copy
import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import confusion_matrix

from rulefield.encode.alignment import spans_of
from rulefield.encode.labels import as_label_sequences, check_lengths
from rulefield.encode.schemes import guess_scheme
from rulefield.exceptions import InputError
from rulefield.metrics import SPAN_KINDS, SpanPair, span_pairs, text_span_pairs
from rulefield.report.certainty import Certainty, certainty, check_sequence_model, label_set
from rulefield.report.effects import RuleEffect, rule_effects
from rulefield.report.intervals import Interval, drawn, f1_of, interval, precision_of, recall_of, share_of
from rulefield.rules.finding.observed import fully_labeled
from rulefield.rules.rule import as_rules

BINS = 10
NOTHING = "(nothing)"
"""Stands in tables for: no gold segment there, or none predicted."""


@dataclass(frozen=True)
class Bin:
    """Tokens whose label has a probability in one tenth: how many, their mean probability, how many are right."""

    low: float
    n: int
    confidence: float
    accuracy: float


class Texts(NamedTuple):
    """What a parser was asked: where the tokens of each text lie, and its gold spans of characters."""

    places: list[list[tuple[int, int]]]
    gold: list[list[tuple[int, int, str]]]


@dataclass(frozen=True)
class Study:
    """A model on labeled sequences; it is a copy that breaks hard rules as little as possible where nothing obeys them."""

    name: str
    model: Any
    X: list[Any]
    gold: list[list[Any]]
    labelings: list[Any]
    rules: list[Any]
    """Those that act."""
    scheme: str
    notes: tuple[str, ...] = ()
    """What a reader must know."""
    texts: Texts | None = None
    """Of a parser: its spans are counted in characters, as ``TextParser.score`` counts them."""

    @cached_property
    def predicted(self) -> list[list[Any]]:
        """The predicted labels."""
        return [labeling.labels for labeling in self.labelings]

    # --- scores -----------------------------------------------------------------------------------

    @cached_property
    def pairs(self) -> list[SpanPair]:
        """Gold and predicted segments, paired; of a parser, spans of characters."""
        if self.texts is not None:
            return text_span_pairs(self.texts.gold, self._found_characters())
        return span_pairs(self.gold, self.predicted, scheme=self.scheme)

    def _found_characters(self) -> list[list[Any]]:
        places = self.texts.places if self.texts else []
        return [spans_of(labels, row, self.scheme) for labels, row in zip(self.predicted, places)]

    @cached_property
    def whole(self) -> np.ndarray:
        """Whether each sequence is right: all its labels; of a parser, all its spans of characters."""
        if self.texts is None:
            return self.wrong == 0
        right = np.ones(len(self.gold), dtype=bool)
        right[[pair.sequence for pair in self.pairs if pair.kind != "correct"]] = False
        return right

    @cached_property
    def types(self) -> list[str]:
        """Segment types, sorted."""
        return sorted({span.type for pair in self.pairs for span in (pair.gold, pair.found) if span})

    @cached_property
    def span_counts(self) -> np.ndarray:
        """Right, predicted and gold segments by sequence and type, (n_sequences, n_types, 3)."""
        number = {name: k for k, name in enumerate(self.types)}
        counts = np.zeros((len(self.gold), len(self.types), 3), dtype=np.int64)
        for pair in self.pairs:
            right = pair.gold if pair.kind == "correct" else None
            for place, span in enumerate((right, pair.found, pair.gold)):
                if span is not None:
                    counts[pair.sequence, number[span.type], place] += 1
        return counts

    @cached_property
    def wrong(self) -> np.ndarray:
        """Wrong tokens of each sequence."""
        return np.array(
            [sum(a != b for a, b in zip(p, g)) for p, g in zip(self.predicted, self.gold)], dtype=np.int64
        )

    @cached_property
    def counts(self) -> dict[str, tuple[np.ndarray, Any]]:
        """Scores of the whole: counts by sequence, and the function of their total."""
        lengths = np.array([len(labels) for labels in self.gold])
        spans = self.span_counts.sum(axis=1)
        return {
            "Span F1": (spans, f1_of),
            "Precision": (spans, precision_of),
            "Recall": (spans, recall_of),
            "Token accuracy": (np.stack([lengths - self.wrong, lengths], axis=1), share_of),
            "Whole sequences": (
                np.stack([self.whole, np.ones(len(lengths))], axis=1).astype(np.int64),
                share_of,
            ),
        }

    @cached_property
    def scores(self) -> dict[str, Interval]:
        """Scores of the whole with their intervals."""
        return {name: interval(c, score, drawn(c))[0] for name, (c, score) in self.counts.items()}

    @cached_property
    def by_type(self) -> list[dict[str, Any]]:
        """One row per segment type: precision, recall, F1 with its interval, support."""
        totals, whole = drawn(self.span_counts), self.span_counts.sum(axis=0)
        f1 = interval(self.span_counts, f1_of, totals) if self.types else []
        return [
            {"type": t, "precision": p, "recall": r, "f1": f, "gold": int(n[2]), "predicted": int(n[1])}
            for t, p, r, f, n in zip(self.types, precision_of(whole), recall_of(whole), f1, whole)
        ]

    @cached_property
    def errors(self) -> dict[str, int]:
        """How many segments are of each kind of error."""
        kinds = [pair.kind for pair in self.pairs]
        return {kind: kinds.count(kind) for kind in SPAN_KINDS}

    @cached_property
    def confusion(self) -> tuple[list[str], np.ndarray]:
        """Names, and how often a gold segment (row) was paired with a predicted one (column), whatever its boundaries."""
        return confusion_of(self.pairs)

    # --- how sure it is ---------------------------------------------------------------------------

    @cached_property
    def certainty(self) -> Certainty:
        """Probabilities of labels and of whole labelings."""
        return certainty(self.model, self.X, self.predicted, self.rules)

    @cached_property
    def calibration(self) -> list[Bin]:
        """Tokens by the probability of their label, in tenths; empty ones are left out."""
        right = np.array([a == b for p, g in zip(self.predicted, self.gold) for a, b in zip(p, g)])
        return calibration_bins(np.concatenate(self.certainty.tokens), right)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: the mean distance of probability and accuracy over tokens."""
        total = sum(b.n for b in self.calibration)
        return sum(b.n * abs(b.confidence - b.accuracy) for b in self.calibration) / total if total else 0.0

    # --- rules and the model ----------------------------------------------------------------------

    @cached_property
    def effects(self) -> list[RuleEffect]:
        """What each rule does."""
        if not self.rules:
            return []
        labels = label_set(self.model) | {str(x) for y in (self.gold, self.predicted) for row in y for x in row}
        how: dict[str, Any] = {"scheme": self.scheme, "labels": sorted(labels)}
        return rule_effects(self.model, self.X, self.gold, self.rules, predicted=self.predicted, **how)

    @cached_property
    def digest(self) -> str:
        """The beginning of SHA-256 of the model's file."""
        try:
            return hashlib.sha256(self.model.to_bytes()).hexdigest()[:16]
        except (InputError, TypeError, ValueError) as error:
            return f"none: the model cannot be saved ({error})"


def confusion_of(pairs: list[SpanPair]) -> tuple[list[str], np.ndarray]:
    """Names (the last: nothing), and how often gold (rows) and predicted segments (columns) were paired."""
    gold = [pair.gold.type if pair.gold else NOTHING for pair in pairs]
    predicted = [pair.found.type if pair.found else NOTHING for pair in pairs]
    names = [*sorted({*gold, *predicted} - {NOTHING}), NOTHING]
    return names, confusion_matrix(gold, predicted, labels=names)


def calibration_bins(sure: np.ndarray, right: np.ndarray) -> list[Bin]:
    """Group probabilities (n,) of labels into equal parts of [0, 1] with the share (n,) that is right."""
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    filled = []
    for k in range(BINS):
        inside = place == k
        if inside.any():
            filled.append(Bin(k / BINS, int(inside.sum()), float(sure[inside].mean()), float(right[inside].mean())))
    return filled


def study(model: Any, X: Any, y: Any, *, rules: Any = None, name: str = "model") -> Study:
    """Predict and gather.

    Parameters
    ----------
    model : ChainCRF, RuledCRF, SegmentCRF or TextParser, fitted
    X, y : sequences and their gold labels; sequences with unknown labels are left out, and counted
        Of a TextParser, texts and lists of (start, end, label), or tokens and labels as its model sees them.
    rules : list of rules, optional
        In place of the model's own; ``[]`` for none.
    name : str
    """
    if getattr(model, "_kind", None) == "text":
        if len(X) and isinstance(X[0], str):
            return _text_study(model, X, y, rules, name)
        model = model.model_
    check_sequence_model(model)
    gold = as_label_sequences(y)
    check_lengths(np.array([len(row) for row in gold]), np.array([len(x) for x in X]))
    keep = [i for i, row in enumerate(gold) if len(row) and fully_labeled(row)]
    if not keep:
        raise InputError("a report needs at least one sequence with tokens whose labels are all known; got none.")
    tokens, known = [X[i] for i in keep], [list(gold[i]) for i in keep]
    notes = [f"{len(y) - len(keep)} sequences without full labels are left out."] if len(keep) < len(y) else []
    model = relaxed(model)
    acting = acting_rules(model, rules)
    labelings = model.decode(tokens, rules=acting)
    scheme = scheme_of(model) or str(guess_scheme(sorted({str(label) for row in known for label in row})))
    return Study(name, model, tokens, known, labelings, acting, scheme, tuple(notes))


def _text_study(parser: Any, X: Any, y: Any, rules: Any, name: str) -> Study:
    """Study a parser on texts: its model on its tokens, its spans in characters."""
    spans = [[tuple(span[:3]) for span in row] for row in y]
    places = [parser._tokenizer(text) for text in X]
    kept = [i for i, row in enumerate(places) if row]
    tokens, labels = parser.labeled_tokens([X[i] for i in kept], [spans[i] for i in kept])
    tokens_study = study(parser.model_, tokens, labels, rules=rules, name=name)
    return replace(tokens_study, texts=Texts([places[i] for i in kept], [spans[i] for i in kept]))


# --- what is asked of models ------------------------------------------------------------------------


def relaxed(model: Any) -> Any:
    """Return a copy of the model that breaks hard rules as little as possible where nothing obeys them."""
    copied = copy.copy(model)
    copied.on_infeasible = "relax"
    return copied


def chain_of(model: Any) -> Any:
    """Return the chain inside the model; None for segments."""
    inner = model.estimator_ if model._kind == "ruled" else model
    return inner if inner._kind == "chain" else None


def scheme_of(model: Any) -> str | None:
    """Return the label scheme of a model."""
    return (model.estimator_ if model._kind == "ruled" else model).scheme


def acting_rules(model: Any, rules: Any = None) -> list[Any]:
    """Return the rules that act in a prediction: the model's own where ``rules`` is None."""
    if rules is None:
        rules = model.rules_ if model._kind == "ruled" else model.rules
    return list(as_rules(rules))
