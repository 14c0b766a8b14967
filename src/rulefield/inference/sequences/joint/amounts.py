"""By how much labelings break rules, for all chains at once: what decoding asks first."""

import numpy as np

from rulefield.inference.flatten import Cache
from rulefield.problem.amounts import Evaluator, spaces_of
from rulefield.problem.chain_rules import CompiledRule
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
