"""Random graph problems, and the best labeling and marginals by trying all of them, from the definitions alone."""

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, Logic, LogicFactors


def all_labelings(sizes):
    """Every labeling, one in each row."""
    if not len(sizes):
        return np.zeros((1, 0), dtype=np.int64)
    return np.stack(np.meshgrid(*(np.arange(m) for m in sizes), indexing="ij"), axis=-1).reshape(-1, len(sizes))


def scores_of(p, labels):
    """Scores of many labelings, by the sum over nodes and edges written out."""
    total = np.zeros(len(labels))
    at = 0
    for v, m in enumerate(p.n_labels):
        total += p.unary[at + labels[:, v]]
        at += m
    at = 0
    for i, j in p.edges:
        wide = p.n_labels[j]
        total += p.pairwise[at + labels[:, i] * wide + labels[:, j]]
        at += p.n_labels[i] * wide
    return total


def holds(kind, truth, limit):
    """Whether each row of truth values satisfies a factor, as AD3 defines it."""
    count = truth.sum(axis=1)
    if truth.shape[1]:
        inputs, out = truth[:, :-1], truth[:, -1]
    return {
        Logic.xor: lambda: count == 1,
        Logic.any_of: lambda: count >= 1,
        Logic.or_out: lambda: inputs.any(axis=1) == out,
        Logic.and_out: lambda: inputs.all(axis=1) == out,
        Logic.budget: lambda: count <= limit,
    }[Logic(kind)]()


def objectives(problem):
    """All labelings (auxiliary values last) and their objectives."""
    p, rows = problem.potentials, problem.rows
    labels = all_labelings([*p.n_labels, *([2] * rows.n_auxiliary)])
    return labels, scores_of(p, labels) - penalties(problem, labels)


def penalties(problem, labels):
    """What each labeling pays for broken rules, by the definitions written out."""
    logic, rows = problem.logic, problem.rows
    total = np.zeros(len(labels))
    for f in range(logic.n_factors):
        atoms = range(logic.pointer[f], logic.pointer[f + 1])
        truth = np.zeros((len(labels), len(atoms)), dtype=bool)
        for k, a in enumerate(atoms):
            truth[:, k] = (labels[:, logic.atom_node[a]] == logic.atom_label[a]) != logic.atom_negated[a]
        total[~holds(logic.kind[f], truth, logic.limit[f])] += logic.weight[f]
    for r in range(rows.n_rows):
        amount = np.full(len(labels), -rows.bound[r])
        for a in range(rows.pointer[r], rows.pointer[r + 1]):
            amount += rows.value[a] * (labels[:, rows.atom_node[a]] == rows.atom_label[a])
        over = amount > 1e-9
        total[over] += rows.weight[r] * amount[over]
    return total


def best_objective(problem):
    """Highest objective, ``-inf`` where the problem is infeasible."""
    return objectives(problem)[1].max()


def exact_marginals(p):
    """Node marginals, edge marginals and log Z by summing over all labelings."""
    labels = all_labelings(p.n_labels)
    total = scores_of(p, labels)
    log_z = logsumexp(total)
    weight = np.exp(total - log_z)
    node = np.concatenate([np.bincount(labels[:, v], weight, m) for v, m in enumerate(p.n_labels)])
    edge = [np.zeros(0)]
    for i, j in p.edges:
        wide = p.n_labels[j]
        edge.append(np.bincount(labels[:, i] * wide + labels[:, j], weight, p.n_labels[i] * wide))
    return node, np.concatenate(edge), log_z


def random_potentials(rng, n_nodes, kind="any", forbidden=0.0, sizes=(2, 3)):
    """Two types of nodes (``sizes`` labels); edges of a forest, nearly all, or any (parallel ones and loops)."""
    n_labels = rng.choice(np.array(sizes), n_nodes).astype(np.int64)
    if kind == "forest":
        edges = [(int(rng.integers(v)), v) for v in range(1, n_nodes) if rng.random() < 0.8]
        edges = [(i, j) if rng.random() < 0.5 else (j, i) for i, j in edges]
    elif kind == "dense":
        edges = [(i, j) for i in range(n_nodes) for j in range(i) if rng.random() < 0.8]
    else:
        edges = rng.integers(0, n_nodes, (int(rng.integers(0, 2 * n_nodes + 1)), 2))
    edges = np.array(edges, dtype=np.int64).reshape(-1, 2)
    place = rng.permutation(n_nodes)
    edges = place[edges] if len(edges) else edges
    unary = rng.normal(size=n_labels.sum())
    pairwise = rng.normal(size=int((n_labels[edges[:, 0]] * n_labels[edges[:, 1]]).sum()))
    unary[rng.random(len(unary)) < forbidden] = -np.inf
    pairwise[rng.random(len(pairwise)) < forbidden] = -np.inf
    return GraphPotentials(n_labels, unary, edges, pairwise)


