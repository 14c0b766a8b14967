"""A chain problem made ready for kernels: local rules inside the potentials, constants out, the others as flat tables."""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.checker import held_bound
from rulefield.inference.flatten import Flat, flatten, fold
from rulefield.inference.result import SLACK, Result, judge, rounding_error
from rulefield.inference.sequences.check import confirm
from rulefield.kernels.lattice.dual import path_score
from rulefield.kernels.lattice.prices import automaton_prices
from rulefield.kernels.lattice.rule_tables import (
    RuleTables,
    rule_amounts,
    take_out_maxima,
    unavoidable_excess,
)
from rulefield.problem.chain_rules import ChainProblem, CompiledRule


@dataclass(frozen=True)
class Prepared:
    """One chain problem in the arrays that kernels read.

    Engines work without the constants: their *value* of a labeling is its objective minus ``offset``, and all terms
    of it are <= 0.
    """

    problem: ChainProblem
    unary: np.ndarray  # (n, m): with local rules folded in, hard ones as ``-inf``; each token's maximum is taken out
    arriving: np.ndarray  # (k, m, m): transposed pairwise scores [to, from], likewise; k is 1 or n - 1
    offset: float  # what was taken out: maxima, minus costs that no labeling can avoid
    tables: RuleTables
    classes: np.ndarray  # uint16 (rules, n)
    caps: np.ndarray
    """float64 (counters,): largest duals, the weight of the rule, divided by its largest amount where it is paid once."""
    flat: Flat  # the flat forms of the rules as engines read them: those as one that can be said together
    own: Flat  # the flat forms of the problem's own rules, as the checker reads them
    sure_cost: float
    """What rules outside the potentials cost at the least: in ``offset``, and no longer in ``tables``."""

    def error(self, value: float) -> float:
        """Bound the rounding error of a labeling's value."""
        return rounding_error(2 * len(self.unary) + len(self.tables.weight), value)

    def amounts(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Amounts (rules,) and excesses (counters,) of a labeling, and what rules outside the potentials cost.

        Large amounts that no labeling avoids are not counted: they are in ``offset``.
        """
        amounts = np.zeros(len(self.tables.weight), np.int64)
        excesses = np.zeros(len(self.tables.counter_bound), np.int64)
        cost = rule_amounts(self.tables, self.classes, labels, self.unary.shape[1], amounts, excesses)
        for r in self.flat.shared.rows_only:
            amounts[r] = self.flat.rules[r].find_amount(labels)  # type: ignore[misc]
            if amounts[r]:
                cost += self.tables.weight[r] * (1.0 if self.tables.once[r] else float(amounts[r]))
        return amounts, excesses, float(cost)

    def value(self, labels: np.ndarray) -> float:
        """Objective of a labeling without the constants; ``-inf`` where it is forbidden."""
        return float(path_score(self.unary, self.arriving, labels)) - self.amounts(labels)[2]

    def answer(self, labels: np.ndarray, value: float, bound: float, engine: str, iterations: int) -> Result:
        """Return a labeling of this value under this bound, judged from scratch; none where the value is ``-inf``.

        A minus infinite bound proves that no labeling exists.
        """
        if value == -np.inf:
            none = np.zeros(0, np.int64)
            return Result(none, value, value, bound + self.offset, judge(value, bound), engine, iterations)
        error = self.error(value)
        error_of_sum = error + rounding_error(4, self.offset)
        found = confirm(self.problem, labels, value + self.offset, error_of_sum, self.own)
        bound = found.objective + held_bound(bound, value, error_of_sum) - value
        status = judge(0.0, bound - found.objective, error)
        return Result(labels.copy(), found.score, found.objective, bound, status, engine, iterations, found.broken)


def prepare(problem: ChainProblem, centered: bool = False) -> Prepared:
    """Flatten a problem; tables of equal rule objects are shared between calls.

    ``centered`` says that no score is positive, so that maxima may stay.
    """
    potentials = problem.potentials
    n, m = potentials.n_steps, potentials.n_states
    if n == 0 or m == 0:
        raise InputError(f"a chain needs at least one token and one label; got {n} tokens and {m} labels.")
    own = flatten(problem.rules, m)
    flat = own.together or own
    rules = flat.rules
    tables, classes, caps = flat.tables, flat.classes.reshape(len(rules), n), flat.caps
    unary, arriving, paid = fold(potentials, flat)
    sure_cost = 0.0
    if has_large_costs(flat, n):
        tables, caps, sure_cost = _without_sure_costs(tables, caps, classes, unary, _large(tables, rules, n))
    offset, wrong = (0.0, False) if centered else take_out_maxima(unary, arriving)
    if wrong:
        raise InputError("scores must be numbers or -inf (forbidden); got NaN or +inf.")
    offset -= paid + sure_cost
    return Prepared(problem, unary, arriving, offset, tables, classes, caps, flat, own, sure_cost)


def has_large_costs(flat: Flat, n: int) -> bool:
    """Whether rules may cost so much that the scores of n tokens drown in the rounding."""
    return rounding_error(2 * n, flat.heaviest) > SLACK / 1000


def _large(tables: RuleTables, rules: tuple[CompiledRule, ...], n: int) -> list[int]:
    """Soft rules outside the potentials that may cost so much that scores drown in the rounding."""
    heavy = (rounding_error(2 * n, 1.0) * tables.weight > SLACK / 1000) & np.isfinite(tables.weight) & ~tables.local
    return [
        r
        for r in np.flatnonzero(heavy).tolist()
        if rounding_error(2 * n, rules[r].weight * rules[r].max_amount) > SLACK
    ]


def _without_sure_costs(
    tables: RuleTables, caps: np.ndarray, classes: np.ndarray, unary: np.ndarray, which: list[int]
) -> tuple[RuleTables, np.ndarray, float]:
    """Take the costs that no labeling avoids out of some soft rules: (tables, caps, cost)."""
    weight, bound, sure, caps = tables.weight.copy(), tables.counter_bound.copy(), tables.sure.copy(), caps.copy()
    paid = 0.0
    for r in which:
        counters = range(int(tables.rule_counter[r]), int(tables.rule_counter[r + 1]))
        automaton = int(tables.rule_automaton[r])
        if automaton >= 0:
            prices = np.zeros(unary.shape, np.int64)
            to_come = np.zeros((len(unary), int(tables.states[automaton])), np.int64)
            amount = automaton_prices(tables, automaton, classes[r], unary, False, prices, to_come)
            least = {}
        else:
            least = {c: int(unavoidable_excess(tables, classes[r], c, unary)) for c in counters}
            amount = sum(least.values())
        if amount == 0:
            continue
        paid += float(weight[r]) * (1 if tables.once[r] else amount)
        if tables.once[r]:
            weight[r] = 0.0
            caps[list(counters)] = 0.0
        elif automaton >= 0:
            sure[r] = amount
        else:
            for c in counters:
                bound[c] += least[c]
    return tables._replace(weight=weight, counter_bound=bound, sure=sure), caps, paid
