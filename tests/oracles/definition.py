"""What labelings are worth under compiled rules, from the definition: numpy, no kernels, no engine.

The tests hold the one evaluator (``rulefield.problem.amounts``), engines and the checker against it.
"""

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import Automaton, ChainProblem, CompiledRule, Tally


def scores_of(potentials: ChainPotentials, paths: np.ndarray) -> np.ndarray:
    """Scores (paths,) of labelings (paths, n)."""
    steps = np.arange(potentials.n_steps)
    total = potentials.unary[steps, paths].sum(axis=1)
    if potentials.n_steps < 2:
        return total
    if potentials.pairwise.ndim == 2:
        return total + potentials.pairwise[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return total + potentials.pairwise[steps[:-1], paths[:, :-1], paths[:, 1:]].sum(axis=1)


def amounts_of(rule: CompiledRule, paths: np.ndarray) -> np.ndarray:
    """Amounts (paths,) by which each labeling of ``paths`` (paths, n) breaks a rule."""
    classes = np.asarray(rule.token_class, dtype=np.int64)
    if rule.tally is not None:
        return _tally(rule.tally, classes, paths)
    if rule.counters:
        return sum(np.maximum(_tally(c.tally, classes, paths) - c.bound, 0) for c in rule.counters)
    if rule.find_amount is not None:
        return np.array([rule.find_amount(path) for path in paths], dtype=np.int64)
    if rule.automaton is None:
        raise RuleError(
            f"compiled rule {rule.rule} has neither a tally, nor counters, nor an automaton; give it one."
        )
    return automaton_amounts(rule.automaton, classes, paths)


def _tally(tally: Tally, classes: np.ndarray, paths: np.ndarray) -> np.ndarray:
    if not len(classes):
        return np.zeros(len(paths), np.int64)
    first = tally.node if tally.first is None else tally.first
    total = first[classes[0], paths[:, 0]].astype(np.int64)
    for t in range(1, paths.shape[1]):
        total += tally.node[classes[t], paths[:, t]]
        if tally.edge is not None:
            total += tally.edge[classes[t], paths[:, t - 1], paths[:, t]]
    return total


def automaton_amounts(automaton: Automaton, classes: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """Amounts (paths,) that an automaton reads off labelings, by following all runs of all of them."""
    runs = np.where(automaton.initial >= 0, automaton.initial, np.inf)
    runs = np.repeat(runs[None].astype(float), len(paths), axis=0)
    for t in range(paths.shape[1]):
        letters = automaton.letter[classes[t], paths[:, t]]
        following = np.full_like(runs, np.inf)
        for letter in np.unique(letters):
            here = np.flatnonzero(letters == letter)
            for s in range(automaton.n_states):
                cell = s * automaton.n_letters + int(letter)
                for a in range(int(automaton.arc_ptr[cell]), int(automaton.arc_ptr[cell + 1])):
                    to = int(automaton.arc_to[a])
                    following[here, to] = np.minimum(following[here, to], runs[here, s] + automaton.arc_amount[a])
        runs = following
    ends = np.where(automaton.final >= 0, automaton.final, np.inf)
    return (runs + ends).min(axis=1)


def costs_of(rule: CompiledRule, amounts: np.ndarray) -> np.ndarray:
    """Return what amounts (paths,) of a rule cost; ``inf`` where it is hard and broken."""
    paid = np.minimum(amounts, 1) if rule.once else amounts
    return np.where(paid > 0, rule.weight * np.where(paid > 0, paid, 1), 0.0)


def judged(problem: ChainProblem, paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and costs (paths,) of labelings (paths, n); a cost is ``inf`` where a hard rule is broken."""
    costs = sum((costs_of(rule, amounts_of(rule, paths)) for rule in problem.rules), np.zeros(len(paths)))
    return scores_of(problem.potentials, paths), costs
