"""Rules of the kind "every zip is a number": what the tokens of a label look like."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rulefield.rules.finding.observed import NameTables, Observed
from rulefield.rules.numbers import count
from rulefield.rules.predicates import TOKEN_CLASSES
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import TokenCondition, token_not

COMMON = 0.9
"""A class that so large a share of all tokens belongs to says nothing of a label."""


def class_rules(
    data: Observed,
    names: Sequence[str],
    tables: NameTables,
    classes: Mapping[str, TokenCondition] = TOKEN_CLASSES,
) -> Iterator[tuple[Rule, str, int, int]]:
    """Every pair of a label and a class of tokens, with the tokens of the label inside and outside of the class.

    Yields
    ------
    rule : Rule
        Fails by the number of tokens with the label that are not in the class; a sum over tokens, so it costs engines
        nothing.
    words : str
    satisfied, violated : int

    Notes
    -----
    Discovery (:func:`rulefield.rules.finding.discover.discover`) finds what a token says of its label; this is the converse,
    which holds however rare the label is among such tokens. O(tokens x classes).
    """
    flat = np.concatenate([labels for _, labels in data]) if len(data) else np.zeros(0, dtype=np.int64)
    match = tables.matches[:, flat].astype(bool)
    for words, condition in classes.items():
        inside = np.concatenate([condition.over(tokens) for tokens, _ in data]) if len(data) else np.zeros(0, bool)
        if len(inside) == 0 or inside.mean() > COMMON:
            continue
        outside = token_not(condition)
        for name, here in zip(names, match):
            satisfied, violated = int((here & inside).sum()), int((here & ~inside).sum())
            rule = count(name, where=outside) <= 0
            assert isinstance(rule, Rule)
            yield rule, f"every {name} is {words}", satisfied, violated
