"""Graph problems as a proof file states them: nodes with scores, edges with scores, rules over the nodes that they name."""

from dataclasses import replace
from typing import Any

import numpy as np

from rulefield.inference.proof.statement import Text, state_number, state_numbers
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, LogicFactors


def state_graph(problem: GraphProblem) -> Text | None:
    """State a problem without tables, auxiliary variables as nodes after its own; None if a row counts in fractions."""
    p = problem.potentials
    sizes = np.concatenate([p.n_labels, np.full(problem.rows.n_auxiliary, 2)]).astype(np.int64)
    unary = [state_numbers(row) for row in np.split(p.unary, p.unary_offset[1:-1])]
    unary += [[0.0, 0.0]] * problem.rows.n_auxiliary
    tables = np.split(p.pairwise, p.pairwise_offset[1:-1]) if len(p.edges) else []
    parts: list[Any] = []
    for (i, j), table in zip(p.edges.tolist(), tables):
        parts.append({"nodes": [i, j], "scores": state_numbers(table.reshape(sizes[i], sizes[j]))})
    most = int(sizes.max(initial=0))
    parts += [state_factor(problem.logic, f, most) for f in range(problem.logic.n_factors)]
    parts += [state_row(problem.rows, r, most) for r in range(problem.rows.n_rows)]
    return None if None in parts else {"unary": unary, "parts": parts}


def state_factor(logic: LogicFactors, f: int, most: int) -> Text | None:
    """State a logic factor: a range of a count of true literals, or an output that tells whether one is true."""
    same, span = logic.canonical, slice(int(logic.pointer[f]), int(logic.pointer[f + 1]))
    nodes, label = logic.atom_node[span].tolist(), logic.atom_label[span].tolist()
    negated, outputs = same.negated[span].tolist(), same.is_output[span].tolist()
    named = list(dict.fromkeys(nodes))
    if not named:
        return None
    count, output = np.zeros((len(named), most), np.int64), np.zeros((len(named), most), np.int64)
    for v, b, flip, is_output in zip(nodes, label, negated, outputs):
        truth = (np.arange(most) == b) ^ flip
        (output if is_output else count)[named.index(v)] += truth
    head = {"nodes": named, "weight": state_number(logic.weight[f]), "once": True, "classes": list(range(len(named)))}
    if not same.has_output[f]:
        above = {"node": count.tolist(), "bound": int(same.high[f])}
        below = {"node": (-count).tolist(), "bound": -int(same.low[f])}
        return head | {"counters": [above, below]}
    letter = (count > 0) + 2 * (output > 0)
    arcs = [[[[q | a, 0]] for a in range(4)] for q in range(4)]
    automaton = {"letter": letter.tolist(), "initial": [0, -1, -1, -1], "final": [0, 1, 1, 0], "arcs": arcs}
    return head | {"automaton": automaton}


def state_row(rows: GraphRows, r: int, most: int) -> Text | None:
    """State a row: the excess of a sum over its bound."""
    span = slice(int(rows.pointer[r]), int(rows.pointer[r + 1]))
    nodes, value = rows.atom_node[span].tolist(), rows.value[span]
    named = list(dict.fromkeys(nodes))
    if not named or (value != np.round(value)).any() or rows.bound[r] != np.round(rows.bound[r]):
        return None
    table = np.zeros((len(named), most), np.int64)
    for v, b, x in zip(nodes, rows.atom_label[span].tolist(), value.tolist()):
        table[named.index(v), b] += int(x)
    classes = list(range(len(named)))
    counter = {"node": table.tolist(), "bound": int(rows.bound[r])}
    return {"nodes": named, "weight": state_number(rows.weight[r]), "classes": classes, "counters": [counter]}


def simple_graph(problem: GraphProblem) -> GraphProblem:
    """Return the same problem with one edge per pair of nodes; edges from a node to itself are scores of the node."""
    p = problem.potentials
    ends = np.sort(p.edges, axis=1)
    if len(np.unique(ends, axis=0)) == len(ends) and (ends[:, 0] < ends[:, 1]).all():
        return problem
    unary, merged = p.unary.copy(), dict[tuple[int, int], np.ndarray]()
    for (i, j), scores in zip(p.edges.tolist(), np.split(p.pairwise, p.pairwise_offset[1:-1])):
        table = scores.reshape(p.n_labels[i], p.n_labels[j])
        if i == j:
            unary[p.unary_offset[i] : p.unary_offset[i + 1]] += table.diagonal()
        else:
            key, table = ((i, j), table) if i < j else ((j, i), table.T)
            merged[key] = merged[key] + table if key in merged else table
    pairwise = np.concatenate([np.zeros(0), *(table.ravel() for table in merged.values())])
    edges = np.array([*merged], np.int64).reshape(-1, 2)
    return replace(problem, potentials=GraphPotentials(p.n_labels, unary, edges, pairwise))


def with_tables(problem: GraphProblem, labels: np.ndarray) -> np.ndarray:
    """Labels with those of the nodes that stand for tables after them (see ``GraphProblem.pairwise``)."""
    tables, sizes, found = problem.tables, problem.potentials.n_labels, labels.tolist()
    for t in range(tables.n_tables):
        nodes = tables.node[tables.pointer[t] : tables.pointer[t + 1]]
        if len(nodes) not in (1, 2):
            rows, _ = tables.combinations(t, sizes[nodes])
            found.append(int(np.flatnonzero((rows == labels[nodes]).all(axis=1))[0]))
    return np.array(found, np.int64)


def with_auxiliary(problem: GraphProblem, labels: np.ndarray) -> np.ndarray | None:
    """Labels with the auxiliary variables after them, each 1 if what defines it holds; None if one is not defined."""
    rows = problem.rows
    found = np.concatenate([labels, np.zeros(rows.n_auxiliary, np.int64)])
    if rows.n_auxiliary and rows.definitions is None:
        return None
    for j in range(rows.n_auxiliary):
        pointer, numbers = rows.definitions  # type: ignore[misc]
        found[len(labels) + j] = 1
        for r in numbers[pointer[j] : pointer[j + 1]].tolist():
            span = slice(int(rows.pointer[r]), int(rows.pointer[r + 1]))
            true = found[rows.atom_node[span]] == rows.atom_label[span]
            if rows.value[span][true].sum() > rows.bound[r]:
                found[len(labels) + j] = 0
    return found
