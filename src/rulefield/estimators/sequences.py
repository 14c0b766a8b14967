"""Rows in and rows out of sequence estimators: checks of what users give, lists of labels for what they get."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from rulefield.data.scored import Scored, is_scored
from rulefield.data.sequences import Labels, Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.types import ArrayLike, KnownLike, Label, LabelsLike, SequencesLike
from rulefield.exceptions import InputError, LabelError
from rulefield.models.pairs import label_masks


def check_some_tokens(X: SequencesLike) -> None:
    """Refuse data without a single token."""
    if isinstance(X, Sequences):
        some = X.n_tokens > 0
    else:
        some = not isinstance(X, (list, tuple)) or any(not hasattr(x, "__len__") or len(x) for x in X)
    if not some:
        raise InputError("X holds no token to learn from; give at least one sequence with at least one token.")


def object_array(rows: list[Any]) -> np.ndarray:
    """1-D object array of lists whatever their lengths (numpy would make equal ones 2-D)."""
    out = np.empty(len(rows), dtype=object)
    out[:] = [None] * len(rows)
    for i, row in enumerate(rows):
        out[i] = row
    return out


def label_names(y: LabelsLike, initial: Label | None, X: SequencesLike = ()) -> LabelEncoder:
    """Labels that occur in ``y``, the initial one, and those that scores from elsewhere are about."""
    names = LabelEncoder().fit(y)
    scored: Any = X if is_scored(X) else ()
    more = {label for x in scored if isinstance(x, Scored) for label in x.labels or ()}
    more = (more if initial is None else more | {initial}) - set(names.classes_)
    if not more:
        return names
    return names.set_classes(sorted([*names.classes_, *more], key=lambda label: (type(label).__name__, label)))


def encode_labels(names: LabelEncoder, y: LabelsLike, data: Sequences) -> Labels:
    """Return labels by number; refuse empty sequences."""
    if len(data.empty):
        raise InputError(f"sequence {int(data.empty[0])} of X has no tokens; leave empty sequences out of fit.")
    return names.encode(y, data.lengths)


def check_scores(data: Sequences, labels: Labels, expectations: bool = False) -> None:
    """Refuse scores from elsewhere that a learner cannot use, or that forbid the labels of a token."""
    if data.scores is None:
        return
    if expectations:
        raise InputError("scores from elsewhere (rf.Scored) do not go with expectations; leave one of them out.")
    open_labels = np.where(label_masks(labels), data.scores, -np.inf)
    if len(open_labels) and (open_labels.max(axis=1) == -np.inf).any():
        token = int(np.flatnonzero(open_labels.max(axis=1) == -np.inf)[0])
        sequence = int(np.searchsorted(data.offsets, token, side="right")) - 1
        raise InputError(
            f"the scores of sequence {sequence} forbid (-inf) the label of token {token - int(data.offsets[sequence])}; "
            "give it a finite score."
        )


def label_lists(names: LabelEncoder, ids: np.ndarray, lengths: np.ndarray) -> list[list[Any]]:
    """Label numbers of all tokens (n_tokens,) as one list of labels per sequence."""
    flat = names.decode(ids)
    stops = np.cumsum(lengths).tolist()
    return [flat[stop - n : stop] for stop, n in zip(stops, lengths.tolist())]


def whole_rows(known: KnownLike, lengths: np.ndarray) -> list[Any]:
    """Return labels known beforehand with None for every token of a sequence of which nothing is known."""
    if len(known) != len(lengths):
        raise LabelError(f"known must have one entry per sequence; got {len(known)} for {len(lengths)} sequences.")
    return [[None] * int(n) if row is None else row for row, n in zip(known, lengths)]


def possible_labels(names: LabelEncoder, known: KnownLike, lengths: np.ndarray) -> np.ndarray:
    """Return which labels are possible at each token given those known beforehand, uint8 (n_tokens, n_labels)."""
    labels = names.encode(whole_rows(known, lengths), lengths)
    if labels.allowed is not None:
        return labels.allowed
    return (labels.ids[:, None] == np.arange(labels.n_labels)).astype(np.uint8)


def checked_output(output: str) -> None:
    """Refuse a form of probabilities that there is not."""
    if output not in ("dict", "array"):
        raise InputError(f"output must be 'dict' or 'array'; got {output!r}.")


def in_form(output: str, tables: list[Any], classes: Any) -> list[Any]:
    """Return probabilities of each sequence (n_tokens, n_classes) as they are, or as {class: probability} per token.

    With several tasks both are dicts by task.
    """
    if output == "array":
        return tables
    if isinstance(classes, dict):
        return [{task: in_form(output, [own], classes[task])[0] for task, own in table.items()} for table in tables]
    return [[dict(zip(classes, row)) for row in table.tolist()] for table in tables]


def refuse_weights(sample_weight: ArrayLike | None) -> None:
    """Refuse weights where spans of all sequences are counted together."""
    if sample_weight is not None:
        raise InputError("score() counts spans over all sequences and takes no sample_weight; leave it out.")


def places_of(old: Iterable[Any], new: Iterable[Any]) -> np.ndarray:
    """Place of each old name among the new ones; -1 where it is gone."""
    index = {name: i for i, name in enumerate(new)}
    return np.array([index.get(name, -1) for name in old], dtype=np.int64)


def checked_weights(sample_weight: ArrayLike | None, n: int) -> np.ndarray | None:
    """Return weights of n sequences as float64, or refuse them with a sentence."""
    if sample_weight is None:
        return None
    try:
        weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"sample_weight must be one number per sequence; got a {type(sample_weight).__name__} of other things."
        ) from None
    if weight.shape != (n,):
        raise InputError(f"sample_weight must have one weight for each of {n} sequences; got shape {weight.shape}.")
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise InputError("sample_weight must be finite, not negative, and not all zero.")
    return weight