def random_logic(rng, p, n_factors, soft=0.5):
    """Random factors of every kind; atoms of one factor may share a node."""
    kind = rng.integers(0, len(Logic), n_factors)
    length = rng.integers(1, 6, n_factors)
    node = rng.integers(0, p.n_nodes, length.sum())
    return LogicFactors(
        kind=kind.astype(np.uint8),
        pointer=np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
        atom_node=node.astype(np.int64),
        atom_label=rng.integers(0, p.n_labels[node]),
        atom_negated=rng.random(length.sum()) < 0.3,
        limit=rng.integers(-1, 4, n_factors),
        weight=np.where(rng.random(n_factors) < soft, rng.exponential(1.0, n_factors), np.inf),
        rule=rng.permutation(n_factors),
    )


def random_rows(rng, p, n_rows, n_auxiliary=0, soft=0.5, step=1.0):
    """Random rows; ``step`` 0 draws real coefficients, which have no small automaton."""
    sizes = np.concatenate([p.n_labels, np.full(n_auxiliary, 2)])
    length = rng.integers(1, 6, n_rows)
    node = rng.integers(0, len(sizes), length.sum())
    value = rng.normal(size=length.sum()) * 2
    return GraphRows(
        pointer=np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
        atom_node=node.astype(np.int64),
        atom_label=rng.integers(0, sizes[node]),
        value=np.rint(value / step) * step if step else value,
        bound=rng.integers(-1, 3, n_rows).astype(float),
        weight=np.where(rng.random(n_rows) < soft, rng.exponential(1.0, n_rows), np.inf),
        rule=np.arange(n_rows) + 100,
        n_auxiliary=n_auxiliary,
    )


POWERS = (-9, -3, 0, 0, 0, 0, 0, 3, 6)


def hostile_problem(rng, real_rows=True, soft=(0.5, 0.8, 1.0)):
    """A small problem with everything that may go wrong, before and after a constant is added to its scores.

    Score scales 1e-9 to 1e6, weights 1e-9 to 1e6, forbidden labels and pairs, nodes of one label, loops, parallel
    edges, rules that name no node, auxiliary variables, real coefficients; constants 0, 1e3, 1e6 on nodes and edges.
    """
    n_nodes = int(rng.choice([0, 1, 2, 3, 4, 5, 6, 7], p=[0.01, 0.03, 0.06, 0.1, 0.2, 0.2, 0.2, 0.2]))
    kind = str(rng.choice(["forest", "any", "dense"], p=[0.1, 0.3, 0.6]))
    sizes = [(2,), (2, 3), (1, 2, 3)][rng.integers(3)]
    forbidden = float(rng.choice([0.0, 0.0, 0.03, 0.1]))
    p = random_potentials(rng, n_nodes, kind, forbidden, sizes) if n_nodes else no_nodes()
    scale = 10.0 ** rng.choice([-9, -3, 0, 0, 0, 0, 1, 3, 6])
    p = GraphPotentials(p.n_labels, scale * p.unary, p.edges, scale * rng.choice([0.3, 1.0, 3.0]) * p.pairwise)
    n_auxiliary = int(rng.choice([0, 0, 0, 1, 2])) if n_nodes else 0
    soft = float(rng.choice(soft))
    logic = random_logic(rng, p, int(rng.integers(0, 6)), soft) if n_nodes else LogicFactors.none()
    n_rows = int(rng.choice([0, 0, 1, 2, 3])) if n_nodes else 0
    step = float(rng.choice([1.0, 0.5, 0.0] if real_rows else [1.0, 0.5]))
    rows = random_rows(rng, p, n_rows, n_auxiliary if n_rows else 0, soft, step)
    if rng.random() < 0.3:
        logic = with_empty_factors(rng, logic)
    logic = replace(logic, weight=logic.weight * scale * 10.0 ** rng.choice(POWERS, logic.n_factors))
    rows = replace(rows, weight=rows.weight * scale * 10.0 ** rng.choice(POWERS, rows.n_rows))
    offset = rng.choice([0.0, 0.0, 1e3, -1e3, 1e6, -1e6], 2)
    moved = GraphPotentials(p.n_labels, p.unary + offset[0], p.edges, p.pairwise + offset[1])
    return GraphProblem(p, logic, rows), GraphProblem(moved, logic, rows)


def no_nodes():
    return GraphPotentials(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2), np.int64), np.zeros(0))


def with_empty_factors(rng, logic):
    """Add factors that name no node, as rules over an empty relation or type do; they come first."""
    k = int(rng.integers(1, 3))
    kind = rng.choice([Logic.xor, Logic.any_of, Logic.budget], k)
    return LogicFactors(
        np.concatenate([kind, logic.kind]).astype(np.uint8),
        np.concatenate([np.zeros(k, np.int64), logic.pointer]),
        logic.atom_node,
        logic.atom_label,
        logic.atom_negated,
        np.concatenate([rng.integers(-1, 2, k), logic.limit]),
        np.concatenate([np.where(rng.random(k) < 0.9, rng.exponential(1.0, k), np.inf), logic.weight]),
        np.concatenate([200 + np.arange(k), logic.rule]),
    )


def random_problem(rng, n_nodes=6, n_factors=4, n_rows=0, n_auxiliary=0, kind="any", forbidden=0.0, step=1.0):
    """Potentials, logic and rows."""
    p = random_potentials(rng, n_nodes, kind, forbidden)
    return GraphProblem(p, random_logic(rng, p, n_factors), random_rows(rng, p, n_rows, n_auxiliary, step=step))
