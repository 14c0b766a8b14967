"""Discovering rules as minimum-cost logic learning ([Fersini14], section 3.1).

For each label, the tokens that have it are explained by a formula in disjunctive normal form over predicates of the
token and its neighborhood: the cheapest set of clauses, chosen by an integer program (set covering), that covers
the tokens with the label and not the others. Clauses come in order of discrimination and can be pruned.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array, eye_array, hstack

from rulefield.exceptions import RuleError
from rulefield.rules.facts import at
from rulefield.rules.finding.mine import DELIMITERS, violation_cost
from rulefield.rules.finding.mine_tokens import TOKEN_CLASSES
from rulefield.rules.finding.observed import Observed, nested_types, observe
from rulefield.rules.patterns import Pattern, matches
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import (
    TokenCondition,
    any_token,
    first_token,
    last_token,
    next_token,
    previous_token,
    token_all,
    token_equals,
)

MAX_CLAUSES = 3000


@dataclass(frozen=True)
class Predicate:
    """One thing that is true or false of a token: a condition, or the label at a place beside it ("prev" or "next")."""

    words: str
    condition: TokenCondition | None = None
    place: str | None = None
    label: str | None = None


def list_predicates(delimiters: Sequence[str], names: Sequence[str]) -> list[Predicate]:
    """Classes of the token, delimiters at it and beside it, its place, and labels beside it."""
    found = [Predicate(f"the token is {words}", condition) for words, condition in TOKEN_CLASSES.items()]
    for text in delimiters:
        mark = token_equals(text)
        found.append(Predicate(f"the token is {text!r}", mark))
        found.append(Predicate(f"the token before is {text!r}", previous_token(mark)))
        found.append(Predicate(f"the token after is {text!r}", next_token(mark)))
    found.append(Predicate("the token is the first", first_token()))
    found.append(Predicate("the token is the last", last_token()))
    found += [Predicate(f"before it stands {name}", place="prev", label=name) for name in names]
    return found + [Predicate(f"after it stands {name}", place="next", label=name) for name in names]


def truth_table(data: Observed, predicates: Sequence[Predicate]) -> np.ndarray:
    """Truth of each predicate for each token of all sequences, (n_tokens, n_predicates)."""

    def column(predicate: Predicate) -> np.ndarray:
        condition, step = predicate.condition, 1 if predicate.place == "prev" else -1
        if condition is not None:
            return np.concatenate([condition.over(tokens) for tokens in data.tokens])
        end = (first_token() if step == 1 else last_token()).over
        ends = np.concatenate([end(tokens) for tokens in data.tokens])
        return ~ends & np.roll(_match(data, str(predicate.label)), step)

    return np.stack([column(predicate) for predicate in predicates], axis=1)


def _match(data: Observed, name: str) -> np.ndarray:
    """Which tokens of all sequences have a type."""
    return matches(Pattern((name,)), data.table)[np.concatenate(data.sequences)]


@dataclass(frozen=True)
class Clause:
    """If all its predicates are true of a token, its label is ``label``.

    It covers ``right`` tokens with the label and ``wrong`` ones without; ``discrimination`` is the number of tokens that it
    explains beyond the clauses before it, less those that it explains wrongly.
    """

    label: str
    predicates: tuple[Predicate, ...]
    right: int
    wrong: int
    discrimination: int = 0

    @property
    def words(self) -> str:
        """The clause as a sentence."""
        return f"if {' and '.join(p.words for p in self.predicates)}, the label is {self.label}"

    @property
    def rule(self) -> Rule:
        """The clause as an ordinary soft rule, at the cost of eq. 30 of [Fersini14]."""
        conditions = tuple(p.condition for p in self.predicates if p.condition is not None)
        if len(conditions) == 1:
            condition = conditions[0]
        else:
            condition = token_all(*conditions) if conditions else any_token()
        beside = {str(p.place): p.label for p in self.predicates if p.place is not None}
        then = "here" if "next" in beside else None
        rule = at(condition, beside.get("prev"), self.label, beside.get("next"), then=then)
        return rule.soft(violation_cost(self.right, self.wrong)).named(self.words)

    def __str__(self) -> str:
        return f"{self.words} ({self.right} right, {self.wrong} wrong, explains {self.discrimination} more)"


@dataclass(frozen=True)
class Formula:
    """Clauses that together explain one label, most discriminating first.

    Of ``tokens`` with the label no clause covers ``unexplained``; ``gap`` is how far the choice of clauses may be from the
    cheapest, in units of tokens (0 if it is proved cheapest).
    """

    label: str
    clauses: tuple[Clause, ...]
    tokens: int
    unexplained: int
    gap: float

    def pruned(self, min_discrimination: int) -> "Formula":
        """Return the formula without clauses that explain fewer tokens than that (outliers)."""
        kept = tuple(c for c in self.clauses if c.discrimination >= min_discrimination)
        explained = sum(c.discrimination + c.wrong for c in kept)
        return replace(self, clauses=kept, unexplained=self.tokens - explained)

    @property
    def rules(self) -> list[Rule]:
        """The clauses as rules."""
        return [clause.rule for clause in self.clauses]

    def __str__(self) -> str:
        head = f"{self.label}: {self.tokens - self.unexplained} of {self.tokens} tokens explained"
        return "\n".join([head, *(f"  {clause}" for clause in self.clauses)])


def discover(
    X: Iterable[Any],
    y: Iterable[Sequence[Any]],
    scheme: str | None = "auto",
    targets: Sequence[str] | None = None,
    max_predicates: int = 2,
    min_support: int = 10,
    min_precision: float = 0.9,
    delimiters: Sequence[str] = DELIMITERS,
    labels: Sequence[str] | None = None,
    node_limit: int = 200,
) -> list[Formula]:
    r"""Explain labels by formulas in disjunctive normal form, one for each label for which there are clauses.

    For each label, solves :math:`\min_x \sum_c (s + |c| + wrong_c)\, x_c + \sum_i u_i` subject to
    :math:`\sum_{c \ni i} x_c + u_i \ge 1` for every token i with the label: a clause must explain more than
    ``min_support`` (s) tokens to be worth its place.

    Parameters
    ----------
    X, y : tokens and labels
    scheme : str or None
        ``"auto"`` guesses it from the labels.
    targets : sequence of str, optional
        Labels to explain; by default all types that occur.
    max_predicates : int
        Longest clause.
    min_support, min_precision
        A clause must cover so many tokens with the label, and so large a share of what it covers must have it.
    delimiters : sequence of str
        Tokens that predicates may name.
    labels : sequence of str, optional
        The label set; by default the labels that occur.
    node_limit : int
        Limit of the integer program for each label; ``Formula.gap`` tells whether it was reached.
    """
    data = observe(y, X, scheme, labels)
    names = data.table.types
    for target in targets or ():
        if target not in names:
            raise RuleError(f"{target!r} is not a type of the labels; known are {', '.join(names)}.")
    predicates = list_predicates(delimiters, names)
    truth = truth_table(data, predicates)
    nested = nested_types(data.table)
    formulas = []
    for target in targets or names:
        # what it lies in, and what lies in it, explain it by construction
        related = {target, *(name for pair in nested if target in pair for name in pair)}
        usable = [j for j, p in enumerate(predicates) if p.label not in related]
        allowed, positive = [predicates[j] for j in usable], _match(data, target)
        found = _candidates(truth[:, usable], allowed, positive, max_predicates, min_support, min_precision)
        if found:
            formulas.append(_formula(target, found, truth[:, usable], positive, allowed, min_support, node_limit))
    return formulas


def _candidates(
    truth: np.ndarray,
    predicates: Sequence[Predicate],
    positive: np.ndarray,
    longest: int,
    min_support: int,
    min_precision: float,
) -> list[tuple[int, ...]]:
    """Minimal conjunctions with enough support and precision, grown level by level (a priori).

    A clause refers to at most one label on each side, which is what ``at`` can say.
    """
    level: list[tuple[int, ...]] = [(j,) for j in range(truth.shape[1])]
    kept: list[tuple[tuple[int, ...], int]] = []
    for _ in range(longest):
        open_: list[tuple[int, ...]] = []
        for clause in level:
            covered = truth[:, clause].all(axis=1)
            right, total = int((covered & positive).sum()), int(covered.sum())
            if right < min_support:
                continue
            if right >= min_precision * total:
                kept.append((clause, right))
            else:
                open_.append(clause)
        singles = sorted({j for clause in open_ for j in clause})
        sides = [predicate.place for predicate in predicates]
        level = [
            (*clause, j)
            for clause in open_
            for j in singles
            if j > clause[-1] and (sides[j] is None or all(sides[i] != sides[j] for i in clause))
        ]
    kept.sort(key=lambda item: -item[1])
    return [clause for clause, _ in kept[:MAX_CLAUSES]]


def _formula(
    label: str,
    candidates: list[tuple[int, ...]],
    truth: np.ndarray,
    positive: np.ndarray,
    predicates: list[Predicate],
    min_support: int,
    node_limit: int,
) -> Formula:
    covers = np.array([truth[:, clause].all(axis=1) for clause in candidates])
    wrong = (covers & ~positive).sum(axis=1)
    groups, weight = np.unique(covers[:, positive].T, axis=0, return_counts=True)
    cost = min_support + np.array([len(clause) for clause in candidates]) + wrong
    chosen, gap = cheapest_cover(groups, weight.astype(float), cost.astype(float), node_limit)
    clauses = []
    left = positive.copy()
    rest = np.flatnonzero(chosen).tolist()
    while rest:
        gain = {c: int((covers[c] & left).sum() - wrong[c]) for c in rest}
        best = max(rest, key=lambda c: gain[c])
        rest.remove(best)
        right = int((covers[best] & positive).sum())
        found = tuple(predicates[j] for j in candidates[best])
        clauses.append(Clause(label, found, right, int(wrong[best]), gain[best]))
        left &= ~covers[best]
    return Formula(label, tuple(clauses), int(positive.sum()), int(left.sum()), gap)


def cheapest_cover(
    covers: np.ndarray, weight: np.ndarray, cost: np.ndarray, node_limit: int = 200
) -> tuple[np.ndarray, float]:
    """Choose sets so that their cost and the weight of what they leave uncovered are least.

    ``covers`` (n_elements, n_sets) says which elements a set covers. Returns the choice (n_sets,), and its distance to the
    solver's bound (0 if the choice is proved cheapest).
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow to load, and most users of rules never need it

    k = covers.shape[1]
    some = covers.any(axis=1)
    matrix = hstack([coo_array(covers[some].astype(float)), eye_array(int(some.sum()))]).tocsr()
    result = milp(
        np.concatenate([cost, weight[some]]),
        constraints=LinearConstraint(matrix, lb=1.0),
        bounds=Bounds(0, 1),
        integrality=np.concatenate([np.ones(k), np.zeros(int(some.sum()))]),
        options={"node_limit": node_limit, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return np.zeros(k, dtype=bool), float(weight[some].sum())
    gap = max(0.0, float(result.fun - (result.mip_dual_bound or 0.0)))
    return result.x[:k] > 0.5, 0.0 if gap < 1e-6 else gap
