"""Rules that are sums over single tokens: scores of joint states can take them in, and factored kernels go on working."""

from dataclasses import replace

import numpy as np

from rulefield.problem.chain_rules import CompiledRule
from rulefield.problem.joint import JointProblem


def about_tokens(rule: CompiledRule) -> bool:
    """Whether a rule is a sum over single tokens that scores can take in: paid by the unit, or hard."""
    if rule.tally is None or rule.tally.edge is not None or (rule.once and rule.weight != np.inf):
        return False
    return min(int(table.min(initial=0)) for table in (rule.tally.node, rule.tally.first) if table is not None) >= 0


def token_costs(problem: JointProblem, rule: CompiledRule) -> np.ndarray:
    """Cost of a rule about single tokens in each joint state at each token, (n, S); ``inf`` where it is hard."""
    assert rule.tally is not None
    amounts = rule.tally.node[rule.token_class]
    if rule.tally.first is not None:
        amounts[0] = rule.tally.first[rule.token_class[0]]
    cost = np.where(amounts > 0, rule.weight * np.maximum(amounts, 1), 0.0)
    return cost[:, problem.letters[rule.rule]]


def counts_tokens(rule: CompiledRule) -> bool:
    """Whether a rule is soft, paid by the unit, and counts single tokens: its full price is a dual that scores can carry."""
    if not rule.counters or rule.tally is not None or rule.once or rule.weight == np.inf:
        return False
    return all(c.tally.edge is None for c in rule.counters)


def full_price(problem: JointProblem, rule: CompiledRule) -> tuple[np.ndarray, float]:
    """Price what a rule counts in full: what that takes from scores (n, S), and what it gives back at once.

    For all labelings weight x (tally - bound), summed over counters, is at most what the rule costs (Soft-DD with its
    duals at their caps), and no less where no tally is below its bound.
    """
    amounts, back = np.zeros(1), 0.0
    for counter in rule.counters:
        node = counter.tally.node[rule.token_class]
        if counter.tally.first is not None:
            node[0] = counter.tally.first[rule.token_class[0]]
        amounts = amounts + rule.weight * node
        back += rule.weight * counter.bound
    return amounts[:, problem.letters[rule.rule]], back


def folded(problem: JointProblem, i: int) -> JointProblem:
    """Chain ``i`` alone, rules about single tokens taken into its scores; the other rules are left."""
    psi = problem.potentials.scores(i).copy()
    left = []
    for rule in problem.rules[i]:
        if about_tokens(rule):
            psi -= token_costs(problem, rule)
        else:
            left.append(rule)
    return replace(problem, potentials=problem.potentials.alone(i, psi), rules=(tuple(left),))
