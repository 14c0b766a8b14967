"""Scores of any other model, decoded under rules: best labelings with certificates, probabilities, k best."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from rulefield.data.scored import check_magnitude, checked_scores
from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.base import Batch
from rulefield.estimators.chain.answers import ChainAnswers
from rulefield.estimators.chain.decoding import over_chunks
from rulefield.estimators.parameters import ON_INFEASIBLE, check_call, check_value, rule_list
from rulefield.estimators.sequences import possible_labels
from rulefield.estimators.types import KnownLike, RulesLike
from rulefield.exceptions import InputError, callers_level
from rulefield.inference.sequences.exact import clamp
from rulefield.parallel import n_threads
from rulefield.problem.chain import ChainPotentials

T = TypeVar("T")


class ScoreTables:
    """Potentials that were computed elsewhere; what :class:`ChainAnswers` asks of a chain."""

    def __init__(
        self, tables: Sequence[np.ndarray], pairwise: np.ndarray, ends: tuple[np.ndarray, np.ndarray], n_jobs: int
    ):
        self.tables, self.pairwise, self.ends, self.n_jobs = tables, pairwise, ends, n_jobs

    def potentials(self, data: Sequences, i: int, allowed: np.ndarray | None = None) -> ChainPotentials:
        """Potentials of one sequence; the scheme forbids what may not begin or end it."""
        unary = self.tables[i].copy()
        if len(unary):
            start, end = self.ends
            unary[0, ~start], unary[-1, ~end] = -np.inf, -np.inf
        own = None if allowed is None else allowed[data.offsets[i] : data.offsets[i + 1]]
        return clamp(ChainPotentials(unary, self.pairwise), own)

    def scores(
        self, data: Sequences, allowed: np.ndarray | None, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unary scores, transition scores and offsets of sequences ``first`` to ``last``."""
        rows = [self.potentials(data, i, allowed).unary for i in range(first, last)]
        return np.concatenate(rows), self.pairwise, data.offsets[first : last + 1] - data.offsets[first]

    def over_chunks(self, data: Sequences, work: Callable[[int, int], T], most_scores: int) -> list[T]:
        """Work on ranges of sequences with about so many scores at the most, in threads."""
        return over_chunks(data, len(self.pairwise), work, most_scores, self.n_jobs)


def decode_scores(
    scores: Sequence[np.ndarray],
    labels: Sequence[Any],
    *,
    tokens: Sequence[Sequence[Any]] | None = None,
    transitions: np.ndarray | None = None,
    scheme: str | None = None,
    rules: RulesLike | None = None,
    known: KnownLike | None = None,
    on_infeasible: str = "raise",
    probability: bool = False,
    k: int | None = None,
    n_jobs: int | None = None,
) -> list[Any]:
    """Find the best labelings under rules for the scores of any model: a transformer, GLiNER, spaCy, your own.

    Parameters
    ----------
    scores : list of arrays of shape (n_tokens, n_labels)
        Log-scores of labels, such as the logits of a token classifier, one array per sequence; ``-inf`` forbids.
    labels : sequence of length n_labels
        What the columns mean.
    tokens : list of sequences of tokens, optional
        For rules about tokens, one list per sequence.
    transitions : array of shape (n_labels, n_labels), optional
        Log-scores of steps [from, to]; 0 by default.
    scheme : str, optional
        Label scheme: what it forbids is forbidden.
    rules, known : as in :meth:`ChainCRF.predict`
    on_infeasible : {"raise", "relax"}
        Raise where hard rules contradict each other, or break them as little as possible.
    probability : bool
        Whether to work out the probability of each labeling among all that obey the hard rules.
    k : int, optional
        Return for each sequence the k best labelings and their probabilities instead, as ``predict_kbest`` does.
    n_jobs : int, optional
        Threads; the result is the same for any number.

    Returns
    -------
    list of Labeling
        Labels, score, objective, bound, status and broken rules of each sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from rulefield import decode_scores
    >>> from rulefield import rules as r
    >>> logits = np.array([[0.0, 2.0, 0.0], [0.0, 1.9, 1.8]])
    >>> decode_scores([logits], ["O", "B-total", "I-total"], scheme="BIO")[0].labels
    ['B-total', 'B-total']
    >>> decode_scores([logits], ["O", "B-total", "I-total"], scheme="BIO", rules=[r.segments("total") <= 1])[0].labels
    ['B-total', 'I-total']
    """
    names = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if not names or len(set(names)) != len(names):
        raise InputError(f"labels must name each column of the scores once; got {names!r:.60}.")
    check_value("on_infeasible", on_infeasible, ON_INFEASIBLE)
    if k is not None:
        check_call(k=k)
    tables = [checked_scores(table, f"scores[{i}]", len(names)) for i, table in enumerate(scores)]
    _warn_of_probabilities(tables)
    lengths = np.array([len(table) for table in tables], dtype=np.int64)
    words = [[f"token {t}" for t in range(n)] for n in lengths] if tokens is None else [list(row) for row in tokens]
    if len(words) != len(tables) or any(len(row) != n for row, n in zip(words, lengths)):
        raise InputError("tokens must be one list per array of scores, with one token per row.")
    allowed, *ends = allowed_transitions([str(name) for name in names], scheme)
    source = ScoreTables(tables, _pairwise(transitions, allowed), (ends[0], ends[1]), n_threads(n_jobs))
    answers = ChainAnswers(source, names, scheme, rule_list(rules), on_infeasible == "relax", source.n_jobs)
    batch = Batch(words, Sequences(np.zeros((int(lengths.sum()), 0)), lengths))
    if known is not None:
        batch.allowed = possible_labels(LabelEncoder().set_classes(names), known, lengths)
    return answers.labelings(batch, probability=probability) if k is None else answers.kbest(batch, k)


def _warn_of_probabilities(tables: list[np.ndarray]) -> None:
    """Warn if all rows are probabilities: scores add up over tokens, so logarithms are meant."""
    rows = [table for table in tables if table.size and table.shape[1] > 1]
    if rows and all((table >= 0).all() and np.allclose(table.sum(axis=1), 1.0, atol=1e-5) for table in rows):
        warnings.warn(
            "the scores look like probabilities (each row is positive and sums to 1), but log-scores are expected; "
            "give np.log(scores).",
            UserWarning,
            stacklevel=callers_level(),
        )


def _pairwise(transitions: Any, allowed: np.ndarray) -> np.ndarray:
    made = np.zeros(allowed.shape) if transitions is None else np.array(transitions, dtype=np.float64)
    if made.shape != allowed.shape:
        raise InputError(f"transitions must have shape {allowed.shape} [from, to]; got {made.shape}.")
    check_magnitude(made, "transitions")
    return np.where(allowed, made, -np.inf)
