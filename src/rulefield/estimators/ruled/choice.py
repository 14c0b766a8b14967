"""Which rules to predict under, hard or soft and how expensive: chosen on samples that the model did not see."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from rulefield.estimators.parameters import rule_list
from rulefield.estimators.types import RulesLike
from rulefield.exceptions import InputError
from rulefield.learning.rule_weights.residual import in_errors
from rulefield.rules.rule import Rule

Splits = Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class RuleChoice:
    """What :func:`choose_rules` chose: the name of a candidate, and its rules.

    ``scores`` are held-out scores of all candidates: means over groups, each counted by its samples.
    """

    name: str
    rules: list[Rule]
    scores: dict[str, float]


def choose_rules(
    estimator: Any,
    X: Any,
    y: Any,
    candidates: Mapping[str, RulesLike],
    *,
    groups: Sequence[Any] | np.ndarray | None = None,
    cv: int | Splits = 3,
) -> RuleChoice:
    """Choose between lists of rules by their score on samples that were not learned from.

    A model is fitted once per fold and predicts under every candidate, so that many candidates cost little more than
    one. The first candidate is what others must beat (an empty list, where rules might not help at all): the best of
    those is taken whose gain over it, summed over held-out groups, is above its standard error, so that one strange sample
    does not decide.

    Parameters
    ----------
    estimator : estimator with ``fit(X, y)`` and ``score(X, y, rules=...)``
        It is copied, never fitted itself.
    X, y : as in the estimator's ``fit``
    candidates : dict of name to list of rules
    groups : array-like of shape (n_samples,), optional
        Samples that belong together (pages of a book) are never split, and are scored together; without it each is alone.
    cv : int, or iterable of (train, test) indices, default 3
        Folds.

    Examples
    --------
    >>> import rulefield as rf
    >>> from rulefield import rules as r
    >>> X = [[["a"], ["a"], ["b"]]] * 6
    >>> y = [["x", "y", "y"]] * 5 + [["y", "y", "y"]]
    >>> once = r.count("x") <= 1
    >>> rf.choose_rules(rf.ChainCRF(), X, y, {"none": [], "soft": [once.soft(1.0)], "hard": [once]}).name
    'none'
    """
    if not isinstance(candidates, Mapping) or not candidates:
        raise InputError(f"candidates must be a dict of names to lists of rules; got {candidates!r:.60}.")
    if groups is not None and len(groups) != len(y):
        raise InputError(f"groups must hold one entry for each of {len(y)} samples; got {len(groups)}.")
    takes_groups = groups is not None and "groups" in signature(clone(estimator).fit).parameters
    splits: Any = cv
    if isinstance(cv, int):
        splits = (KFold(cv) if groups is None else GroupKFold(cv)).split(np.zeros(len(y)), groups=groups)
    groups = np.arange(len(y)) if groups is None else np.asarray(groups)
    scores: list[list[float]] = []
    size: list[int] = []
    for train, held in splits:
        more = {"groups": groups[train]} if takes_groups else {}
        model = clone(estimator).fit(_taken(X, train), _taken(y, train), **more)
        for group in dict.fromkeys(groups[held].tolist()):
            members = [i for i in held if groups[i] == group]
            some, truth = _taken(X, members), _taken(y, members)
            scores.append([model.score(some, truth, rules=rule_list(rules)) for rules in candidates.values()])
            size.append(len(members))
    return _chosen(candidates, np.array(scores), np.array(size))


def _chosen(candidates: Mapping[str, RulesLike], scores: np.ndarray, size: np.ndarray) -> RuleChoice:
    """Choose by the scores (groups, candidates) of groups of so many samples."""
    names = list(candidates)
    means = (size @ scores / size.sum()).tolist()
    gains = size[:, None] * (scores - scores[:, :1])
    better = [k for k in range(len(names)) if in_errors(gains[:, k]) > 1.0]
    best = max(better, key=lambda k: means[k], default=0)
    return RuleChoice(names[best], rule_list(candidates[names[best]]), dict(zip(names, means)))


def _taken(values: Any, chosen: Any) -> Any:
    return values[chosen] if hasattr(values, "shape") else [values[i] for i in chosen]
