"""Logic factors and rows as small state machines over nodes: the form that message passing reads."""

from dataclasses import dataclass

import numpy as np

from rulefield.problem.graph_problem import GraphProblem

STATE_LIMIT = 4096
SCALES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 100, 1000)


@dataclass(frozen=True)
class Machine:
    """A score that depends on the labels of ``nodes`` only through the letters that they spell.

    Parameters
    ----------
    nodes : ndarray of int64, shape (k,), each once
    letters : list of ndarray of int64
        Letter of each label of each node.
    delta : ndarray of int64, shape (n_letters, n_states)
        Next state; the initial state is 0 and reading is commutative, so that nodes may be read in any order.
    final : ndarray of float64, shape (n_states,)
        Score of ending in a state: minus the cost, ``-inf`` where a hard rule is broken.
    """

    nodes: np.ndarray
    letters: list[np.ndarray]
    delta: np.ndarray
    final: np.ndarray

    def table(self) -> np.ndarray:
        """Score of every combination of labels: one axis for each node (for machines of 0, 1 or 2 nodes)."""
        states = np.zeros((), np.int64)
        for letters in self.letters:
            states = self.delta[letters, states[..., None]]
        return self.final[states]


def machines(problem: GraphProblem) -> tuple[list[Machine], np.ndarray]:
    """All factors and rows as machines, and the numbers of rows that would need too many states."""
    sizes = np.concatenate([problem.potentials.n_labels, np.full(problem.rows.n_auxiliary, 2)])
    made = [_logic_machine(problem, f, sizes) for f in range(problem.logic.n_factors)]
    rest = []
    for r in range(problem.rows.n_rows):
        machine = _row_machine(problem, r, sizes)
        if machine is None:
            rest.append(r)
        else:
            made.append(machine)
    return made, np.array(rest, dtype=np.int64)


def _logic_machine(problem: GraphProblem, f: int, sizes: np.ndarray) -> Machine:
    logic, same = problem.logic, problem.logic.canonical
    span = slice(logic.pointer[f], logic.pointer[f + 1])
    node, label, negated = logic.atom_node[span], logic.atom_label[span], same.negated[span]
    nodes = np.unique(node)
    if same.has_output[f]:
        bits = np.where(same.is_output[span], 2, 1)
        letters = [_spell(v, sizes, node, label, negated, bits, np.bitwise_or) for v in nodes]
        delta = np.arange(4)[:, None] | np.arange(4)[None, :]
        broken = np.array([False, True, True, False])
        return Machine(nodes, letters, delta, np.where(broken, -logic.weight[f], 0.0))
    ones = np.ones(len(node), np.int64)
    counts = [_spell(v, sizes, node, label, negated, ones, np.add) for v in nodes]
    low, high = int(same.low[f]), int(same.high[f])
    top = low if high >= len(node) else max(high + 1, 0)
    state = np.arange(top + 1)
    broken = (state < low) | (state > high)
    return _counting(nodes, counts, top, np.where(broken, -logic.weight[f], 0.0))


def _spell(
    v: int,
    sizes: np.ndarray,
    node: np.ndarray,
    label: np.ndarray,
    negated: np.ndarray,
    amount: np.ndarray,
    join: np.ufunc,
) -> np.ndarray:
    """Join of the amounts of the literals that hold for each label of node v."""
    here = node == v
    holds = (np.arange(sizes[v])[:, None] == label[here]) ^ negated[here]
    return join.reduce(np.where(holds, amount[here], 0), axis=1).astype(np.int64)


def _counting(nodes: np.ndarray, counts: list[np.ndarray], top: int, final: np.ndarray) -> Machine:
    """Machine that adds counts and stays at ``top`` once it is reached."""
    steps = np.unique(np.concatenate(counts)) if counts else np.zeros(1, np.int64)
    delta = np.minimum(np.arange(top + 1)[None, :] + steps[:, None], top)
    return Machine(nodes, [np.searchsorted(steps, c).astype(np.int64) for c in counts], delta, final)


def _row_machine(problem: GraphProblem, r: int, sizes: np.ndarray) -> Machine | None:
    rows = problem.rows
    span = slice(rows.pointer[r], rows.pointer[r + 1])
    node, label, value = rows.atom_node[span], rows.atom_label[span], rows.value[span]
    scale = next((k for k in SCALES if np.abs(value * k - np.rint(value * k)).max(initial=0.0) < 1e-12), None)
    if scale is None:
        return None
    amount = np.rint(value * scale).astype(np.int64)
    nodes = np.unique(node)
    plain = np.zeros(len(node), np.bool_)
    counts = [_spell(v, sizes, node, label, plain, amount, np.add) for v in nodes]
    least = sum(int(c.min()) for c in counts)
    counts = [c - c.min() for c in counts]
    room = rows.bound[r] * scale - least + 1e-9
    most = sum(int(c.max()) for c in counts)
    hard = np.isinf(rows.weight[r])
    top = max(0, min(most, int(np.floor(room)) + 1)) if hard else most
    if top > STATE_LIMIT:
        return None
    over = np.maximum(0.0, np.arange(top + 1) - room)
    cost = np.zeros(top + 1)
    cost[over > 0] = rows.weight[r] * (over[over > 0] + 1e-9) / scale
    return _counting(nodes, counts, top, -cost)
