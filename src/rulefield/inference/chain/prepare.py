"""A chain problem made ready for kernels: local rules inside the potentials, the others as flat tables."""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.flatten import Term, flatten
from rulefield.inference.result import BrokenRule, Result, judge
from rulefield.kernels.lattice.rule_tables import RuleTables, fold_local, rule_amounts
from rulefield.problem.chain_rules import ChainProblem


@dataclass(frozen=True)
class Prepared:
    """One chain problem in the arrays that kernels read.

    Parameters
    ----------
    problem : ChainProblem
    unary : ndarray, shape (n, m)
        With local rules folded in; hard ones as ``-inf``.
    arriving : ndarray, shape (k, m, m)
        Transposed pairwise scores [to, from], folded likewise; k is 1 or n - 1.
    tables : RuleTables
    classes : ndarray of uint16, shape (rules, n)
    caps : ndarray of float64, shape (counters,)
        Largest dual of each counter: the weight of its rule, divided by its largest amount where it is paid once.
    terms : tuple of Term
    """

    problem: ChainProblem
    unary: np.ndarray
    arriving: np.ndarray
    tables: RuleTables
    classes: np.ndarray
    caps: np.ndarray
    terms: tuple[Term, ...]

    @property
    def automaton_rules(self) -> list[int]:
        """Places of the rules that are read by an automaton."""
        return np.flatnonzero(self.tables.rule_automaton >= 0).tolist()

    def amounts(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Amounts (rules,) and excesses (counters,) of a labelling, and what rules outside the potentials cost."""
        amounts = np.zeros(len(self.tables.weight), np.int64)
        excesses = np.zeros(len(self.tables.counter_bound), np.int64)
        cost = rule_amounts(self.tables, self.classes, labels, self.unary.shape[1], amounts, excesses)
        return amounts, excesses, float(cost)

    def result(self, labels: np.ndarray, upper_bound: float, engine: str, iterations: int) -> Result:
        """Judge a labelling from scratch: its score, what it breaks, and whether the bound proves it best."""
        labels = labels.copy()
        amounts, _, _ = self.amounts(labels)
        score = self.problem.potentials.score(labels)
        broken = []
        total = 0.0
        for r in np.flatnonzero(amounts).tolist():
            rule = self.problem.rules[r]
            amount = float(amounts[r])
            cost = rule.weight * (1.0 if rule.once else amount)
            total += cost
            broken.append(BrokenRule(rule.rule, amount, cost))
        objective = score - total
        upper_bound = max(upper_bound, objective)
        return Result(
            labels, score, objective, upper_bound, judge(objective, upper_bound), engine, iterations, tuple(broken)
        )

    def no_result(self, upper_bound: float, engine: str, iterations: int) -> Result:
        """No labelling: none exists (bound ``-inf``), or none was found within the limits."""
        none = np.zeros(0, np.int64)
        status = judge(-np.inf, upper_bound)
        return Result(none, -np.inf, -np.inf, upper_bound, status, engine, iterations)

    def answer(self, labels: np.ndarray, best: float, upper_bound: float, engine: str, iterations: int) -> Result:
        """Return ``result`` where a labelling was found (``best`` is finite), else ``no_result``."""
        if best == -np.inf:
            return self.no_result(upper_bound, engine, iterations)
        return self.result(labels, upper_bound, engine, iterations)


def prepare(problem: ChainProblem) -> Prepared:
    """Flatten a problem; tables of equal rule objects are shared between calls."""
    potentials = problem.potentials
    n, m = potentials.n_steps, potentials.n_states
    if n == 0 or m == 0:
        raise InputError(f"a chain needs at least one token and one label; got {n} tokens and {m} labels.")
    rules = problem.rules
    flat = flatten(rules, m)
    tables, classes = flat.tables, flat.classes.reshape(len(rules), n)
    unary = np.array(potentials.unary, dtype=np.float64, order="C")
    pairwise = np.asarray(potentials.pairwise_stack, dtype=np.float64)
    if tables.local.any():
        pairwise = pairwise.copy()
        if n > 1 and len(pairwise) == 1 and _local_edges_vary(tables):
            pairwise = np.repeat(pairwise, n - 1, axis=0)
        fold_local(tables, classes, unary, pairwise, m)
    arriving = np.ascontiguousarray(pairwise.transpose(0, 2, 1))
    if n == 1:
        arriving = np.zeros((1, m, m))
    return Prepared(problem, unary, arriving, tables, classes, flat.caps, flat.terms)


def _local_edges_vary(tables: RuleTables) -> bool:
    local = tables.local[tables.counter_rule]
    return bool((local & (tables.edge_at >= 0) & (tables.counter_classes > 1)).any())
