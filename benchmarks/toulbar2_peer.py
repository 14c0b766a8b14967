"""toulbar2 on a graph problem of rulefield: the peer of ``graph_engines.py``. It needs the package pytoulbar2."""

from dataclasses import replace
from typing import Any

import numpy as np

from rulefield.inference.graph.automata import GraphAutomaton
from rulefield.inference.graph.evaluate import Answer, certify, no_answer
from rulefield.inference.graph.parts import parts_of
from rulefield.inference.result import Result
from rulefield.problem.graph import GraphPotentials, GraphProblem

DIGITS, SPARE_DIGITS = 12, 7
"""Decimal digits that costs are rounded to: at most, and such that all rounding together stays below 1e-7."""
LARGEST_COST = 1e17
"""Of all costs together, in rounded units: they are stored as whole numbers of 63 bits."""


def decode_by_toulbar2(problem: GraphProblem, node_limit: int = 100_000, seconds: float | None = None) -> Result:
    """Solve with toulbar2 (virtual arc consistency, ``vac=1``); costs are rounded by less than 1e-7 in all, where 63 bits do.

    The bound allows for that rounding. ``node_limit`` limits backtracks. A hard count of atoms is a linear
    constraint; other rules over several nodes are chains of state variables.
    """
    parts, _ = parts_of(problem)
    writer = _Writer(parts.potentials)
    logic, same = problem.logic, problem.logic.canonical
    for k, automaton in enumerate(parts.automata):
        if k < logic.n_factors and np.isinf(logic.weight[k]) and not same.has_output[k] and len(automaton.nodes) > 2:
            writer.add_count(problem, k)
        else:
            writer.add_automaton(automaton, f"rule{k}")
    answer = _solve(problem.potentials.n_nodes + problem.rows.n_auxiliary, writer, node_limit, seconds)
    return certify(problem, problem, 0.0, answer)


class _Writer:
    """Cost functions (0 or more, ``inf`` forbids) over variables, with what was taken out to make them so."""

    def __init__(self, p: GraphPotentials):
        self.sizes = [(f"node{v}", int(m)) for v, m in enumerate(p.n_labels)]
        self.functions: list[tuple[list[int], np.ndarray]] = []
        self.constraints: list[tuple[list[tuple[int, int, int]], str, int]] = []
        self.constant = 0.0
        for v in range(p.n_nodes):
            self.add([v], p.unary[p.unary_offset[v] : p.unary_offset[v + 1]])
        for e, (i, j) in enumerate(p.edges):
            table = p.pairwise[p.pairwise_offset[e] : p.pairwise_offset[e + 1]].reshape(p.n_labels[i], p.n_labels[j])
            self.add([int(i), int(j)] if i != j else [int(i)], table if i != j else np.diagonal(table))

    def add(self, scope: list[int], scores: np.ndarray) -> None:
        """Add scores over the variables of ``scope``."""
        top = float(np.max(scores))
        self.constant += top
        if top > -np.inf and scope:
            self.functions.append((scope, top - np.asarray(scores)))

    def add_count(self, problem: GraphProblem, f: int) -> None:
        """Add low <= number of true literals <= high of one hard factor."""
        logic, same = problem.logic, problem.logic.canonical
        span = slice(logic.pointer[f], logic.pointer[f + 1])
        negated = same.negated[span]
        total: dict[tuple[int, int], int] = {}
        for node, label, flipped in zip(logic.atom_node[span], logic.atom_label[span], negated):
            atom = (int(node), int(label))
            total[atom] = total.get(atom, 0) + (-1 if flipped else 1)
        terms = [(v, y, c) for (v, y), c in total.items() if c]
        shift = int(negated.sum())
        if same.low[f] > 0:
            self.constraints.append((terms, ">=", int(same.low[f]) - shift))
        if same.high[f] < len(negated):
            self.constraints.append((terms, "<=", int(same.high[f]) - shift))

    def add_automaton(self, m: GraphAutomaton, name: str) -> None:
        """Add an automaton: a table for up to two nodes, else one state variable after each position but the last."""
        if len(m.nodes) <= 2:
            self.add([int(v) for v in m.nodes], m.table())
            return
        before: int | None = None
        n_states = len(m.final)
        for k, (v, letters) in enumerate(zip(m.nodes, m.letters)):
            to = m.delta[letters] if before is not None else m.delta[letters, :1]
            if k + 1 == len(m.nodes):
                self.add([int(v), before or 0], m.final[to])
                return
            after = len(self.sizes)
            self.sizes.append((f"{name}_{k}", n_states))
            step = np.where(to[..., None] == np.arange(n_states), 0.0, -np.inf)
            self.add([int(v), after] if before is None else [int(v), before, after], step if k else step[:, 0])
            before = after

    @property
    def worst(self) -> float:
        """More than the finite costs of any assignment."""
        return 1.0 + sum(float(table[np.isfinite(table)].max(initial=0.0)) for _, table in self.functions)


def _solve(n_nodes: int, writer: _Writer, node_limit: int, seconds: float | None) -> Answer:
    import pytoulbar2

    if writer.constant == -np.inf:
        return no_answer(-np.inf, "toulbar2")
    worst = writer.worst
    enough = SPARE_DIGITS + np.ceil(
        np.log10(1 + len(writer.functions))
    )  # with more its bounds creep by less and less
    digits = int(min(DIGITS, enough, np.floor(np.log10(LARGEST_COST / worst))))
    rounding = 10.0**-digits * len(writer.functions)
    network = pytoulbar2.CFN(ubinit=worst, resolution=digits, vac=1, verbose=-1)
    pytoulbar2.tb2.option.backtrackLimit = int(node_limit)
    for name, size in writer.sizes:
        network.AddVariable(name, range(size))
    for scope, table in writer.functions:
        network.AddFunction(scope, np.where(np.isfinite(table), table, worst).ravel().tolist())
    try:
        for terms, operator, right in writer.constraints:
            network.AddGeneralizedLinearConstraint(terms, operator, right)
    except pytoulbar2.tb2.Contradiction:  # found while the rule is posted
        return no_answer(-np.inf, "toulbar2")
    answer: Any = network.Solve(timeLimit=0 if seconds is None else max(1, int(seconds)))
    nodes = int(network.GetNbNodes())
    stopped = bool(pytoulbar2.tb2.option.limited)  # its own word: its clock runs in whole seconds of CPU time
    dual = writer.constant - float(network.GetDDualBound()) + rounding if stopped else -np.inf
    if answer is None:
        return replace(no_answer(dual, "toulbar2", nodes), error=rounding)
    value = writer.constant - float(answer[1])
    labels = np.array(answer[0][:n_nodes], dtype=np.int64)
    return Answer(labels, value, dual if stopped else value + rounding, "toulbar2", nodes, rounding)
