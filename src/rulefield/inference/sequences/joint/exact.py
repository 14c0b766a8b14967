"""Exact inference for several tasks at once, without the product's transition matrix where sums allow it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rulefield.inference.sequences.exact import forward_backward, viterbi_batch
from rulefield.kernels.joint.best import joint_best_paths, joint_max_marginals
from rulefield.kernels.joint.open import open_state_sums
from rulefield.kernels.joint.sums import LANES, joint_sums
from rulefield.problem.joint import JointPotentials

DENSER = 0.15
"""A chain is summed over its open states alone where that takes at most this share of the factored multiplications, which
are done eight at a time (measured at 9 x 12 states: the two meet at 0.17)."""


@dataclass(frozen=True)
class JointSums:
    """Sums over all joint labelings.

    Parameters
    ----------
    log_partition : ndarray, shape (n_chains,)
        ``-inf`` where all labelings of a chain are forbidden.
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
    O(n S sum_k m_k + n n_moves) time against O(n S^2) for the dense product; the same numbers. Chains of which annotation
    leaves few joint states open are summed over those alone. Chains whose scores leave the range of float64 (weights of
    thousands) are done densely in log space.
    """
    n_chains = len(potentials.offsets) - 1
    weight = np.ones(n_chains) if weight is None else np.ascontiguousarray(weight, np.float64)
    node = np.zeros_like(potentials.psi)
    totals, edges, moves = _run(potentials, weight, node)
    for i in np.flatnonzero(np.isnan(totals)):
        _dense(potentials, int(i), float(weight[i]), node, edges, moves, totals)
    return JointSums(totals, node, edges, moves)


def joint_viterbi(potentials: JointPotentials) -> tuple[np.ndarray, np.ndarray]:
    """Best joint states (n_tokens,) and their scores (n_chains,), -inf where all labelings of a chain are forbidden.

    Notes
    -----
    O(n S sum_k m_k) time: the maximum factors as the sum does; O(n S^2) where joint moves are scored.
    """
    p = potentials
    if len(p.move_from):
        return viterbi_batch(p.psi, p.pairwise, p.offsets)
    states, scores = np.zeros(len(p.psi), np.int64), np.zeros(len(p.offsets) - 1)
    psi, offsets = np.ascontiguousarray(p.psi, np.float64), p.offsets.astype(np.uint64)
    joint_best_paths(psi, offsets, np.array(p.sizes, np.uint64), _flat(p.transitions), states, scores)
    return states, scores


def best_through(potentials: JointPotentials, i: int) -> np.ndarray:
    """Score of the best labeling of chain ``i`` through each state at each token, (n, S): its max-marginals.

    O(n S sum_k m_k) time, O(n S^2) where joint moves are scored; the chain has at least one token.
    """
    p = potentials
    psi = np.ascontiguousarray(p.psi[int(p.offsets[i]) : int(p.offsets[i + 1])], np.float64)
    out = np.empty_like(psi)
    steps = (p.pairwise,) if len(p.move_from) else p.transitions
    sizes = np.array([len(T) for T in steps], np.uint64)
    joint_max_marginals(psi, sizes, _flat(steps), _flat(T.T for T in steps), out)
    return out


def _flat(tables: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(table, np.float64).ravel() for table in tables])


def joint_best(potentials: JointPotentials, weight: np.ndarray | None = None) -> JointSums:
    """Return the sums of the distribution that is certain of the best labeling; ``log_partition`` holds its score."""
    states, scores = joint_viterbi(potentials)
    lengths = np.diff(potentials.offsets)
    times = np.ones(len(lengths)) if weight is None else weight
    S = potentials.n_states
    node = (states[:, None] == np.arange(S)).astype(np.float64)
    arrive = np.delete(np.arange(len(states)), potentials.offsets[:-1][lengths > 0])
    steps = np.bincount(states[arrive - 1] * S + states[arrive], np.repeat(times, lengths)[arrive], S * S)
    edges = tuple(np.zeros((m, m)) for m in potentials.sizes)
    moves = np.zeros(len(potentials.move_from))
    _add_steps(potentials, steps.reshape(S, S), edges, moves)
    return JointSums(scores, node, edges, moves)


def _run(
    p: JointPotentials, weight: np.ndarray, node: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...], np.ndarray]:
    """Fill node marginals; totals, edges and moves. Totals are NaN where a chain has to be done in log space."""
    # A shift of each matrix keeps exp in range; every chain pays it once per step.
    tops = [_top(T) for T in p.transitions]
    E = [np.exp(T - top) for T, top in zip(p.transitions, tops)]
    step = np.zeros(len(p.move_from))
    for labels, T, top in zip(p.task_labels, p.transitions, tops):
        step += T[labels[p.move_from], labels[p.move_to]] - top
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.array([np.exp(step) * np.expm1(p.move_score), np.exp(step + p.move_score)])
    totals, moves = np.zeros(len(weight)), np.zeros(len(p.move_from))
    edges = np.zeros(sum(m * m for m in p.sizes))
    parts = tuple(e.reshape(m, m) for e, m in zip(np.split(edges, np.cumsum([m * m for m in p.sizes])[:-1]), p.sizes))
    few, rest = _by_open_states(p)
    if not np.isfinite(factor).all():
        totals[few], totals[rest] = np.nan, np.nan
        return totals, parts, moves
    psi, offsets = np.ascontiguousarray(p.psi), np.ascontiguousarray(p.offsets, np.int64)
    if len(few):
        between = np.zeros((p.n_states, p.n_states))
        open_state_sums(
            psi, offsets.astype(np.uint64), few, weight, _dense_steps(p, E, factor[1]), node, between, totals
        )
        _add_steps(p, between, parts, moves)
    if len(rest):
        flat, sizes = np.concatenate([e.ravel() for e in E]), np.array(p.sizes, np.uint64)
        listed = p.move_from.astype(np.uint64), p.move_to.astype(np.uint64), factor
        joint_sums(psi, offsets, _in_lanes(p, rest), weight, sizes, flat, *listed, node, edges, moves, totals)
    totals += sum(tops) * np.maximum(np.diff(p.offsets) - 1, 0)
    return totals, parts, moves


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
    if not len(filled):
        return filled, filled
    if p.psi.min() > -np.inf and p.n_states > DENSER * sum(p.sizes):
        return filled[:0].astype(np.uint64), filled
    opened = np.count_nonzero(p.psi > -np.inf, axis=1).astype(np.float64)
    pairs = opened[1:] * opened[:-1]
    sums = np.concatenate([[0.0, 0.0], np.cumsum(pairs)])
    first, last = p.offsets[filled], p.offsets[filled + 1]
    dense = sums[last] - sums[first + 1]  # products of neighbors within a chain
    few = dense < DENSER * (last - first) * p.n_states * sum(p.sizes)
    return filled[few].astype(np.uint64), filled[~few]


def _in_lanes(p: JointPotentials, chains: np.ndarray) -> np.ndarray:
    """Chains of similar length in rows of eight, (n, 8), the longest first; -1 where the last row has none."""
    lanes = int(LANES)
    ordered = chains[np.argsort(-np.diff(p.offsets)[chains], kind="stable")]
    padded = np.full(-(-len(ordered) // lanes) * lanes, -1, np.int64)
    padded[: len(ordered)] = ordered
    return padded.reshape(-1, lanes)


def _add_steps(p: JointPotentials, between: np.ndarray, edges: tuple[np.ndarray, ...], moves: np.ndarray) -> None:
    """Add expected steps between joint states (S, S) to the tasks' transitions and the listed moves."""
    moves += between[p.move_from, p.move_to]
    for labels, m, out in zip(p.task_labels, p.sizes, edges):
        own = labels[:, None] == np.arange(m)
        out += own.T @ between @ own


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
    _add_steps(p, weight * sums.edge.sum(axis=0), edges, moves)


def _top(scores: np.ndarray) -> float:
    finite = scores[np.isfinite(scores)]
    return float(finite.max()) if finite.size else 0.0
