"""Rules of the kind "every zip is a number": what the tokens of a label look like."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rulefield.rules.finding.observed import NameTables, Observed, Parts
from rulefield.rules.numbers import count
from rulefield.rules.predicates import TOKEN_CLASSES
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import token_not

COMMON = 0.9
"""A class that so large a share of all tokens belongs to says nothing of a label."""


Enough = Callable[[np.ndarray, np.ndarray], Iterator[tuple[tuple[int, ...], np.ndarray]]]
"""From counts by group (n_groups, ...), instances that hold and all: places where enough hold in a group, and in which."""


class TokenRule(NamedTuple):
    """A rule, in words, the number of tokens for which it holds and fails, and the groups in which enough hold."""

    rule: Rule
    words: str
    satisfied: int
    violated: int
    groups: np.ndarray


def class_rules(
    data: Observed, names: Sequence[str], tables: NameTables, parts: Parts, enough: Enough
) -> Iterator[TokenRule]:
    """Pairs of a label and a class of tokens of which enough holds: tokens of the label are in the class.

    A rule fails by the number of tokens with the label that are not in the class; a sum over tokens, so it costs engines
    nothing. Discovery (:func:`rulefield.rules.finding.discover.discover`) finds what a token says of its label; this is the
    converse, which holds however rare the label is among such tokens. O(tokens x classes).
    """
    match = tables.matches[:, np.concatenate(data.sequences)].astype(np.int64)
    places = parts.tokens_of(data)
    total = parts.groups(np.array([match[:, part].sum(axis=1) for part in places]))
    for words, condition in TOKEN_CLASSES.items():
        inside = np.concatenate([condition.over(tokens) for tokens in data.tokens])
        if inside.mean() > COMMON:
            continue
        held = parts.groups(np.array([match[:, part] @ inside[part] for part in places]))
        for (k,), mask in enough(held, total):
            rule = count(names[k], where=token_not(condition)) <= 0
            assert isinstance(rule, Rule)
            satisfied = int(held[0, k])
            yield TokenRule(rule, f"every {names[k]} is {words}", satisfied, int(total[0, k]) - satisfied, mask)
