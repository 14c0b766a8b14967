"""Families of rules on one train/test split: what the Cora, US50, advertisement and CoNLL-2003 benchmarks share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import t as student

from rulefield import RuledCRF
from rulefield.estimators.ruled.held_out import CrossFitted
from rulefield.rules import propose
from rulefield.rules.finding.mine import FAMILIES, TOKEN_CLASS, mine_table
from rulefield.rules.rule import LEARN

ALL, FIVE, CHAIN, SEGMENT = "all rules", "the paper's five", "chain", "SegmentCRF"

RULES = (*FAMILIES, TOKEN_CLASS)


def plain(labels: Sequence[str]) -> list[str]:
    """Labels without their prefixes."""
    return [label.split("-", 1)[-1] for label in labels]


def accuracy(X, gold: Sequence[Sequence[str]], guess: Sequence[Sequence[str]], left_out: Sequence[str] = ()) -> float:
    """Share of tokens with the right label, prefixes left aside (as the paper counts), but for tokens ``left_out``."""
    right = [
        a == b
        for x, g, p in zip(X, gold, guess)
        for token, a, b in zip(x, plain(g), plain(p))
        if token not in left_out
    ]
    return float(np.mean(right))


def mined_families(X, y, scheme: str, labels: Sequence[str], **options: Any) -> dict[str, list]:
    """Mined rules by family, at the prices of eq. 30: the paper's five, token classes, the five together, and all."""
    families: dict[str, list] = {name: [] for name in RULES}
    for row in mine_table(X, y, scheme=scheme, labels=labels, families=RULES, **options):
        families[row.family].append(row.rule)
    five = [rule for name in FAMILIES for rule in families[name]]
    return families | {FIVE: five, ALL: five + families[TOKEN_CLASS]}


def family_candidates(X, y, scheme: str, labels: Sequence[str]) -> dict[str, list]:
    """Candidates to learn weights for: mined families, counts by template ([Anzaroot14]), and all together."""
    mined = mined_families(X, y, scheme, labels, min_confidence=0.5)
    families = {name: [rule.soft(LEARN).named(rule.label) for rule in rules] for name, rules in mined.items()}
    everything = families.pop(ALL)
    families["counts"] = propose(y, scheme=scheme, labels=labels, min_share=0.9)
    return families | {ALL: everything + families["counts"]}


def learned_predictions(fitted: CrossFitted, X, y, X_test, jobs: int, seed: int) -> dict[str, Sequence[list[str]]]:
    """What the chain, each family of learned rules, and all of them predict."""
    found = {CHAIN: fitted.crf.predict(X_test)}
    for name, rules in family_candidates(X, y, fitted.crf.scheme, [str(c) for c in fitted.crf.classes_]).items():
        ruled = RuledCRF(fitted, rules=rules, random_state=seed, n_jobs=jobs)
        found[name] = ruled.fit(X, y).predict(X_test)
    return found


def interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean (Student)."""
    half = (
        student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    )
    return float(values.mean() - half), float(values.mean() + half)


def print_table(runs: dict[str, list[float]], what: str) -> None:
    """Mean and spread of each row over the splits, and its paired gain over the chain with a 95 % interval."""
    print(f"{what}, mean (standard deviation) over {len(runs[CHAIN])} splits, and paired gain over the chain")
    for name, values in runs.items():
        gain = np.array(values) - np.array(runs[CHAIN])
        low, high = interval(gain)
        print(
            f"  {name:16s} {np.mean(values):6.2f} ({np.std(values):.2f})"
            + (f"   {gain.mean():+.2f} [{low:+.2f}, {high:+.2f}]" if name != CHAIN else "")
        )


def figures(runs: dict[str, list[float]]) -> dict[str, float]:
    """Figures for the record."""
    gain = np.array(runs[ALL]) - np.array(runs[CHAIN])
    found = {
        "chain_accuracy": np.mean(runs[CHAIN]),
        "all_rules_accuracy": np.mean(runs[ALL]),
        "gain_over_chain": gain.mean(),
        "gain_low": interval(gain)[0],
        "segment_crf_accuracy": np.mean(runs.get(SEGMENT, [np.nan])),
    }
    return {key: round(float(value), 4) for key, value in found.items()}
