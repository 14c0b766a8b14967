"""Tokens of one sequence with scores of their labels that another model gave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.exceptions import InputError

LARGEST_SCORE = 1e100
"""Largest magnitude of a score, as of the weight of a rule."""


@dataclass(frozen=True, eq=False)
class Scored(Sequence[Any]):
    """One sequence of tokens beside log-scores of their labels: logits of a transformer, say.

    A chain adds the scores to those of its own features, with weight 1: what it learns (transitions, features of the tokens,
    weights of rules) is learned on top of a model that stays as it is.

    Parameters
    ----------
    tokens : sequence
        As chains take them: strings, feature dicts, lists of feature strings, or a matrix (n, n_features).
    scores : array of shape (n, n_labels)
        ``-inf`` forbids a label.
    labels : sequence of length n_labels, optional
        What the columns mean. They join the labels of the model, in any order. Without them, columns are those of the
        model's ``classes_``.

    Examples
    --------
    >>> from rulefield import ChainCRF, Scored
    >>> logits = [[2.0, 0.0], [0.2, 0.0], [0.0, 3.0]]
    >>> x = Scored(["Ada", "Lovelace", "1843"], logits, labels=["name", "year"])
    >>> ChainCRF().fit([x], [["name", "name", "year"]]).predict([x])[0]
    ['name', 'name', 'year']
    """

    tokens: Any
    scores: np.ndarray
    labels: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        scores = checked_scores(self.scores, "scores", None if self.labels is None else len(self.labels))
        if len(scores) != (n := len(self)):
            raise InputError(f"scores must have one row per token; got {len(scores)} rows for {n} tokens.")
        if self.labels is not None and len(set(self.labels)) != len(self.labels):
            raise InputError("labels must name each column of the scores once; a name occurs twice.")
        object.__setattr__(self, "scores", scores)

    def __len__(self) -> int:
        return int(self.tokens.shape[0]) if hasattr(self.tokens, "shape") else len(self.tokens)

    def __getitem__(self, place: Any) -> Any:
        return self.tokens[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tokens)

    def columns(self, classes: Sequence[Any]) -> np.ndarray:
        """Scores of the labels ``classes``, in their order, (n, len(classes))."""
        if self.labels is None:
            if self.scores.shape[1] != len(classes):
                raise InputError(
                    f"scores have {self.scores.shape[1]} columns, but the model has {len(classes)} labels; say what the "
                    "columns mean: rf.Scored(tokens, scores, labels=[...])."
                )
            return self.scores
        place = {label: j for j, label in enumerate(self.labels)}
        missing = [label for label in classes if label not in place]
        if missing:
            raise InputError(
                f"scores have no column for label {missing[0]!r} of the model; add one (zeros where nothing is known)."
            )
        return self.scores[:, [place[label] for label in classes]]


def checked_scores(scores: Any, name: str, n_labels: int | None = None) -> np.ndarray:
    """Return log-scores as float64 of shape (n_tokens, n_labels), or say what is wrong with them."""
    try:
        made = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers that doubles can hold ({error}).") from None
    if made.size == 0:
        made = made.reshape(0, n_labels or 0)
    if made.ndim != 2 or (n_labels is not None and made.shape[1] != n_labels):
        wanted = "n_labels" if n_labels is None else n_labels
        raise InputError(f"{name} must have shape (n_tokens, {wanted}), one column per label; got {made.shape}.")
    check_magnitude(made, name)
    return made


def check_magnitude(scores: np.ndarray, name: str) -> None:
    """Refuse log-scores that cannot be summed."""
    if np.isnan(scores).any() or (scores == np.inf).any():
        raise InputError(f"{name} holds NaN or +inf; log-scores are finite, or -inf where a label is forbidden.")
    if (np.abs(scores) > LARGEST_SCORE).any() and (np.abs(scores[scores != -np.inf]) > LARGEST_SCORE).any():
        raise InputError(f"{name} holds a number beyond {LARGEST_SCORE:g}, whose sums overflow; scale the scores.")


def is_scored(X: Any) -> bool:
    """Whether the sequences of ``X`` carry scores; some with and some without are an error."""
    if not isinstance(X, (list, tuple, np.ndarray)):
        return False
    having = sum(isinstance(x, Scored) for x in X)
    if 0 < having < len(X):
        raise InputError(
            f"{having} of {len(X)} sequences carry scores (rf.Scored); give all of them scores, or none."
        )
    return having > 0
