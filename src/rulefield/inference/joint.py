"""Exact inference for several tasks at once, without the product's transition matrix where sums allow it."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.chain import forward_backward, viterbi_batch
from rulefield.kernels.joint import joint_sums
from rulefield.problem.joint import JointPotentials


@dataclass(frozen=True)
class JointSums:
    """Sums over all joint labellings.

    Parameters
    ----------
    log_partition : ndarray, shape (n_chains,)
        ``-inf`` where all labellings of a chain are forbidden.
    node : ndarray, shape (n_tokens, S)
        P(joint state) at every token.
    edges : tuple of ndarray, shapes (m_k, m_k)
        Expected transitions of each task, summed over steps and chains, each chain times its weight.
    moves : ndarray, shape (n_moves,)
        Expected listed moves, likewise.
    """

    log_partition: np.ndarray
    node: np.ndarray
    edges: tuple[np.ndarray, ...]
    moves: np.ndarray


def joint_marginals(potentials: JointPotentials, weight: np.ndarray | None = None) -> JointSums:
    """Log partition functions, node marginals and expected transitions; ``weight`` (n_chains,) scales the latter.

    Notes
    -----
    O(n S sum_k m_k + n n_moves) time against O(n S^2) for the dense product; the same numbers. Chains whose scores
    leave the range of float64 (weights of thousands) are done densely in log space.
    """
    n_chains = len(potentials.offsets) - 1
    weight = np.ones(n_chains) if weight is None else np.ascontiguousarray(weight, np.float64)
    node = np.zeros_like(potentials.psi)
    edges = np.zeros(sum(m * m for m in potentials.sizes))
    moves, totals = np.zeros(len(potentials.move_from)), np.empty(n_chains)
    if len(node):
        _run(potentials, weight, node, edges, moves, totals)
    else:
        totals[:] = 0.0
    bounds = np.cumsum([m * m for m in potentials.sizes])[:-1]
    parts = tuple(e.reshape(m, m) for e, m in zip(np.split(edges, bounds), potentials.sizes))
    for i in np.flatnonzero(np.isnan(totals)):
        _dense(potentials, int(i), float(weight[i]), node, parts, moves, totals)
    return JointSums(totals, node, parts, moves)


def joint_log_partition(potentials: JointPotentials) -> np.ndarray:
    """Log partition functions alone, (n_chains,), at half the cost of :func:`joint_marginals`."""
    n_chains = len(potentials.offsets) - 1
    totals = np.zeros(n_chains)
    if len(potentials.psi):
        node, edges = np.zeros((0, potentials.n_states)), np.zeros(sum(m * m for m in potentials.sizes))
        _run(potentials, np.ones(n_chains), node, edges, np.zeros(len(potentials.move_from)), totals)
    for i in np.flatnonzero(np.isnan(totals)):
        totals[i] = forward_backward(potentials.chain(int(i))).log_partition
    return totals


def joint_viterbi(potentials: JointPotentials) -> tuple[np.ndarray, np.ndarray]:
    """Best joint states (n_tokens,) and their scores (n_chains,); dense, O(n S^2)."""
    return viterbi_batch(potentials.psi, potentials.pairwise, potentials.offsets)


def _run(
    p: JointPotentials, weight: np.ndarray, node: np.ndarray, edges: np.ndarray, moves: np.ndarray, totals: np.ndarray
) -> None:
    # A shift of each matrix keeps exp in range; every chain pays it once a step.
    tops = [_top(T) for T in p.transitions]
    E = np.concatenate([np.exp(T - top).ravel() for T, top in zip(p.transitions, tops)])
    step = np.zeros(len(p.move_from))
    for labels, T, top in zip(p.task_labels, p.transitions, tops):
        step += T[labels[p.move_from], labels[p.move_to]] - top
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.array([np.exp(step) * np.expm1(p.move_score), np.exp(step + p.move_score)])
    if not np.isfinite(factor).all():
        totals[:] = np.nan
        return
    joint_sums(
        np.ascontiguousarray(p.psi),
        np.ascontiguousarray(p.offsets, np.int64),
        weight,
        np.array(p.sizes, np.int64),
        E,
        p.move_from.astype(np.int64),
        p.move_to.astype(np.int64),
        factor,
        node,
        edges,
        moves,
        totals,
    )
    totals += sum(tops) * np.maximum(np.diff(p.offsets) - 1, 0)


def _top(scores: np.ndarray) -> float:
    finite = scores[np.isfinite(scores)]
    return float(finite.max()) if finite.size else 0.0


def _dense(
    p: JointPotentials,
    i: int,
    weight: float,
    node: np.ndarray,
    edges: tuple[np.ndarray, ...],
    moves: np.ndarray,
    totals: np.ndarray,
) -> None:
    sums = forward_backward(p.chain(i), edges=True)
    totals[i] = sums.log_partition
    node[int(p.offsets[i]) : int(p.offsets[i + 1])] = sums.node
    if sums.edge is None or not len(sums.edge):
        return
    steps = weight * sums.edge.sum(axis=0)
    moves += steps[p.move_from, p.move_to]
    for labels, out in zip(p.task_labels, edges):
        np.add.at(out, np.ix_(labels, labels), steps)
