"""Twins in numpy of the few kernels that label one short text, for a process that has loaded no kernel yet.

Importing numba and linking cached kernels takes half a second; one text takes milliseconds even in numpy. So a process
that labels little never loads a kernel, and one that labels much does so as soon as its twins have worked for about as
long as loading takes. A twin does the same operations in the same order as its kernel: the labels are the same, and so is
every bit of the scores where the C library's ``exp`` and ``log`` are those that numba calls.
"""

import math
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from rulefield.kernels.chain.sums import SAFE_SUM, sums_batch
from rulefield.kernels.chain.train_features import add_scores
from rulefield.kernels.chain.viterbi import labeling_scores, viterbi_batch
from rulefield.kernels.jit import Kernel
from rulefield.kernels.strings import keep_known

BUDGET = 0.25
"""Seconds of work, as estimated, after which twins leave it to the kernels."""

_spent = 0.0


def affordable(seconds: float) -> bool:
    """Whether work that takes so long should be done without kernels; what is done is counted."""
    global _spent
    if Kernel.any_loaded or _spent + seconds > BUDGET:
        return False
    _spent += seconds
    return True


def _twin(kernel: Any, seconds: Callable[..., float]) -> Callable[[Callable], Callable]:
    """Make a function the twin of a kernel; ``seconds`` estimates from its arguments how long it takes."""

    def attach(function: Callable) -> Callable:
        def run(*arguments: Any) -> Any:
            return function(*arguments) if affordable(seconds(*arguments)) else NotImplemented

        kernel.twin = run
        return function

    return attach


@_twin(add_scores, lambda indptr, indices, *_: 1e-5 * len(indptr) + 1e-6 * int(indptr[-1] - indptr[0]))
def _add_scores(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    ptr: np.ndarray,
    label: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    for row, first, last in zip(out, indptr[:-1].tolist(), indptr[1:].tolist()):
        own = repeat(float(values[0])) if len(values) == 1 else values[first:last].tolist()
        for f, value in zip(indices[first:last].tolist(), own):
            pairs = slice(int(ptr[f]), int(ptr[f + 1]))
            row[label[pairs]] += value * weights[pairs]


@_twin(keep_known, lambda ids, counts: 1e-8 * len(ids) + 1e-8 * len(counts))
def _keep_known(ids: np.ndarray, counts: np.ndarray) -> int:
    known = ids >= 0
    kept = np.concatenate([[0], np.cumsum(known)])
    counts[:] = np.diff(kept[np.cumsum(counts)], prepend=0)
    ids[: kept[-1]] = ids[known]
    return int(kept[-1])


@_twin(viterbi_batch, lambda unary, *_: 2e-5 * len(unary) + 2e-9 * len(unary) * unary.shape[1] ** 2)
def _viterbi_batch(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, labels: np.ndarray, scores: np.ndarray
) -> None:
    for i, (first, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
        steps = pairwise if len(pairwise) == 1 else pairwise[first:stop]
        scores[i] = _viterbi(unary[first:stop], steps, labels[first:stop])


def _viterbi(unary: np.ndarray, steps: np.ndarray, labels: np.ndarray) -> float:
    """Ties go to the label with the lowest number, as ``argmax`` takes the first."""
    labels[:] = 0
    if len(unary) == 0:
        return 0.0
    best, sources = unary[0], []
    for t in range(1, len(unary)):
        ways = best[:, None] + steps[min(t, len(steps)) - 1]
        sources.append(ways.argmax(axis=0))
        best = ways.max(axis=0) + unary[t]
    score = float(best.max())
    if score > -np.inf:
        labels[-1] = best.argmax()
        for t in range(len(sources), 0, -1):
            labels[t - 1] = sources[t - 1][labels[t]]
    return score


@_twin(labeling_scores, lambda unary, *_: 1e-6 * len(unary))
def _labeling_scores(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, labels: np.ndarray, scores: np.ndarray
) -> None:
    for i, (first, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
        total = 0.0
        for t in range(first, stop):
            total += unary[t, labels[t]]
            if t > first:
                total += pairwise[0 if len(pairwise) == 1 else t - 1, labels[t - 1], labels[t]]
        scores[i] = total


@_twin(sums_batch, lambda unary, pairwise, *_: 1e-4 * len(unary) + 1e-7 * pairwise.size)
def _sums_batch(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, node: np.ndarray, log_partition: np.ndarray
) -> None:
    tops, powers = _exponentials(pairwise)
    for i, (first, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
        part = slice(None) if len(pairwise) == 1 else slice(first, stop)
        steps = [*zip(pairwise[part], powers[part], tops[part].tolist())]
        chain = unary[first:stop]
        alpha, log_partition[i] = _forward(chain, steps)
        if len(node):
            node[first:stop] = 0.0
            if len(chain) and log_partition[i] > -np.inf:
                node[first:stop] = _marginals(alpha, _backward(chain, steps))


_Step = tuple[np.ndarray, np.ndarray, float]
"""Scores of a step, their powers and what was taken out of them."""


def _exponentials(pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tops = pairwise.max(axis=(1, 2), initial=-np.inf)
    tops[tops == -np.inf] = 0.0
    return tops, _exp(pairwise - tops[:, None, None])


def _forward(unary: np.ndarray, steps: list[_Step]) -> tuple[np.ndarray, float]:
    """Messages (n, m), each row lowered to a maximum of 0, and the log partition function."""
    alpha, total = np.empty_like(unary), 0.0
    if len(unary) == 0:
        return alpha, total
    for t in range(len(unary)):
        row = unary[0] if t == 0 else _advance(alpha[t - 1], steps[min(t, len(steps)) - 1], unary[t])
        alpha[t], top = _lowered(row)
        total += top
    return alpha, total + _log_sum(alpha[-1])


def _backward(unary: np.ndarray, steps: list[_Step]) -> np.ndarray:
    beta = np.zeros_like(unary)
    nothing = np.zeros(unary.shape[1])
    for t in range(len(unary) - 2, -1, -1):
        scores, powers, top = steps[min(t + 1, len(steps)) - 1]
        inside = _lowered(unary[t + 1] + beta[t + 1])[0]
        beta[t] = _lowered(_advance(inside, (scores.T, np.ascontiguousarray(powers.T), top), nothing))[0]
    return beta


def _marginals(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    made = [_exp(_lowered(row)[0]) for row in alpha + beta]
    return np.array([row / np.add.accumulate(row)[-1] for row in made])


def _advance(previous: np.ndarray, step: _Step, row: np.ndarray) -> np.ndarray:
    scores, powers, top = step
    sums = (_exp(previous)[:, None] * powers).sum(axis=0)
    made = np.full(len(row), -np.inf)
    for to in np.flatnonzero(row > -np.inf).tolist():
        if sums[to] > SAFE_SUM:
            made[to] = row[to] + top + math.log(sums[to])
        else:
            made[to] = row[to] + _log_sum(previous + scores[:, to])
    return made


def _lowered(row: np.ndarray) -> tuple[np.ndarray, float]:
    top = float(row.max())
    return (row - top if top > -np.inf else row), top


def _log_sum(values: np.ndarray) -> float:
    top = float(values.max())
    return top if top == -np.inf else top + math.log(np.add.accumulate(_exp(values - top))[-1])


def _exp(values: np.ndarray) -> np.ndarray:
    """Exponentials by the C library, as kernels take them: numpy's own differ in the last bit."""
    return np.array([math.exp(value) for value in values.ravel().tolist()]).reshape(values.shape)
