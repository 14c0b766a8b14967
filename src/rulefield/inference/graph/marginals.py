"""Marginals of a graph's field: exact by variable elimination if its tables are small, else tree-reweighted.

Under rules they are exact or refused. Every rule is an automaton that reads its nodes one after the other
(:mod:`rulefield.inference.graph.automata`); its states become variables between the nodes' labels, so that the whole is
a product of small tables. The cost is that of the largest table: small on small graphs, on forests under rules about few
nodes or about counts, and on thin graphs.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph.automata import GraphAutomaton, automata
from rulefield.inference.graph.evaluate import check_scores
from rulefield.inference.graph.exact.sums import TableList, refuse_size
from rulefield.inference.graph.fields import exact_field_of
from rulefield.inference.graph.reweighted import ReweightedField, Sums
from rulefield.kernels.graph.evaluate import EXCESS
from rulefield.problem.graph import GraphPotentials, GraphProblem, GraphUnion

METHODS = ("auto", "exact", "tree_reweighted")
AUTO_ENTRIES = 2**14
"""Entries of one table: with larger ones ``auto`` leaves exact sums alone, since sweeps are faster."""
TABLE_ENTRIES = 512
"""Combinations of labels: a rule with at most so many is one table."""


@dataclass(frozen=True)
class GraphMarginals:
    """Marginals of the field p(y) proportional to exp(score), laid out like the scores.

    ``log_partition`` is exact, or an upper bound at convergence (``tree_reweighted``), as ``method`` says.
    """

    node: np.ndarray
    edge: np.ndarray
    log_partition: float
    method: str
    iterations: int
    converged: bool


def graph_marginals(
    potentials: GraphPotentials,
    method: str = "auto",
    iterations: int = 500,
    tolerance: float = 1e-8,
) -> GraphMarginals:
    """Marginals of a field without rules. The kernels release the GIL.

    Parameters
    ----------
    potentials : GraphPotentials
    method : {"auto", "exact", "tree_reweighted"}
        ``auto`` is ``exact`` on forests and wherever elimination needs small tables only, else ``tree_reweighted``; ``exact``
        is refused (``InputError``) if its tables would be too large.
    iterations : int
        Most rounds of sweeps on a graph with loops.
    tolerance : float
        Largest change of a message (in probability) in the last round of a converged run.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    check_scores(potentials)
    p = potentials.without_loops()
    graph = GraphUnion(p.n_labels, p.edges, np.array([0, p.n_nodes]), np.array([0, len(p.edges)]))
    exact = None
    if method != "tree_reweighted" and not graph.is_forest:
        exact = exact_field_of(graph, np.inf if method == "exact" else AUTO_ENTRIES)
        if exact is None and method == "exact":
            refuse_size(np.inf)
    field = ReweightedField(graph, iterations, tolerance) if exact is None else exact
    sums = field.marginals(p.unary, p.pairwise)
    if np.isnan(sums.node).any() or not sums.values[0] > -np.inf:
        raise InputError("no labeling is allowed: every one has a score of -inf; allow more labels.")
    swept = field.swept if isinstance(field, ReweightedField) else 1
    is_exact = graph.is_forest or exact is not None  # one sweep is exact on forests
    return GraphMarginals(
        sums.node,
        _with_loops(sums, potentials),
        float(sums.values[0]),
        "exact" if is_exact else "tree_reweighted",
        swept,
        is_exact or swept < iterations,
    )


def _with_loops(sums: Sums, p: GraphPotentials) -> np.ndarray:
    """Return edge marginals with those of the edges from a node to itself, which are the node's."""
    edge = np.zeros_like(p.pairwise)
    edge[~np.repeat(p.loops, np.diff(p.pairwise_offset))] = sums.edge
    for node, diagonal in p.diagonals():
        edge[diagonal] = sums.node[node]
    return edge


# --- under rules ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactSums:
    """Marginals, laid out like scores of nodes, of p(y) proportional to exp(score - cost of broken rules).

    If hard rules allow no labeling, ``log_partition`` is ``-inf`` and marginals are 0.
    """

    node: np.ndarray
    log_partition: float


def exact_sums(problem: GraphProblem) -> ExactSums:
    """Sum over all labelings; O(variables x largest table), refused (``InputError``) if a table or a rule would be too large.

    Auxiliary variables of nested rules take the values that cost least, so they are maximized out before labels are summed.
    """
    p = problem.potentials
    domains = _domains(p)
    node = np.zeros(len(p.unary))
    if any(len(domain) == 0 for domain in domains):
        return ExactSums(node, -np.inf)
    tables, hidden = _tables(problem, domains)
    share, logs = tables.plan(hidden).sum(tables.flat())
    total = tables.constant + float(logs.sum())
    if total > -np.inf:
        places = [p.unary_offset[v] + domain for v, domain in enumerate(domains)]
        node[np.concatenate([np.zeros(0, np.int64), *places])] = share[: sum(map(len, domains))]
    return ExactSums(node, total)


def exact_draws(problem: GraphProblem, n_draws: int, rng: np.random.Generator) -> np.ndarray | None:
    """Draw labelings of the distribution that :func:`exact_sums` sums, (n_draws, n_nodes); None if none is allowed."""
    domains = _domains(problem.potentials)
    if any(len(domain) == 0 for domain in domains):
        return None
    tables, hidden = _tables(problem, domains)
    plan, values = tables.plan(hidden), tables.flat()
    if tables.constant + float(plan.sum(values)[1].sum()) == -np.inf:
        return None
    drawn = plan.draw(values, n_draws, rng)
    columns = [domain[drawn[:, v]] for v, domain in enumerate(domains)]
    return np.stack(columns, axis=1) if columns else np.zeros((n_draws, 0), np.int64)


