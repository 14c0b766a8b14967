"""Candidate rules that held-out sequences show: found once, and told apart by the folds that show them too."""

from dataclasses import dataclass

import numpy as np

from rulefield.estimators.ruled.held_out import CrossFitted
from rulefield.rules.finding.mine import ASKED_FOR, FAMILIES, mine_parts
from rulefield.rules.finding.observed import Observed, Parts
from rulefield.rules.finding.propose import COUNTS, LENGTH, proposals
from rulefield.rules.rule import LEARN, Rule
from rulefield.rules.tokens import have_texts

STATE_CHANGE = "state change"
"""The family of mined rules that is not tried: two labels around a delimiter ask for a matrix of steps at each token, which
takes most of the time of decoding, and held-out labels were as likely without it."""
MIN_LENGTH_SHARE = 0.8
"""Share of sequences in which a rule about the number of tokens must hold. One that is broken more often is broken by many
predictions, too, so that decoding searches long; on held-out citations and names of companies the others were worth about
as much without it."""


@dataclass(frozen=True)
class Candidates:
    """Rules to weigh.

    Parameters
    ----------
    rules : list of Rule
    groups : ndarray of bool, shape (1 + n_folds, n_rules)
        Whether each was found in all sequences, and in those that each fold learns from.
    found : bool
        Whether they were found in data, and not written by the user.
    """

    rules: list[Rule]
    groups: np.ndarray
    found: bool

    @classmethod
    def written(cls, rules: list[Rule], n_folds: int) -> "Candidates":
        """Rules that the user wrote: every fold tries them."""
        return cls(rules, np.ones((1 + n_folds, len(rules)), dtype=bool), found=False)


def find_candidates(held: CrossFitted, kind: str, folds: list[np.ndarray]) -> Candidates:
    """Find rules by template ("propose"), in labeled sequences ("mine"), or both ("find").

    ``folds`` are the sequences that rules are learned from when others judge them: a rule that holds often enough in all
    sequences, but not in these, is no candidate there.
    """
    tokens = [example.tokens for example in held.examples]
    texts = have_texts(tokens)
    data = Observed(
        held.family.words,
        [held.family.in_words(example.gold) for example in held.examples],
        tokens if texts else [len(some) for some in tokens],
    )
    parts = _parts(len(tokens), folds)
    pairs: list[tuple[Rule, np.ndarray]] = []
    if kind in ("find", "propose"):
        pairs += proposals(data, parts, COUNTS)
        pairs += proposals(data, parts, (LENGTH,), MIN_LENGTH_SHARE)
    if kind in ("find", "mine"):
        families = [name for name in (*FAMILIES, *(ASKED_FOR if texts else ())) if name != STATE_CHANGE]
        pairs += [(found.rule.soft(LEARN), np.array(found.groups)) for found in mine_parts(data, parts, families)]
    groups = np.array([mask for _, mask in pairs], dtype=bool).reshape(len(pairs), 1 + len(folds)).T
    return Candidates([rule for rule, _ in pairs], groups, found=True)


def _parts(n: int, folds: list[np.ndarray]) -> Parts:
    """Return the parts that folds judge: each sequence is left out by one of them."""
    if not folds:
        return Parts.whole(n)
    part = np.zeros(n, dtype=np.int64)
    for fold, train in enumerate(folds):
        part[np.setdiff1d(np.arange(n), train)] = fold
    return Parts(part, len(folds))
