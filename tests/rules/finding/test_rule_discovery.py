"""Discovered formulas: the cover is the cheapest, and clauses count what their rules count."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulefield import rules as r
from rulefield.exceptions import RuleError
from rulefield.rules.finding.check import amounts_table
from rulefield.rules.finding.discover import cheapest_cover, discover


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_the_cover_is_the_cheapest(seed):
    rng = np.random.default_rng(seed)
    covers = rng.random((rng.integers(1, 9), rng.integers(1, 7))) < 0.4
    weight = rng.integers(1, 6, len(covers)).astype(float)
    cost = rng.integers(1, 8, covers.shape[1]).astype(float)

    def price(chosen):
        return cost[chosen].sum() + weight[~covers[:, chosen].any(axis=1)].sum()

    chosen, gap = cheapest_cover(covers, weight, cost)
    every = [price(np.array(bits, dtype=bool)) for bits in product([False, True], repeat=len(cost))]
    assert gap == 0
    assert price(chosen) == pytest.approx(min(every))


def citations(n, rng):
    """Authors (capitalized, then a comma), a year in brackets, a title up to a full stop, and some noise."""
    X, y = [], []
    for _ in range(n):
        k = int(rng.integers(2, 5))
        X.append(["Ann", ",", "(1999)", *["some1", ",", "Words", "here"][:k], "."])
        y.append(["author", "author", "date", *["title"] * k, "title"])
        if rng.random() < 0.1:
            y[-1][3] = "note"
    return X, y


def test_planted_logic_is_found():
    X, y = citations(60, np.random.default_rng(0))
    formulas = {f.label: f for f in discover(X, y)}
    assert formulas["date"].clauses[0].words == "if the token is a year, the label is date"
    assert formulas["date"].unexplained == 0
    assert len(formulas["date"].clauses) == 1
    assert all(f.gap == 0 for f in formulas.values())
    for formula in formulas.values():
        gains = [c.discrimination for c in formula.clauses]
        assert gains == sorted(gains, reverse=True)
        assert len(formula.pruned(gains[0]).clauses) >= 1
        assert formula.pruned(10**6).unexplained == formula.tokens
        assert str(formula).startswith(f"{formula.label}: ")


@pytest.mark.parametrize("scheme", [None, "BIO"])
def test_clauses_count_what_their_rules_count(scheme):
    rng = np.random.default_rng(3)
    types = ["a", "b", "c"]
    X = [[["x", "Xx", "12", ",", "."][i] for i in rng.integers(0, 5, 12)] for _ in range(40)]
    y = [[types[i] for i in np.minimum(rng.integers(0, 4, 12), 2)] for _ in X]
    if scheme:
        y = [[f"B-{label}" for label in labels] for labels in y]
    formulas = discover(X, y, scheme, min_support=3, min_precision=0.7, max_predicates=3)
    clauses = [clause for formula in formulas for clause in formula.clauses]
    assert any(len(clause.predicates) > 1 for clause in clauses)
    assert any("next" in repr(clause.rule) for clause in clauses)
    amounts = amounts_table([clause.rule for clause in clauses], X, y, scheme).sum(axis=1)
    assert amounts.tolist() == [clause.wrong for clause in clauses]
    for formula in formulas:
        found = sum(c.discrimination + c.wrong for c in formula.clauses)
        assert found == formula.tokens - formula.unexplained


def test_rules_of_formulas_are_ordinary():
    X, y = citations(30, np.random.default_rng(1))
    (formula,) = discover(X, y, targets=["date"])
    assert formula.rules[0].body == r.at(formula.clauses[0].predicates[0].condition, here="date").body
    assert formula.rules[0].weight > 0
    with pytest.raises(RuleError, match="not a type of the labels"):
        discover(X, y, targets=["dat"])
