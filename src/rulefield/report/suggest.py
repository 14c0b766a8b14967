"""What to label next: sequences that the model is least sure of, unlike each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.report.certainty import certainty, check_sequence_model
from rulefield.report.marks import word_of
from rulefield.report.study import acting_rules, relaxed

SHORTLIST = 8
"""Candidates per wanted sequence among which unlike ones are chosen."""


@dataclass(frozen=True)
class Suggestion:
    """A sequence worth labeling: its place in the pool, what the model would say, and the probability of each label.

    ``doubt`` is -log of the labeling's probability over the root of its length, plus what it pays for broken rules.
    """

    index: int
    doubt: float
    labeling: Any
    probabilities: np.ndarray


def suggest(model: Any, X: Any, n: int = 25, *, rules: Any = None, diversity: float = 0.5) -> list[Suggestion]:
    r"""Choose the sequences of a pool that a person should label next.

    Greedy: each choice has the most of doubt x (1 - diversity x likeness), where likeness is the largest cosine between its
    words (tf-idf) and those of the sequences chosen before.

    Parameters
    ----------
    model : ChainCRF, RuledCRF, SegmentCRF or TextParser, fitted
    X : sequences (of a TextParser: texts) without labels
    n : int
        How many.
    rules : list of rules, optional
        In place of the model's own. Labelings that break them are doubtful.
    diversity : float from 0 to 1
        0: the least certain, however alike.

    Returns
    -------
    list of Suggestion
        In the order of choice.

    Examples
    --------
    >>> import rulefield as rf
    >>> X, y = rf.datasets.make_citations(80, seed=0)
    >>> crf = rf.ChainCRF(scheme="BIO").fit(X[:20], y[:20])
    >>> chosen = rf.suggest(crf, X[20:], n=5)
    >>> len({s.index for s in chosen})
    5
    """
    if not 0 <= diversity <= 1 or n < 1:
        raise InputError(f"n must be at least 1 and diversity between 0 and 1; got n={n}, diversity={diversity}.")
    if getattr(model, "_kind", None) == "text":
        X, model = model.tokens(X), model.model_
    check_sequence_model(model)
    model, X = relaxed(model), list(X)
    rows = [i for i, x in enumerate(X) if len(x)]
    pool = [X[i] for i in rows]
    if not pool:
        return []
    acting = acting_rules(model, rules)
    labelings = model.decode(pool, rules=acting)
    sure = certainty(model, pool, [labeling.labels for labeling in labelings], acting)
    length = np.sqrt([len(x) for x in pool])
    paid = np.array([min(sum(b.cost for b in labeling.broken), 100.0) for labeling in labelings])
    doubt = sure.doubt + paid / length
    picked = spread(pool, doubt, n, diversity)
    return [Suggestion(rows[k], float(doubt[k]), labelings[k], sure.tokens[k]) for k in picked]


def spread(pool: Sequence[Any], worth: np.ndarray, n: int, diversity: float) -> list[int]:
    """Choose ``n`` by worth, each unlike those before it; O(shortlist x n) cosines."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    first = np.argsort(-worth, kind="stable")[: SHORTLIST * n]
    if diversity == 0 or len(first) <= 1:
        return first[:n].tolist()
    words = [[word_of(token).lower() for token in pool[i]] for i in first]
    vectors = TfidfVectorizer(analyzer=lambda row: row).fit_transform(words)
    like, left, chosen = np.zeros(len(first)), np.ones(len(first), dtype=bool), []
    for _ in range(min(n, len(first))):
        k = int(np.where(left, worth[first] * (1 - diversity * like), -np.inf).argmax())
        chosen.append(int(first[k]))
        left[k] = False
        like = np.maximum(like, (vectors @ vectors[k].T).toarray().ravel())
    return chosen
