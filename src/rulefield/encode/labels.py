"""From the labels that people write (strings, numbers, None, sets) to numbers, and back."""

import difflib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from rulefield.data.sequences import Labels, offsets_of
from rulefield.encode.schemes import as_scheme
from rulefield.exceptions import LabelError

_LARGEST = 2**63
_OPTIONS = (set, frozenset, list, tuple, np.ndarray)


class LabelEncoder:
    """Numbers for labels.

    A token's label is a string or a number; ``None`` where it is unknown; a set (or list, or tuple) where it is
    one of several.

    Parameters
    ----------
    classes : sequence of labels, optional
        The label set. By default all labels that occur in ``y``, also inside sets.

    Attributes
    ----------
    classes_ : list
        Labels in sorted order; a label's number is its place here.
    """

    def __init__(self, classes: Sequence[Hashable] | None = None):
        self.classes = classes

    def fit(self, y: Iterable[Any]) -> "LabelEncoder":
        """Collect the label set of ``y``, a list of sequences of labels."""
        y = as_label_sequences(y)
        seen = _labels_of(y)
        if self.classes is not None:
            _check_all_seen(self.classes, seen)
            seen = set(self.classes)
        if not seen:
            raise LabelError("y holds no known label at all; at least one token must be labeled.")
        return self.set_classes(sorted(seen, key=lambda label: (type(label).__name__, label)))

    def set_classes(self, classes: Sequence[Hashable]) -> "LabelEncoder":
        """Take a label set in a given order (a saved model's)."""
        self.classes_ = list(classes)
        self._index = {label: i for i, label in enumerate(self.classes_)}
        return self

    def encode(self, y: Iterable[Any], lengths: np.ndarray | None = None) -> Labels:
        """Turn labels into numbers.

        Parameters
        ----------
        y : list of sequences of labels
        lengths : ndarray of int64, shape (n_sequences,), optional
            Lengths of the sequences of ``X``, which ``y`` must match.
        """
        y = as_label_sequences(y)
        own = np.fromiter(map(len, y), dtype=np.int64, count=len(y))
        check_lengths(own, lengths)
        total = int(own.sum())
        try:
            flat = chain.from_iterable(y)
            ids = np.fromiter(map(self._index.get, flat, repeat(-1)), dtype=np.int32, count=total)
        except TypeError:  # a set or a list among the labels
            ids = np.full(total, -1, dtype=np.int32)
        if total and ids.min() < 0:
            return self._encode_partial(y, own)
        return Labels(ids, own, len(self.classes_))

    def fit_encode(self, y: Iterable[Any], lengths: np.ndarray | None = None) -> Labels:
        """Fit, then encode."""
        y = as_label_sequences(y)
        return self.fit(y).encode(y, lengths)

    def decode(self, ids: np.ndarray) -> list:
        """Turn label numbers (n,) into a list of labels."""
        return [self.classes_[i] for i in ids.tolist()]

    def _encode_partial(self, y: Sequence[Sequence[Any]], lengths: np.ndarray) -> Labels:
        allowed = np.zeros((int(lengths.sum()), len(self.classes_)), dtype=np.uint8)
        row = 0
        for i, labels in enumerate(y):
            for t, label in enumerate(labels):
                allowed[row, self._numbers(label, i, t)] = 1
                row += 1
        ids = np.where(allowed.sum(axis=1, dtype=np.int64) == 1, allowed.argmax(axis=1), -1)
        return Labels(ids, lengths, len(self.classes_), None if (ids >= 0).all() else allowed)

    def _numbers(self, label: Any, sequence: int, token: int) -> Any:
        if label is None:
            return slice(None)
        options = list(label) if isinstance(label, _OPTIONS) else [label]
        if not options:
            raise LabelError(f"sequence {sequence}, token {token}: an empty set of labels; write None for unknown.")
        for option in options:
            if not isinstance(option, Hashable) or option not in self._index:
                raise LabelError(
                    f"sequence {sequence}, token {token}: label {option!r} is unknown"
                    f"{nearest(option, self.classes_)}; known labels: {_shown(self.classes_)}."
                )
        return [self._index[option] for option in options]


