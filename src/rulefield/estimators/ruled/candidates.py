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
    """Rules to weigh, ``found`` in data or written by the user.

    ``groups`` (1 + n_folds, n_rules) says whether each was found in all sequences, and in those that each fold learns from.
    """

    rules: list[Rule]
    groups: np.ndarray
    found: bool

    @classmethod
    def written(cls, rules: list[Rule], folds: Parts) -> "Candidates":
        """Rules that the user wrote: every fold tries them."""
        return cls(rules, np.ones((folds.n_groups, len(rules)), dtype=bool), found=False)


def find_candidates(held: CrossFitted, kind: str, folds: Parts) -> Candidates:
    """Find rules by template ("propose"), in labeled sequences ("mine"), or both ("find").

    Each fold learns from the other parts: a rule that holds often enough in all sequences, but not in these, is no candidate
    there.
    """
    tokens = [example.tokens for example in held.examples]
    texts = have_texts(tokens)
    data = Observed(
        held.family.words,
        [held.family.in_words(example.gold) for example in held.examples],
        tokens if texts else [len(some) for some in tokens],
    )
    pairs: list[tuple[Rule, np.ndarray]] = []
    if kind in ("find", "propose"):
        pairs += proposals(data, folds, COUNTS)
        pairs += proposals(data, folds, (LENGTH,), MIN_LENGTH_SHARE)
    if kind in ("find", "mine"):
        families = [name for name in (*FAMILIES, *(ASKED_FOR if texts else ())) if name != STATE_CHANGE]
        pairs += [(found.rule.soft(LEARN), np.array(found.groups)) for found in mine_parts(data, folds, families)]
    groups = np.array([mask for _, mask in pairs], dtype=bool).reshape(len(pairs), folds.n_groups).T
    return Candidates([rule for rule, _ in pairs], groups, found=True)
