"""By how much labelings break rules, for all chains at once: what decoding asks first."""

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.kernels.joint.amounts import automaton_amounts
from rulefield.problem.chain_rules import Automaton, CompiledRule, Tally
from rulefield.problem.joint import JointProblem


def joint_amounts(problem: JointProblem, states: np.ndarray) -> np.ndarray:
    """Amounts (n_chains, n_rules) by which joint states (n_tokens,) break the rules of their chains, from the rules' forms.

    O(n_tokens) per rule; all chains have the same rules in the same order.
    """
    p = problem.potentials
    n_chains = len(p.offsets) - 1
    amounts = np.zeros((n_chains, len(problem.rules[0]) if n_chains else 0), np.int64)
    for r in range(amounts.shape[1]):
        own = [rules[r] for rules in problem.rules]
        letter = problem.letters[own[0].rule][states]
        amounts[:, r] = _rule_amounts(own, letter, np.asarray(p.offsets, np.int64))
    return amounts


def _rule_amounts(own: list[CompiledRule], letter: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    token_class = np.concatenate([rule.token_class for rule in own])
    rule = own[0]
    if rule.tally is not None:
        return _sums(rule.tally, token_class, letter, offsets)
    if rule.counters:
        excess = [_sums(c.tally, token_class, letter, offsets) - c.bound for c in rule.counters]
        return sum((np.maximum(e, 0) for e in excess), np.zeros(len(own), np.int64))
    if all(other.automaton is rule.automaton for other in own):
        return _runs(rule.automaton, token_class, letter, offsets)
    # An automaton that counts up and down is made for a range of lengths.
    amounts = np.zeros(len(own), np.int64)
    for i, other in enumerate(own):
        here = slice(int(offsets[i]), int(offsets[i + 1]))
        alone = np.array([0, offsets[i + 1] - offsets[i]])
        amounts[i] = _runs(other.automaton, token_class[here], letter[here], alone)[0]
    return amounts


def _sums(tally: Tally, token_class: np.ndarray, letter: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Value of a tally on each chain."""
    each = tally.node[token_class, letter].astype(np.int64)
    filled = offsets[:-1][np.diff(offsets) > 0]
    if tally.first is not None:
        each[filled] = tally.first[token_class[filled], letter[filled]]
    if tally.edge is not None and len(letter) > 1:
        more = tally.edge[token_class[1:], letter[:-1], letter[1:]].astype(np.int64)
        more[filled[filled > 0] - 1] = 0
        each[1:] += more
    total = np.concatenate([[0], np.cumsum(each)])
    return total[offsets[1:]] - total[offsets[:-1]]


def _runs(
    automaton: Automaton | None, token_class: np.ndarray, letter: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    if automaton is None:
        raise RuleError("a rule needs too large an automaton for joint chains; split it into several rules.")
    amounts = np.zeros(len(offsets) - 1, np.int64)
    a = automaton
    ptr, to, more, initial, final = (
        x.astype(np.int64) for x in (a.arc_ptr, a.arc_to, a.arc_amount, a.initial, a.final)
    )
    read = a.letter[token_class, letter].astype(np.int64)
    automaton_amounts(read, offsets, a.n_letters, ptr, to, more, initial, final, amounts)
    return amounts
