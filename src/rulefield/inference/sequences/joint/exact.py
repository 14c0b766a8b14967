"""Exact inference for several tasks at once, without the product's transition matrix where sums allow it."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rulefield.inference.sequences.exact import forward_backward, viterbi_batch
from rulefield.kernels.joint.best import joint_best_paths, joint_max_marginals
from rulefield.kernels.joint.open import open_state_sums
from rulefield.kernels.joint.sums import LANES, FactoredSteps, joint_sums
from rulefield.problem.joint import JointPotentials

DENSER = 0.15
"""A chain is summed over its open states alone where that takes at most this share of the factored multiplications, which
are done eight at a time (measured at 9 x 12 states: the two meet at 0.17)."""


class JointSums(NamedTuple):
    """Sums over all joint labelings."""

    log_partition: np.ndarray
    """Of each chain; ``-inf`` if all its labelings are forbidden."""
    node: np.ndarray
    """P(joint state) at every token, (n_tokens, S)."""
    edges: tuple[np.ndarray, ...]
    """Expected transitions of each task (m_k, m_k), summed over steps and chains, each chain times its weight."""
    moves: np.ndarray
    """Expected listed moves, likewise."""


def joint_marginals(potentials: JointPotentials, weight: np.ndarray | None = None) -> JointSums:
    """Log partition functions, node marginals and expected transitions; ``weight`` (n_chains,) scales the latter.

    Notes
    -----
    O(n S sum_k m_k + n n_moves) time against O(n S^2) for the dense product; the same numbers. Chains of which annotation
    leaves few joint states open are summed over those alone. Chains whose scores leave the range of float64 (weights of
    thousands) are done densely in log space.
    """
    p, lengths = potentials, np.diff(potentials.offsets)
    weight = np.ones(len(lengths)) if weight is None else np.ascontiguousarray(weight, np.float64)
    E = [np.exp(T - top) for T, top in zip(p.transitions, p.tops)]  # every chain pays the shifts once per step
    factor = _move_factors(p)
    psi, offsets = np.ascontiguousarray(p.psi), np.ascontiguousarray(p.offsets, np.int64)
    start = np.cumsum([0, *(m * m for m in p.sizes)])
    flat_edges = np.zeros(start[-1])
    edges = tuple(part.reshape(m, m) for part, m in zip(np.split(flat_edges, start[1:-1]), p.sizes))
    sums = JointSums(np.zeros(len(lengths)), np.zeros_like(psi), edges, np.zeros(len(p.move_from)))
    few, rest = _by_open_states(p)
    if not np.isfinite(factor).all():
        sums.log_partition[lengths > 0] = np.nan
        few = rest = few[:0]
    if len(few):
        dense, between = _dense_steps(p, E, factor[1]), np.zeros((p.n_states, p.n_states))
        at = offsets.astype(np.uint64), few.astype(np.uint64)
        open_state_sums(psi, *at, weight, dense, sums.node, between, sums.log_partition)
        _add_steps(p, between, sums)
    if len(rest):
        post = p.n_states // np.cumprod(p.sizes)
        sizes, begins, apart = (np.asarray(x, np.uint64) for x in (p.sizes, start, post))
        listed = p.move_from.astype(np.uint64), p.move_to.astype(np.uint64), factor
        steps = FactoredSteps(sizes, begins, apart, _flat(E), _flat(e.T for e in E), *listed)
        counts = sums.node, flat_edges, sums.moves, sums.log_partition
        joint_sums(psi, offsets, _in_lanes(rest, lengths), weight, steps, *counts)
    sums.log_partition[:] += sum(p.tops) * np.maximum(lengths - 1, 0)
    for i in np.flatnonzero(np.isnan(sums.log_partition)).tolist():
        one = forward_backward(p.chain(i), edges=True)
        sums.log_partition[i], sums.node[offsets[i] : offsets[i + 1]] = one.log_partition, one.node
        if one.edge is not None and len(one.edge):
            _add_steps(p, weight[i] * one.edge.sum(axis=0), sums)
    return sums


def joint_viterbi(potentials: JointPotentials) -> tuple[np.ndarray, np.ndarray]:
    """Best joint states (n_tokens,) and their scores (n_chains,), -inf if all labelings of a chain are forbidden.

    O(n S sum_k m_k) time: the maximum factors as the sum does; O(n S^2) if joint moves are scored.
    """
    p = potentials
    if len(p.move_from):
        return viterbi_batch(p.psi, p.pairwise, p.offsets)
    states, scores = np.zeros(len(p.psi), np.int64), np.zeros(len(p.offsets) - 1)
    psi, offsets = np.ascontiguousarray(p.psi, np.float64), p.offsets.astype(np.uint64)
    joint_best_paths(psi, offsets, np.array(p.sizes, np.uint64), _flat(p.transitions), states, scores)
    return states, scores


def best_through(potentials: JointPotentials, i: int) -> np.ndarray:
    """Score of the best labeling of chain ``i``, which has tokens, through each state at each token, (n, S).

    O(n S sum_k m_k) time, O(n S^2) if joint moves are scored.
    """
    p = potentials
    psi = np.ascontiguousarray(p.scores(i), np.float64)
    out = np.empty_like(psi)
    steps = (p.pairwise,) if len(p.move_from) else p.transitions
    sizes = np.array([len(T) for T in steps], np.uint64)
    joint_max_marginals(psi, sizes, _flat(steps), _flat(T.T for T in steps), out)
    return out


def joint_best(potentials: JointPotentials, weight: np.ndarray) -> JointSums:
    """Return the sums of the distribution that is certain of the best labeling; ``log_partition`` holds its score."""
    states, scores = joint_viterbi(potentials)
    lengths, S = np.diff(potentials.offsets), potentials.n_states
    node = (states[:, None] == np.arange(S)).astype(np.float64)
    arrive = np.delete(np.arange(len(states)), potentials.offsets[:-1][lengths > 0])
    steps = np.bincount(states[arrive - 1] * S + states[arrive], np.repeat(weight, lengths)[arrive], S * S)
    edges = tuple(np.zeros((m, m)) for m in potentials.sizes)
    sums = JointSums(scores, node, edges, np.zeros(len(potentials.move_from)))
    _add_steps(potentials, steps.reshape(S, S), sums)
    return sums


def _flat(tables: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(table, np.float64).ravel() for table in tables])


def _move_factors(p: JointPotentials) -> np.ndarray:
    """Return what the factor of each listed move is above that of its transitions, and as a whole, (2, n_moves)."""
    step = np.zeros(len(p.move_from))
    for labels, T, top in zip(p.task_labels, p.transitions, p.tops):
        step += T[labels[p.move_from], labels[p.move_to]] - top
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([np.exp(step) * np.expm1(p.move_score), np.exp(step + p.move_score)])


def _dense_steps(p: JointPotentials, E: list[np.ndarray], moves: np.ndarray) -> np.ndarray:
    """Return exp(scores of steps), all of them, (S, S)."""
    total = np.ones((1, 1))
    for own in E:
        total = np.kron(total, own)
    total[p.move_from, p.move_to] = moves
    return total


def _by_open_states(p: JointPotentials) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the chains that leave few joint states open, and of the others; empty chains are in neither."""
    filled = np.flatnonzero(np.diff(p.offsets) > 0)
    if not len(filled) or (p.psi.min() > -np.inf and p.n_states > DENSER * sum(p.sizes)):
        return filled[:0], filled
    opened = np.count_nonzero(p.psi > -np.inf, axis=1).astype(np.float64)
    sums = np.concatenate([[0.0, 0.0], np.cumsum(opened[1:] * opened[:-1])])
    first, last = p.offsets[filled], p.offsets[filled + 1]
    dense = sums[last] - sums[first + 1]  # products of neighbors within a chain
    few = dense < DENSER * (last - first) * p.n_states * sum(p.sizes)
    return filled[few], filled[~few]


def _in_lanes(chains: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Chains of similar length in rows of eight, (n, 8), the longest first; -1 where the last row has none."""
    ordered = chains[np.argsort(-lengths[chains], kind="stable")]
    return np.pad(ordered, (0, -len(ordered) % int(LANES)), constant_values=-1).reshape(-1, int(LANES))


def _add_steps(p: JointPotentials, between: np.ndarray, sums: JointSums) -> None:
    """Add expected steps between joint states (S, S) to the tasks' transitions and the listed moves."""
    sums.moves[:] += between[p.move_from, p.move_to]
    for labels, m, out in zip(p.task_labels, p.sizes, sums.edges):
        own = labels[:, None] == np.arange(m)
        out += own.T @ between @ own
