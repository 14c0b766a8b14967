"""Which rules to predict under, hard or soft and how dear: chosen on samples that the model did not see."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from rulefield.exceptions import InputError
from rulefield.rules.rule import Rule

Splits = Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class RuleChoice:
    """What :func:`choose_rules` found.

    Parameters
    ----------
    name : str
        The best candidate.
    rules : list of Rule
        Its rules.
    scores : dict of str to float
        Held-out score of every candidate.
    """

    name: str
    rules: list[Rule]
    scores: dict[str, float]


def choose_rules(
    estimator: Any,
    X: Any,
    y: Any,
    candidates: Mapping[str, Sequence[Rule]],
    *,
    groups: Sequence[Any] | np.ndarray | None = None,
    cv: int | Splits = 3,
) -> RuleChoice:
    """Choose between lists of rules by their score on samples that were not learned from.

    A model is fitted once per fold and predicts under every candidate, so that many candidates cost little more than
    one. Give an empty list among them where rules might not help at all; of equals the first is taken.

    Parameters
    ----------
    estimator : estimator with ``fit(X, y)`` and ``score(X, y, rules=...)``
        It is copied, never fitted itself.
    X, y : as in the estimator's ``fit``
    candidates : dict of name to list of rules
    groups : array-like of shape (n_samples,), optional
        Samples that belong together (pages of a book) are never split.
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
    if not isinstance(cv, int):
        splits: Splits = cv
    elif groups is None:
        splits = KFold(cv).split(np.zeros(len(y)))
    else:
        splits = GroupKFold(cv).split(np.zeros(len(y)), groups=groups)
    total, n_held = dict.fromkeys(candidates, 0.0), 0
    for train, held in splits:
        model = clone(estimator)
        takes_groups = groups is not None and "groups" in signature(model.fit).parameters
        more = {"groups": _taken(groups, train)} if takes_groups else {}
        model.fit(_taken(X, train), _taken(y, train), **more)
        for name, rules in candidates.items():
            total[name] += len(held) * model.score(_taken(X, held), _taken(y, held), rules=list(rules))
        n_held += len(held)
    scores = {name: value / n_held for name, value in total.items()}
    best = max(scores, key=lambda name: scores[name])
    return RuleChoice(best, list(candidates[best]), scores)


def _taken(values: Any, chosen: Any) -> Any:
    return values[chosen] if hasattr(values, "shape") else [values[i] for i in chosen]
