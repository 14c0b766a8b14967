"""Rules of sequences on the paths of a graph: local ones as clauses on pairs, all others as rows."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.chain_rules import CompiledRule, Tally
from rulefield.problem.logic import Logic
from rulefield.rules.chain import RuleCompiler
from rulefield.rules.chain.rows import Affine, total
from rulefield.rules.graph.factors import FactorBuilder, GraphRowBuilder, atoms_sum
from rulefield.rules.rule import HARD, Rule


class PathRules:
    """Compiles one rule of sequences, with the weight of the whole, for the paths of graph after graph."""

    def __init__(self, rule: Rule, labels: Sequence[str]):
        if rule.per == "once" and not rule.is_hard:
            raise RuleError(f'"{rule.label}": along pays for each unit of violation; leave per="once" out.')
        self._compiler = RuleCompiler([rule], labels, None)
        self._weight = HARD if rule.is_hard else float(rule.weight)

    def add(
        self, paths: Sequence[Sequence[int]], first: int, factors: FactorBuilder, rows: GraphRowBuilder, number: int
    ) -> None:
        """Add factors and rows for all paths; ``first`` is the number in the problem of the type's first node."""
        local: list[tuple[np.ndarray, CompiledRule]] = []
        for path in paths:
            nodes = first + np.array(path, dtype=np.int64)
            (rule,) = self._compiler(path)
            if rule.tally is not None and _is_local(rule.tally):
                local.append((nodes, rule))
            else:
                _add_rows(rule, nodes, len(self._compiler.labels), rows, self._weight, number)
        if local:
            tally = local[0][1].tally
            assert tally is not None
            self._add_clauses(tally, local, factors, number)

    def _add_clauses(
        self, tally: Tally, local: list[tuple[np.ndarray, CompiledRule]], factors: FactorBuilder, number: int
    ) -> None:
        """One clause for each block of labels, or of pairs of labels, that costs something."""
        heads = np.array([nodes[0] for nodes, _ in local])
        head_class = np.array([rule.token_class[0] for _, rule in local])
        pairs = np.concatenate([np.stack([nodes[:-1], nodes[1:]], axis=1) for nodes, _ in local])
        classes = np.concatenate([rule.token_class[1:] for _, rule in local])
        at_head = tally.node if tally.first is None else tally.first
        for c in range(len(tally.node)):
            for value in np.unique(at_head[c][at_head[c] > 0]).tolist():
                members = heads[head_class == c, None]
                self._clause(members, [at_head[c] == value], int(value), factors, number)
            amounts = _pair_amounts(tally, c)
            patterns, group = np.unique(amounts, axis=0, return_inverse=True)
            for k, pattern in enumerate(patterns):
                for value in np.unique(pattern[pattern > 0]).tolist():
                    wrong = [group.ravel() == k, pattern == value]
                    self._clause(pairs[classes == c], wrong, int(value), factors, number)

    def _clause(
        self, members: np.ndarray, wrong: list[np.ndarray], copies: int, factors: FactorBuilder, number: int
    ) -> None:
        """For each row of members: not all of them have one of their wrong labels."""
        allowed = [np.flatnonzero(~labels) for labels in wrong]
        node = np.concatenate([np.repeat(members[:, [k]], len(a), axis=1) for k, a in enumerate(allowed)], axis=1)
        label = np.tile(np.concatenate(allowed), len(members))
        size = np.full(len(members), node.shape[1])
        negated = np.zeros(node.size, dtype=bool)
        for _ in range(copies):
            factors.add(Logic.any_of, size, node.ravel(), label, negated, 0, self._weight, number)


def _pair_amounts(tally: Tally, c: int) -> np.ndarray:
    """Return what a step to a token of class c adds, [from, to]."""
    steps = np.zeros((tally.node.shape[1],) * 2, np.int32) if tally.edge is None else tally.edge[c]
    return steps + tally.node[c]


def _is_local(tally: Tally) -> bool:
    """Whether every step adds something >= 0, so that it can be a clause."""
    at_head = tally.node if tally.first is None else tally.first
    return bool(at_head.min() >= 0 and all(_pair_amounts(tally, c).min() >= 0 for c in range(len(tally.node))))


def _add_rows(
    rule: CompiledRule, nodes: np.ndarray, m: int, builder: GraphRowBuilder, weight: float, number: int
) -> None:
    """Add the linear rows of a rule on one path; a pair of labels becomes a variable that equals their product."""
    rows, n = rule.make_rows(), len(nodes)

    @cache
    def variable(column: int) -> Affine:
        if column < n * m:
            return atoms_sum([(int(nodes[column // m]), column % m)])
        product = builder.auxiliary()
        step, pair = divmod(column - n * m, m * m)
        if step < n - 1:
            a, b = variable(step * m + pair // m), variable((step + 1) * m + pair % m)
            for left in (product - a, product - b, a + b - product - 1.0):
                builder.limit(left, HARD, number)
        return product

    for r in range(len(rows.bound)):
        some = np.flatnonzero(rows.row == r)
        terms = [
            value * variable(column) for column, value in zip(rows.column[some].tolist(), rows.value[some].tolist())
        ]
        builder.limit(total(terms) - float(rows.bound[r]), weight if rows.may_slack[r] else HARD, number)
