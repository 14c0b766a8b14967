"""Scores from elsewhere under rules, against all labelings."""

from itertools import product

import numpy as np
import pytest

import rulefield as rf
from rulefield import rules as r
from rulefield.encode.schemes import allowed_transitions
from rulefield.exceptions import InputError

LABELS = ["O", "B-x", "I-x", "B-y"]


def best(table, steps, rules, tokens, known=None):
    """Best labels, objective and probability by enumeration."""
    allowed, start, end = allowed_transitions(LABELS, "BIO")
    found = []
    for ids in product(range(len(LABELS)), repeat=len(table)):
        possible = start[ids[0]] and end[ids[-1]] and all(allowed[a, b] for a, b in zip(ids, ids[1:]))
        names = [LABELS[i] for i in ids]
        if not possible or (known and any(k not in (None, name) for k, name in zip(known, names))):
            continue
        cost = sum(rule.weight * rule.violation(tokens, names, "BIO") for rule in rules)
        score = sum(table[t, i] for t, i in enumerate(ids)) + sum(steps[a, b] for a, b in zip(ids, ids[1:]))
        found.append((score - cost, names))
    top = max(found)
    return top[1], top[0], np.exp(top[0]) / sum(np.exp(value) for value, _ in found)


def test_labels_objectives_and_probabilities_are_those_of_enumeration():
    rng = np.random.default_rng(0)
    rules = [(r.segments("x") <= 1).soft(0.8), r.at(r.token_equals("7"), here="y").soft(0.5)]
    tables, tokens, known = [], [], []
    for n in (1, 2, 3, 4, 4, 4):
        tables.append(rng.normal(size=(n, 4)))
        tokens.append([str(rng.integers(5, 9)) for _ in range(n)])
        known.append([None] * (n - 1) + ["O"])
    steps = rng.normal(size=(4, 4))
    for clamps in (None, known):
        found = rf.decode_scores(
            tables,
            LABELS,
            tokens=tokens,
            transitions=steps,
            scheme="BIO",
            rules=rules,
            known=clamps,
            probability=True,
        )
        for i, answer in enumerate(found):
            labels, objective, chance = best(tables[i], steps, rules, tokens[i], clamps and clamps[i])
            assert answer.labels == labels
            assert answer.status == "optimal"
            assert answer.objective == pytest.approx(objective)
            assert answer.probability == pytest.approx(chance, abs=answer.probability_error + 1e-9)
    ranked = rf.decode_scores(tables, LABELS, tokens=tokens, transitions=steps, scheme="BIO", rules=rules, k=2)
    plain = rf.decode_scores(tables, LABELS, tokens=tokens, transitions=steps, scheme="BIO", rules=rules)
    assert [row[0][0] for row in ranked] == [answer.labels for answer in plain]


def test_what_is_wrong_is_told():
    with pytest.raises(InputError, match=r"scores\[0\] must have shape \(n_tokens, 4\)"):
        rf.decode_scores([np.zeros((2, 3))], LABELS)
    with pytest.raises(InputError, match="NaN"):
        rf.decode_scores([np.full((2, 4), np.nan)], LABELS)
    with pytest.raises(InputError, match="one list per array"):
        rf.decode_scores([np.zeros((2, 4))], LABELS, tokens=[["a"]])
    with pytest.raises(InputError, match=r"transitions must have shape \(4, 4\)"):
        rf.decode_scores([np.zeros((2, 4))], LABELS, transitions=np.zeros((2, 2)))
    assert rf.decode_scores([], LABELS) == []
    assert rf.decode_scores([np.zeros((0, 4))], LABELS)[0].labels == []
