"""Random graph problems, and the best labelling and marginals by trying all of them, from the definitions alone."""

import numpy as np
from scipy.special import logsumexp

from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, Logic, LogicFactors


def all_labellings(sizes):
    """Every labelling, one in each row."""
    return np.stack(np.meshgrid(*(np.arange(m) for m in sizes), indexing="ij"), axis=-1).reshape(-1, len(sizes))


def scores_of(p, labels):
    """Scores of many labellings, by the sum over nodes and edges written out."""
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
    inputs, out, count = truth[:, :-1], truth[:, -1], truth.sum(axis=1)
    return {
        Logic.xor: lambda: count == 1,
        Logic.at_most_one: lambda: count <= 1,
        Logic.any_of: lambda: count >= 1,
        Logic.xor_out: lambda: inputs.sum(axis=1) == out,
        Logic.or_out: lambda: inputs.any(axis=1) == out,
        Logic.and_out: lambda: inputs.all(axis=1) == out,
        Logic.imply: lambda: ~inputs.all(axis=1) | out,
        Logic.budget: lambda: count <= limit,
    }[Logic(kind)]()


def objectives(problem):
    """All labellings (auxiliary values last) and their objectives."""
    p, logic, rows = problem.potentials, problem.logic, problem.rows
    labels = all_labellings([*p.n_labels, *([2] * rows.n_auxiliary)])
    total = scores_of(p, labels)
    for f in range(logic.n_factors):
        atoms = range(logic.pointer[f], logic.pointer[f + 1])
        truth = np.stack(
            [(labels[:, logic.atom_node[a]] == logic.atom_label[a]) != logic.atom_negated[a] for a in atoms], axis=1
        )
        total[~holds(logic.kind[f], truth, logic.limit[f])] -= logic.weight[f]
    for r in range(rows.n_rows):
        amount = np.full(len(labels), -rows.bound[r])
        for a in range(rows.pointer[r], rows.pointer[r + 1]):
            amount += rows.value[a] * (labels[:, rows.atom_node[a]] == rows.atom_label[a])
        over = amount > 1e-9
        total[over] -= rows.weight[r] * amount[over]
    return labels, total


def best_objective(problem):
    """Highest objective, ``-inf`` where the problem is infeasible."""
    return objectives(problem)[1].max()


def exact_marginals(p):
    """Node marginals, edge marginals and log Z by summing over all labellings."""
    labels = all_labellings(p.n_labels)
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
    """Two types of nodes (``sizes`` labels); edges of a forest, or any (parallel edges and loops among them)."""
    n_labels = rng.choice(np.array(sizes), n_nodes).astype(np.int64)
    if kind == "forest":
        edges = [(int(rng.integers(v)), v) for v in range(1, n_nodes) if rng.random() < 0.8]
        edges = [(i, j) if rng.random() < 0.5 else (j, i) for i, j in edges]
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


def random_problem(rng, n_nodes=6, n_factors=4, n_rows=0, n_auxiliary=0, kind="any", forbidden=0.0, step=1.0):
    """Potentials, logic and rows."""
    p = random_potentials(rng, n_nodes, kind, forbidden)
    return GraphProblem(p, random_logic(rng, p, n_factors), random_rows(rng, p, n_rows, n_auxiliary, step=step))
