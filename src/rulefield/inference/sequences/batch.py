"""Many chains at once: those whose rules have the same tables go through the first levels of ``auto`` in compiled calls."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.inference.flatten import Flat, local_edges, local_edges_vary
from rulefield.inference.result import Breach, Result, Status
from rulefield.inference.sequences.auto import DUAL_ITERATIONS, NODE_LIMIT, PATH_NODES
from rulefield.inference.sequences.check import certify
from rulefield.inference.sequences.prepare import has_large_costs
from rulefield.inference.sequences.progress import run_first
from rulefield.kernels.lattice.first import LEVELS, ready_batch
from rulefield.problem.chain import Chains


class Settled(NamedTuple):
    """What the first levels found of some chains, in arrays, so that callers that need labels only build no ``Result``."""

    numbers: np.ndarray
    """The chains, ascending."""
    offsets: np.ndarray
    """Chain ``numbers[i]`` has the labels ``offsets[i] : offsets[i + 1]``."""
    labels: np.ndarray
    sure: np.ndarray
    """Whether the labels are proved best, (chains,); what else is said of the other chains is not to be used."""
    worth: np.ndarray
    """Score, objective and bound, (chains, 3)."""
    effort: np.ndarray
    """Who settled it, Viterbi passes, search nodes, rules that lowered scores, (chains, 4)."""
    amounts: np.ndarray
    """By how much the labels break each rule of ``own``, (chains, rules)."""
    own: Flat

    def results(self) -> dict[int, Result]:
        """Answers that are proved, by the number of their chain."""
        broken = _broken(self.amounts, self.own)
        cuts, worths, efforts = self.offsets.tolist(), self.worth.tolist(), self.effort.tolist()
        numbers, found = self.numbers.tolist(), {}
        for i in np.flatnonzero(self.sure).tolist():
            score, objective, bound = worths[i]
            by, passes, nodes, _ = efforts[i]
            path = self.labels[cuts[i] : cuts[i + 1]]
            found[numbers[i]] = Result(
                path, score, objective, bound, Status.optimal, LEVELS[by], passes + nodes, broken.get(i, ())
            )
        return found


def settle(chains: Chains, rules: Sequence[Flat], which: np.ndarray, node_limit: int = NODE_LIMIT) -> list[Settled]:
    """Send chains through the first levels of ``auto``; chain i has the rules ``rules[which[i]]``.

    Duals, prices of automata and paths, and the checker's judgment of each answer, run for all chains with the same tables
    in three compiled calls that hold no lock. Chains without tokens, and rules that these calls cannot read, are left out.
    """
    settled = []
    for places in _groups(chains, rules, which):
        numbers = np.flatnonzero(places[which] & (np.diff(chains.offsets) > 0))
        if len(numbers):
            some = [rules[k] for k in which[numbers].tolist()]
            settled.append(_solve(chains.of(numbers), some, numbers, min(PATH_NODES, node_limit)))
    return settled


def _groups(chains: Chains, rules: Sequence[Flat], which: np.ndarray) -> list[np.ndarray]:
    """Return which rules have the same tables and weights, (rules,) for each group; none that these calls cannot read."""
    longest = np.zeros(len(rules), np.int64)
    np.maximum.at(longest, which, np.diff(chains.offsets))
    groups: dict[tuple, list[int]] = {}
    for k, (own, n) in enumerate(zip(rules, longest.tolist())):
        flat = own.together or own
        if chains.unary.shape[1] and not flat.shared.rows_only and not has_large_costs(flat, n):
            key = id(flat.shared), id(own.shared), flat.tables.weight.tobytes(), own.tables.weight.tobytes()
            groups.setdefault(key, []).append(k)
    return [np.isin(np.arange(len(rules)), members) for members in groups.values()]


def _solve(chains: Chains, rules: list[Flat], numbers: np.ndarray, path_nodes: int) -> Settled:
    """Decode chains, each with its rules, whose tables are all the same."""
    own, flat = rules[0], rules[0].together or rules[0]
    read = [r.together or r for r in rules]
    unary, pairwise, tokens, steps = chains
    count, m = len(rules), unary.shape[1]
    classes = np.concatenate([r.classes.ravel() for r in read])
    places = _places(tokens, steps, flat)
    ready, arriving = unary.copy(), np.empty((int(places[:, 1].max()), m, m))
    offset, right = np.empty(count), np.empty(count, np.bool_)
    ready_batch(
        ready, pairwise, tokens, steps, flat.tables, classes, flat.shared.folds, arriving, places, offset, right
    )
    labels, duals = np.zeros(len(unary), np.int64), np.zeros((count, len(flat.caps)))
    values, effort = np.empty((count, 3)), np.empty((count, 4), np.int64)
    lowered, order = np.empty_like(unary), np.empty((count, len(flat.rules)), np.int64)
    caps = np.array([r.caps for r in read]).reshape(count, -1)
    run_first(
        ready, arriving, tokens, places, flat.tables, classes, caps, DUAL_ITERATIONS, path_nodes,
        labels, lowered, duals, order, values, effort,
    )  # fmt: skip
    rows = [r.classes.reshape(len(own.rules), n) for r, n in zip(rules, np.diff(tokens).tolist())]
    own_classes = np.concatenate(rows, axis=1)
    worth, amounts, sure = certify(chains, own, own_classes, labels, len(flat.rules), offset, values)
    return Settled(numbers, tokens, labels, sure & right, worth, effort, amounts, own)


def _broken(amounts: np.ndarray, own: Flat) -> dict[int, tuple[Breach, ...]]:
    """Rules that each chain's labels break, by the chain's place."""
    found: dict[int, list[Breach]] = {}
    places, rules = np.nonzero(amounts)
    for i, r, amount in zip(places.tolist(), rules.tolist(), amounts[places, rules].tolist()):
        rule = own.rules[r]
        found.setdefault(i, []).append(Breach(rule.rule, float(amount), rule.weight * (1.0 if rule.once else amount)))
    return {i: tuple(broken) for i, broken in found.items()}


def _places(tokens: np.ndarray, steps: np.ndarray, flat: Flat) -> np.ndarray:
    """Where each chain's transposed matrices go: its own where rules are folded into steps, else those of its pairwise."""
    n = np.diff(tokens)
    if not local_edges(flat.tables):
        return steps
    sizes = steps[:, 1] - steps[:, 0]
    if local_edges_vary(flat.tables):
        sizes = np.maximum(n - 1, 1)
    ends = np.cumsum(sizes)
    return np.stack([ends - sizes, ends], axis=1)
