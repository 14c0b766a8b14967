"""Exact inference on one chain or on many: entry points to the chain kernels."""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.result import Result, Status
from rulefield.kernels.chain import kbest as chain_kbest
from rulefield.kernels.chain import sums as chain_sums
from rulefield.kernels.chain import viterbi as kernels
from rulefield.problem.chain import ChainPotentials


@dataclass(frozen=True)
class ChainMarginals:
    """The distribution p(y) proportional to exp(score(y)) of one chain, seen through its marginals."""

    log_partition: float  # log of the sum of exp(score) over all labelings; ``-inf`` where all are forbidden
    node: np.ndarray  # float64 (n_steps, n_states): P(y_t = label); zeros where the chain is infeasible
    edge: np.ndarray | None
    """float64 (n_steps - 1, n_states, n_states), or None: P(y_t = a, y_{t+1} = b), where it was asked for."""
    status: Status  # ``optimal`` (exact) or ``infeasible``


def clamp(potentials: ChainPotentials, allowed: np.ndarray | None) -> ChainPotentials:
    """Forbid every label that ``allowed`` does not allow at its step; None allows all.

    ``allowed`` (n_steps, n_states) of 0/1: a known label is a row with a single 1, an unknown one a row of ones.
    """
    if allowed is None:
        return potentials
    allowed = np.asarray(allowed)
    if allowed.shape != potentials.unary.shape:
        raise InputError(f"allowed must have the shape of unary, {potentials.unary.shape}; got {allowed.shape}.")
    return ChainPotentials(np.where(allowed != 0, potentials.unary, -np.inf), potentials.pairwise)


def kbest(potentials: ChainPotentials, k: int) -> list[Result]:
    """Return the k best labelings, all different, best first; fewer where fewer are allowed.

    The ``upper_bound`` of each is its own score: given the better ones, none is left above it. Exact, in
    O(n m**2 + k n (m + log(k n))) time for n steps and m states ([Huang05], for chains).
    """
    if k < 1:
        raise InputError(f"k must be at least 1; got {k}.")
    labels, scores = kbest_labels(potentials, k)
    return [as_result(path, float(score), "kbest") for path, score in zip(labels, scores)]


