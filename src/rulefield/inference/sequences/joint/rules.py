"""What rules make of joint states: by how much labelings break them, and what single tokens pay.

Rules that are sums over single tokens go into the scores of joint states, so that factored kernels go on working.
"""

from dataclasses import replace

import numpy as np

from rulefield.inference.flatten import Cache
from rulefield.problem.amounts import Evaluator, spaces_of
from rulefield.problem.chain_rules import CompiledRule, Tally
from rulefield.problem.joint import JointProblem

_evaluators: Cache[tuple[Evaluator, tuple[CompiledRule, ...]]] = Cache(64)


def joint_amounts(problem: JointProblem, states: np.ndarray) -> np.ndarray:
    """Amounts (n_chains, n_rules) by which joint states (n_tokens,) break the rules of their chains, from the rules' forms.

    O(n_tokens) per rule; all chains have the same rules in the same order.
    """
    offsets = np.asarray(problem.potentials.offsets, np.int64)
    groups: dict[tuple[object, ...], list[int]] = {}  # an automaton that counts up and down is made for some lengths
    for i, rules in enumerate(problem.rules):
        groups.setdefault(tuple(id(rule.form or rule) for rule in rules), []).append(i)
    amounts = np.zeros((len(problem.rules), len(problem.rules[0]) if problem.rules else 0), np.int64)
    if not amounts.shape[1]:
        return amounts
    letters = np.stack([problem.letters[rule.rule][states] for rule in problem.rules[0]])
    classes = np.stack(
        [np.concatenate(rows) for rows in zip(*([rule.token_class for rule in rules] for rules in problem.rules))]
    )
    for key, members in groups.items():
        rules, some = problem.rules[members[0]], np.array(members)
        first, lengths = offsets[some], np.diff(offsets)[some]
        amounts[some] = _evaluator(key, rules, problem.letters)(letters, first, lengths, classes, first)
    return amounts


def _evaluator(
    key: tuple[object, ...], rules: tuple[CompiledRule, ...], letters: tuple[np.ndarray, ...]
) -> Evaluator:
    kept = _evaluators.get(key)
    if kept is None:
        for rule in rules:
            rule.refuse_rows_only("joint chains")
        widths = [int(letters[rule.rule].max()) + 1 for rule in rules]
        kept = _evaluators.put(key, (Evaluator(rules, spaces_of(rules, widths, together=False)), rules))
    return kept[0]


def about_tokens(rule: CompiledRule) -> bool:
    """Whether a rule is a sum over single tokens that scores can take in: paid by the unit, or hard."""
    if rule.tally is None or rule.tally.edge is not None or (rule.once and rule.weight != np.inf):
        return False
    return min(int(table.min(initial=0)) for table in (rule.tally.node, rule.tally.first) if table is not None) >= 0


def token_costs(problem: JointProblem, rule: CompiledRule) -> np.ndarray:
    """Cost of a rule about single tokens in each joint state at each token, (n, S); ``inf`` if it is hard."""
    assert rule.tally is not None
    amounts = _by_token(rule.tally, rule)
    cost = np.where(amounts > 0, rule.weight * np.maximum(amounts, 1), 0.0)
    return cost[:, problem.letters[rule.rule]]


def counts_tokens(rule: CompiledRule) -> bool:
    """Whether a rule is soft, paid by the unit, and counts single tokens: its full price is a dual that scores can carry."""
    if not rule.counters or rule.tally is not None or rule.once or rule.weight == np.inf:
        return False
    return all(c.tally.edge is None for c in rule.counters)


def full_price(problem: JointProblem, rule: CompiledRule) -> tuple[np.ndarray, float]:
    """Return what the full price of all that a rule counts takes from scores (n, S), and what it gives back at once.

    For all labelings weight x (tally - bound), summed over counters, is at most what the rule costs (Soft-DD with its
    duals at their caps), and no less if no tally is below its bound.
    """
    amounts = sum((_by_token(counter.tally, rule) for counter in rule.counters), np.zeros(1))
    bound = sum(counter.bound for counter in rule.counters)
    return rule.weight * amounts[:, problem.letters[rule.rule]], rule.weight * bound


def _by_token(tally: Tally, rule: CompiledRule) -> np.ndarray:
    """Return what letters add to a tally of single tokens, (n, letters)."""
    amounts: np.ndarray = tally.node[rule.token_class]
    if tally.first is not None:
        amounts[0] = tally.first[rule.token_class[0]]
    return amounts


def folded(problem: JointProblem, i: int) -> JointProblem:
    """Chain ``i`` alone, rules about single tokens taken into its scores; the other rules are left."""
    psi, rules = problem.potentials.scores(i).copy(), problem.rules[i]
    for rule in filter(about_tokens, rules):
        psi -= token_costs(problem, rule)
    left = tuple(rule for rule in rules if not about_tokens(rule))
    return replace(problem, potentials=problem.potentials.alone(psi), rules=(left,))