def _domains(p: GraphPotentials) -> list[np.ndarray]:
    """Labels that each node may have; a node whose label is known has one and costs nothing."""
    return [np.flatnonzero(np.isfinite(p.unary[a:b])) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])]


def _tables(problem: GraphProblem, domains: list[np.ndarray]) -> tuple[TableList, list[int]]:
    """Scores and rules as tables, those of the nodes first, and the variables that take their best values."""
    p = problem.potentials.without_loops()
    n_auxiliary = problem.rows.n_auxiliary
    domains = [*domains, *[np.arange(2)] * n_auxiliary]
    tables = TableList([len(domain) for domain in domains])
    for v in range(p.n_nodes):
        tables.multiply((v,), p.unary[p.unary_offset[v] + domains[v]])
    for e, (i, j) in enumerate(p.edges.tolist()):
        pair = p.pairwise[p.pairwise_offset[e] : p.pairwise_offset[e + 1]].reshape(p.n_labels[i], p.n_labels[j])
        tables.multiply((i, j), pair[np.ix_(domains[i], domains[j])])
    for t in range(problem.tables.n_tables):
        nodes = problem.tables.node[problem.tables.pointer[t] : problem.tables.pointer[t + 1]]
        refuse_size(float(np.prod(p.n_labels[nodes].astype(float))))
        scores = problem.tables.dense(t, p.n_labels[nodes])
        tables.multiply(nodes.tolist(), scores[np.ix_(*(domains[v] for v in nodes))] if len(nodes) else scores)
    rules, rest = automata(problem)
    for r in rest:
        _add_row(tables, problem, int(r), domains)
    order = reading_order(p.n_nodes, p.edges)
    hidden = list(range(p.n_nodes, p.n_nodes + n_auxiliary))
    place = np.concatenate([np.argsort(order), np.arange(p.n_nodes, p.n_nodes + n_auxiliary)])
    for automaton in rules:
        states = _add_automaton(tables, automaton, domains, place)
        if len(automaton.nodes) and automaton.nodes.max() >= p.n_nodes:
            hidden += states
    return tables, hidden


def _add_automaton(
    tables: TableList, automaton: GraphAutomaton, domains: list[np.ndarray], place: np.ndarray
) -> list[int]:
    """Multiply by a rule; return the variables that stand for its states (none where it is one table)."""
    letters = [own[domains[v]] for own, v in zip(automaton.letters, automaton.nodes)]
    nodes = automaton.nodes.tolist()
    if np.prod([float(len(own)) for own in letters]) <= TABLE_ENTRIES:
        tables.multiply(nodes, GraphAutomaton(automaton.nodes, letters, automaton.delta, automaton.final).table())
        return []
    order = np.argsort(place[automaton.nodes], kind="stable")
    before, states, made = np.zeros(1, np.int64), list[int](), list[int]()
    for i in order[:-1]:
        after = automaton.delta[letters[i][:, None], before]
        reached = np.unique(after)
        refuse_size(float(after.size) * len(reached))
        made.append(tables.variable(len(reached)))
        hit = np.where(after[..., None] == reached, 0.0, -np.inf)
        scope = [nodes[i], *states, made[-1]]
        tables.multiply(scope, hit if states else hit[:, 0])
        before, states = reached, made[-1:]
    last = order[-1]
    tables.multiply([nodes[last], *states], automaton.final[automaton.delta[letters[last][:, None], before]])
    return made


def _add_row(tables: TableList, problem: GraphProblem, r: int, domains: list[np.ndarray]) -> None:
    """Multiply by a row whose numbers have no small automaton: one table over all its nodes."""
    rows = problem.rows
    span = slice(rows.pointer[r], rows.pointer[r + 1])
    nodes, which = np.unique(rows.atom_node[span], return_inverse=True)
    refuse_size(float(np.prod([float(len(domains[v])) for v in nodes])))
    total = np.full((), -rows.bound[r])
    for k, v in enumerate(nodes):
        mine = which == k
        own = np.bincount(rows.atom_label[span][mine], rows.value[span][mine], int(domains[v].max()) + 1)
        total = total[..., None] + own[domains[v]]
    over = total > EXCESS
    cost = np.zeros(total.shape)
    cost[over] = rows.weight[r] * total[over]
    tables.multiply(nodes.tolist(), -cost)


def reading_order(n_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Order in which automata read nodes, such that few nodes read have neighbors that are not.

    Greedy: next comes the node that leaves the fewest nodes open, the newest neighborhood first. O(n x open nodes).
    """
    neighbors: list[set[int]] = [set() for _ in range(n_nodes)]
    for i, j in edges.tolist():
        if i != j:
            neighbors[i].add(j)
            neighbors[j].add(i)
    waiting = [len(own) for own in neighbors]  # neighbors not yet read
    read = np.zeros(n_nodes, dtype=bool)
    fringe: dict[int, None] = {}
    unread = sorted(range(n_nodes), key=lambda v: len(neighbors[v]), reverse=True)
    order = []
    for _ in range(n_nodes):
        while unread and read[unread[-1]]:
            unread.pop()
        best = unread[-1]
        if fringe:
            closes = {v: sum(1 for u in neighbors[v] if read[u] and waiting[u] == 1) for v in fringe}
            best = min(reversed(fringe), key=lambda v: (waiting[v] > 0) - closes[v])
        fringe.pop(best, None)
        read[best] = True
        order.append(best)
        for u in neighbors[best]:
            waiting[u] -= 1
            if not read[u]:
                fringe[u] = None
    return np.array(order, dtype=np.int64)