def kbest_labels(potentials: ChainPotentials, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best labelings as rows (k, n), best first, and their scores; see :func:`kbest`."""
    unary, pairwise = checked(potentials.unary, potentials.pairwise)
    n = potentials.n_steps
    if n == 0:
        return np.empty((1, 0), np.int64), np.zeros(1)
    k = int(min(k, float(potentials.n_states) ** min(n, 64)))
    labels, scores = np.empty((k, n), np.int64), np.empty(k)
    labels = labels[: chain_kbest.k_best(unary, pairwise, labels, scores)]
    exact = unary[np.arange(n), labels].sum(axis=1)
    step = np.zeros(n - 1, np.int64) if len(pairwise) == 1 else np.arange(n - 1)
    exact += pairwise[step, labels[:, :-1], labels[:, 1:]].sum(axis=1)
    order = np.argsort(-exact, kind="stable")
    return labels[order], exact[order]


def forward_backward(potentials: ChainPotentials, edges: bool = False) -> ChainMarginals:
    """Log partition function and marginals of a chain, with ``edges`` those of neighboring pairs, too.

    Exact and stable for any finite scores. O(n_steps * n_states**2) time.
    """
    if not edges or potentials.n_steps == 0:
        node, totals = marginals_batch(potentials.unary, potentials.pairwise, _alone(potentials))
        status = Status.infeasible if totals[0] == -np.inf else Status.optimal
        none = np.zeros((0, potentials.n_states, potentials.n_states)) if edges else None
        return ChainMarginals(float(totals[0]), node, none, status)
    unary, pairwise = checked(potentials.unary, potentials.pairwise)
    alpha, beta = np.empty_like(unary), np.empty_like(unary)
    node, edge = np.zeros_like(unary), np.zeros((len(unary) - 1, potentials.n_states, potentials.n_states))
    total = float(chain_sums.messages(unary, pairwise, alpha, beta))
    if total == -np.inf:
        return ChainMarginals(total, node, edge, Status.infeasible)
    chain_sums.node_marginals(alpha, beta, node)
    chain_sums.edge_marginals(unary, pairwise, alpha, beta, edge)
    return ChainMarginals(total, node, edge, Status.optimal)


def log_partition(potentials: ChainPotentials) -> float:
    """Return the log of the sum of exp(score) over all labelings, ``-inf`` where all are forbidden."""
    return float(log_partition_batch(potentials.unary, potentials.pairwise, _alone(potentials))[0])


def viterbi_batch(unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decode many chains that lie one after the other.

    Parameters
    ----------
    unary : ndarray of float64, shape (n_tokens, n_states)
    pairwise : ndarray of float64, shape (n_states, n_states) or (n_tokens or n_tokens - 1, n_states, n_states)
        Entry t scores the step from token t to t + 1 of the concatenation; steps between chains are not read.
    offsets : ndarray of int64, shape (n_chains + 1,)
        Chain i has tokens ``offsets[i] : offsets[i + 1]``. A slice of the offsets of all chains is allowed
        (several threads may share the work); tokens outside it are not decoded.

    Returns
    -------
    labels : ndarray of int64, shape (n_tokens,)
    scores : ndarray of float64, shape (n_chains,)
        ``-inf`` where a chain is infeasible; its labels are then 0.
    """
    unary, pairwise = checked(unary, pairwise)
    labels, scores = np.zeros(len(unary), np.int64), np.empty(len(offsets) - 1)
    kernels.viterbi_batch(unary, pairwise, _offsets(offsets, len(unary)), labels, scores)
    return labels, scores


def marginals_batch(unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Node marginals (n_tokens, n_states) and log partition functions (n_chains,); arguments of ``viterbi_batch``."""
    unary, pairwise = checked(unary, pairwise)
    node, totals = np.zeros_like(unary), np.empty(len(offsets) - 1)
    chain_sums.sums_batch(unary, pairwise, _offsets(offsets, len(unary)), node, totals)
    return node, totals


def log_partition_batch(unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Log partition functions (n_chains,); arguments of ``viterbi_batch``."""
    unary, pairwise = checked(unary, pairwise)
    node, totals = np.empty((0, unary.shape[1])), np.empty(len(offsets) - 1)
    chain_sums.sums_batch(unary, pairwise, _offsets(offsets, len(unary)), node, totals)
    return totals


def score_batch(unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Scores (n_chains,) of given labels (n_tokens,); the other arguments as in ``viterbi_batch``."""
    unary, pairwise = checked(unary, pairwise)
    labels = np.ascontiguousarray(labels, np.int64)
    if labels.shape != (len(unary),) or (labels.size and not 0 <= labels.min() <= labels.max() < unary.shape[1]):
        raise InputError(
            f"labels must be {len(unary)} numbers in 0..{unary.shape[1] - 1}, one for each token; got an array of "
            f"shape {labels.shape}."
        )
    scores = np.empty(len(offsets) - 1)
    kernels.labeling_scores(unary, pairwise, _offsets(offsets, len(unary)), labels, scores)
    return scores


def checked(unary: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, m) and (k, m, m) arrays as kernels want them; raise on NaN and plus infinity."""
    unary = np.ascontiguousarray(unary, np.float64)
    pairwise = np.ascontiguousarray(pairwise if pairwise.ndim == 3 else pairwise[None], np.float64)
    m = unary.shape[1]
    if pairwise.shape[1:] != (m, m) or (len(pairwise) != 1 and len(pairwise) < len(unary) - 1):
        raise InputError(
            f"pairwise must have shape ({m}, {m}) or ({max(len(unary) - 1, 0)}, {m}, {m}) to fit unary of shape "
            f"{unary.shape}; got {pairwise.shape}."
        )
    if len(pairwise) == 0:  # a single token, one matrix for each of its no steps
        pairwise = np.zeros((1, m, m))
    for name, array in (("unary", unary), ("pairwise", pairwise)):
        if array.size and not array.max() < np.inf:  # the maximum is NaN where any entry is
            raise InputError(f"{name} scores must be numbers or -inf (forbidden); got NaN or +inf.")
    return unary, pairwise


def as_result(labels: np.ndarray, score: float, engine: str) -> Result:
    """Wrap the answer of an exact engine without rules."""
    if score == -np.inf:
        return Result(np.empty(0, np.int64), score, score, score, Status.infeasible, engine)
    return Result(labels, score, score, score, Status.optimal, engine)


def _alone(potentials: ChainPotentials) -> np.ndarray:
    return np.array([0, potentials.n_steps], np.int64)


def _offsets(offsets: np.ndarray, n_tokens: int) -> np.ndarray:
    offsets = np.ascontiguousarray(offsets, np.int64)
    if len(offsets) and (offsets[0] < 0 or offsets[-1] > n_tokens or np.any(np.diff(offsets) < 0)):
        raise InputError(f"offsets must not fall and must lie in 0..{n_tokens}; got {offsets[0]}..{offsets[-1]}.")
    return offsets
