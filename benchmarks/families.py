"""Families of rules on one train/test split: what the Cora and US50 benchmarks share."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import t as student

from rulefield import ChainCRF, RuledCRF
from rulefield.estimators.ruled import cross_fit
from rulefield.rules import propose
from rulefield.rules.mine import mine_table
from rulefield.rules.rule import LEARN

ALL = "all rules"


def plain(labels: Sequence[str]) -> list[str]:
    """Labels without their B- and I-."""
    return [label.split("-", 1)[-1] if label[:2] in ("B-", "I-") else label for label in labels]


def accuracy(X, gold: Sequence[Sequence[str]], guess: Sequence[Sequence[str]], left_out: Sequence[str] = ()) -> float:
    """Share of tokens with the right label, prefixes left aside (as the paper counts), but for tokens ``left_out``."""
    right = [
        a == b
        for x, g, p in zip(X, gold, guess)
        for token, a, b in zip(x, plain(g), plain(p))
        if token not in left_out
    ]
    return float(np.mean(right))


def family_candidates(X, y, scheme: str, labels: Sequence[str]) -> dict[str, list]:
    """Candidate rules by family: the five mined ones, counts by template, and all together."""
    families: dict[str, list] = {}
    for row in mine_table(X, y, scheme=scheme):
        families.setdefault(row.family, []).append(row.rule.soft(LEARN).named(row.rule.label))
    families["counts"] = propose(y, scheme=scheme, labels=labels)
    families[ALL] = [rule for name in list(families) for rule in families[name]]
    return families


def evaluate(
    crf: ChainCRF, X, y, X_test, y_test, candidates: Callable, jobs: int, seed: int, left_out: Sequence[str] = ()
) -> dict[str, float]:
    """Test accuracy of the chain, of each family of learned rules, and of all."""
    fitted = cross_fit(crf, X, y, cv=5, random_state=seed)
    found = {"chain": accuracy(X_test, y_test, fitted.crf.predict(X_test), left_out)}
    for name, rules in candidates(X, y, crf.scheme, [str(c) for c in fitted.crf.classes_]).items():
        ruled = RuledCRF(fitted, rules, epochs=8, rate=0.1, cutoff=1.5, random_state=seed, n_jobs=jobs)
        found[name] = accuracy(X_test, y_test, ruled.fit(X, y).predict(X_test), left_out)
    return found


def interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean (Student)."""
    half = (
        student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    )
    return float(values.mean() - half), float(values.mean() + half)