def nearest(name: Any, known: Iterable[Any]) -> str:
    """Words that point at the nearest known name, or nothing."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def as_label_sequences(y: Any) -> Sequence[Sequence[Any]]:
    """Check that ``y`` is a list of sequences of labels; the usual mistakes get their own words.

    Raises
    ------
    LabelError
        ``y`` is one flat list of labels, or holds features (X and y swapped).
    """
    if isinstance(y, (str, bytes, Mapping)) or not isinstance(y, Iterable):
        raise LabelError(f"y must be a list with one list of labels for each sequence; got {type(y).__name__}.")
    if not isinstance(y, (list, tuple, np.ndarray)):
        y = list(y)
    for i, labels in enumerate(y):
        if isinstance(labels, (list, tuple, np.ndarray)):
            continue
        if isinstance(labels, (str, bytes)) or np.isscalar(labels):
            raise LabelError(
                f"y must be a list of label lists, one per sequence, but y[{i}] is the single label {labels!r}; "
                f"for one sequence write [y]."
            )
        raise LabelError(f"y[{i}] must be a list of labels; got {type(labels).__name__}.")
    first = next((labels[0] for labels in y if len(labels)), None)
    if isinstance(first, Mapping):
        raise LabelError("y holds feature dicts where labels belong: X and y are swapped; call fit(X, y).")
    if isinstance(first, (list, tuple)) and len(first) and isinstance(first[0], (str, Mapping)) and len(first) > 1:
        _refuse_feature_lists(y)
    return [labels.tolist() if isinstance(labels, np.ndarray) else labels for labels in y] if _has_arrays(y) else y


def _has_arrays(y: Sequence[Any]) -> bool:
    return any(isinstance(labels, np.ndarray) for labels in y)


def _refuse_feature_lists(y: Sequence[Any]) -> None:
    """Every token a list of two strings or more: these are features, not sets of labels."""
    tokens = [token for labels in y for token in labels]
    if all(isinstance(token, (list, tuple)) and len(token) > 1 for token in tokens):
        raise LabelError(
            "every token of y is a list of strings, as in a feature list: X and y look swapped; call fit(X, y), "
            "and write sets, {'a', 'b'}, if a label is one of several."
        )


def check_lengths(own: np.ndarray, expected: np.ndarray | None) -> None:
    """Check that ``y`` has as many sequences, and as many tokens in each, as ``X``."""
    if expected is None or np.array_equal(own, expected):
        return
    if len(own) != len(expected):
        raise LabelError(f"X has {len(expected)} sequences but y has {len(own)}; give one label list for each.")
    bad = int(np.flatnonzero(own != expected)[0])
    raise LabelError(
        f"sequence {bad} has {expected[bad]} tokens in X but {own[bad]} labels in y; give one label for each token."
    )


def _labels_of(y: Sequence[Sequence[Any]]) -> set:
    try:
        seen = set(chain.from_iterable(y))
    except TypeError:
        seen = set()
        for label in chain.from_iterable(y):
            if isinstance(label, Mapping):
                raise LabelError(
                    f"y holds {label!r:.40} as a label; labels are strings or numbers, or sets of these."
                ) from None
            seen.update(label if isinstance(label, _OPTIONS) else [label])
    for options in [label for label in seen if isinstance(label, _OPTIONS)]:
        seen.discard(options)
        seen.update(options)
    seen.discard(None)
    for label in seen:
        if isinstance(label, float) and label != label:
            raise LabelError("y holds NaN as a label; write None for an unknown label.")
        if isinstance(label, int) and abs(label) >= _LARGEST:
            raise LabelError(f"y holds a whole number beyond {_LARGEST} as a label; write it as a string.")
    return seen


def _check_all_seen(classes: Sequence[Hashable], seen: set) -> None:
    for label in classes:
        if label not in seen:
            raise LabelError(
                f"label {label!r} never occurs in y, so nothing can be learned about it"
                f"{nearest(label, seen)}; leave it out of the label set, or add examples."
            )


def _shown(classes: Sequence[Any], most: int = 12) -> str:
    text = ", ".join(map(str, classes[:most]))
    return text if len(classes) <= most else f"{text}, ... ({len(classes)} in all)"


def place(labels: Labels, token: int) -> tuple[int, int]:
    """Sequence and position of a token number."""
    sequence = int(np.searchsorted(offsets_of(labels.lengths), token, side="right")) - 1
    return sequence, token - int(labels.offsets[sequence])


def check_possible(
    labels: Labels, names: Sequence[str], scheme: str | None, masks: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> None:
    """Refuse gold labels that the scheme makes impossible (their likelihood would be 0).

    Parameters
    ----------
    labels : Labels
        Where it is partial, a sequence is refused when no choice of the unknown labels is possible.
    names : sequence of str, length n_labels
    scheme : str or None
    masks : tuple
        ``allowed_transitions(names, scheme)``, perhaps with further steps forbidden.
    """
    allowed, start, end = masks
    if allowed.all() and start.all() and end.all():
        return
    where = f"under scheme {as_scheme(scheme).value}"
    ids, filled = labels.ids, labels.lengths > 0
    heads, tails = labels.offsets[:-1][filled], labels.offsets[1:][filled] - 1
    for tokens, mask, word in ((heads, start, "begin"), (tails, end, "end")):
        known = tokens[ids[tokens] >= 0]
        bad = known[~mask[ids[known]]]
        if len(bad):
            i, t = place(labels, int(bad[0]))
            raise LabelError(
                f"sequence {i}, token {t}: {names[ids[bad[0]]]!r} cannot {word} a sequence {where}{_ADVICE}"
            )
    pairs = np.ones(max(len(ids) - 1, 0), dtype=bool)
    pairs[heads[heads > 0] - 1] = False
    pairs &= (ids[:-1] >= 0) & (ids[1:] >= 0)
    left = np.flatnonzero(pairs)
    bad = left[~allowed[ids[left], ids[left + 1]]]
    if len(bad):
        i, t = place(labels, int(bad[0]) + 1)
        step = f"{names[ids[bad[0] + 1]]!r} after {names[ids[bad[0]]]!r}"
        raise LabelError(f"sequence {i}, token {t}: {step} is impossible {where}{_ADVICE}")
    if labels.allowed is not None:
        _check_partial(labels, masks, where)


_ADVICE = "; correct the labels, convert them (rulefield.encode.spans.convert), or use scheme=None."


def _check_partial(labels: Labels, masks: tuple[np.ndarray, np.ndarray, np.ndarray], where: str) -> None:
    allowed, start, end = masks
    assert labels.allowed is not None
    options = labels.allowed.astype(bool)
    for i in np.flatnonzero(labels.lengths > 0):
        first, last = labels.offsets[i], labels.offsets[i + 1]
        if (labels.ids[first:last] >= 0).all():
            continue
        reach = options[first] & start
        for row in range(first + 1, last):
            if not reach.any():
                break
            reach = options[row] & allowed[reach].any(axis=0)
        else:
            row = last
            reach = reach & end
        if not reach.any():
            token = min(row, last) - 1 - first
            raise LabelError(
                f"sequence {i}: whatever the unknown labels are, no labeling up to token {token} is possible "
                f"{where}{_ADVICE}"
            )
