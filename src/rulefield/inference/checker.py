"""What the checkers of all families share: rules read as they were compiled, in code that no engine shares."""

import numpy as np

from rulefield.exceptions import InternalError
from rulefield.inference.flatten import Flat, flatten
from rulefield.inference.result import TOLERANCE, Breach
from rulefield.kernels.amounts import UNREAD
from rulefield.problem.chain_rules import CompiledRule


def amounts_of(flat: Flat, paths: np.ndarray) -> np.ndarray:
    """Amounts (labelings, rules) by which labelings (labelings, n) of one input break its rules."""
    classes = flat.classes.reshape(len(flat.rules), paths.shape[1])
    amounts: np.ndarray = flat.shared.evaluator.of_paths(paths, classes)
    for r in flat.shared.rows_only:
        amounts[:, r] = [flat.rules[r].find_amount(path) for path in paths]  # type: ignore[misc]
    return amounts


def costs_of(flat: Flat, amounts: np.ndarray) -> np.ndarray:
    """Return what amounts (labelings, rules) cost, (labelings,); ``inf`` if a hard rule is broken, or has no amount."""
    weight, once = flat.tables.weight, flat.tables.once
    paid = np.where(once, np.minimum(amounts, 1), amounts)
    cost: np.ndarray = np.multiply(weight, paid, out=np.zeros(amounts.shape), where=amounts > 0).sum(axis=1)
    cost[(amounts == UNREAD).any(axis=1)] = np.inf
    return cost


def rules_broken(
    rules: tuple[CompiledRule, ...], labels: np.ndarray, n_labels: int
) -> tuple[tuple[Breach, ...], float]:
    """Rules that token labels (n,) break, and what that costs (``inf``: a hard one), from the definition."""
    flat = flatten(rules, n_labels)
    amounts = amounts_of(flat, labels[None])
    return breaches(rules, amounts[0]), float(costs_of(flat, amounts)[0])


def breaches(rules: tuple[CompiledRule, ...], amounts: np.ndarray) -> tuple[Breach, ...]:
    """Name the rules that are broken, given amounts (rules,)."""
    broken = []
    for r in np.flatnonzero(amounts).tolist():
        rule, amount = rules[r], np.inf if amounts[r] == UNREAD else float(amounts[r])
        broken.append(Breach(rule.rule, amount, rule.weight * (1.0 if rule.once else amount)))
    return tuple(broken)


def mismatch(claimed: float, found: float) -> InternalError:
    """Return the error of an engine whose claim does not agree with the definition."""
    return InternalError(
        f"an engine claims an objective of {claimed!r} for a labeling whose objective is {found!r}; "
        "please report this problem: the answer was withheld because it may be wrong."
    )


def held_bound(bound: float, value: float, error: float) -> float:
    """Return the bound of an engine, which its own labeling, worth ``value``, must not pass by more than rounding."""
    if value > bound + TOLERANCE + error:
        raise InternalError(
            f"an engine says that no labeling is worth more than {bound!r}, but its own is worth {value!r}; please report "
            "this problem: the answer was withheld because its proof may be wrong."
        )
    return max(bound, value)
