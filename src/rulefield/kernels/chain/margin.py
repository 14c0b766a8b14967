"""Learners of chains that decode one sequence at a time and step along a difference of features.

A step needs D = phi(y*) - sum_k a_k phi(y_k), where y* was just decoded and the y_k are kept labelings
(*planes*) with weights a_k that sum to 1. D touches few entries of theta, so it is gathered sparsely: scattered into
a vector of zeros (``delta``) whose touched entries are listed, read once and zeroed again.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.train_features import add_scores
from rulefield.kernels.chain.viterbi import ONE, ZERO, viterbi
from rulefield.kernels.jit import kernel


class Data(NamedTuple):
    """Sequences as CSR rows (uint64, uint32, float64), offsets (n + 1,) int64, gold labels (n_tokens,) uint16.

    ``given`` (n_tokens, m) are scores from elsewhere to add; no rows where there are none.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    gold: np.ndarray
    given: np.ndarray


class Table(NamedTuple):
    """Where weights stand in theta.

    State pairs as (ptr, label), at position 0 on; step pairs as (step_ptr, step_label), at ``first_step`` on.
    ``transition`` (m, m), ``start`` and ``end`` (m,) int64 hold positions in theta, -1 where there is no weight.
    ``source`` and ``target`` (size - n_state,) uint32 go the other way, for positions after the state weights:
    transition (source, target), start (m, target), end (source, m), and (m, m) for step weights.
    """

    ptr: np.ndarray
    label: np.ndarray
    step_ptr: np.ndarray
    step_label: np.ndarray
    first_step: int
    transition: np.ndarray
    start: np.ndarray
    end: np.ndarray
    source: np.ndarray
    target: np.ndarray


class State(NamedTuple):
    """What learning changes: theta, the sum that averages it, and dense copies of its transition part.

    ``steps`` (1, m, m), ``begin`` and ``finish`` (m,) are kept equal to the transition, start and end scores of
    theta, ``-inf`` where forbidden. ``delta`` (size,) is zero between steps; ``touched`` and ``moved`` list D.
    """

    theta: np.ndarray
    memory: np.ndarray
    steps: np.ndarray
    begin: np.ndarray
    finish: np.ndarray
    delta: np.ndarray
    touched: np.ndarray
    moved: np.ndarray


class Work(NamedTuple):
    """Scratch for the longest sequence, of n tokens.

    ``unary`` and ``alpha`` (n, m); ``path`` (n,) uint16; ``stack`` (n - 1, m, m), empty where steps do not depend on
    the input; ``flat_stack``, the same seen as (n - 1, m * m); ``share`` (m,).
    """

    unary: np.ndarray
    alpha: np.ndarray
    path: np.ndarray
    stack: np.ndarray
    flat_stack: np.ndarray
    share: np.ndarray


@kernel
def score_sequence(data, table, state, i, work):
    """Fill the scores of sequence i under theta: ``unary``, and ``stack`` where steps depend on the input."""
    first, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    m = work.unary.shape[1]
    unary = work.unary[:n]
    for t in range(n):
        for y in range(m):
            unary[t, y] = data.given[first + t, y] if data.given.shape[0] > 0 else 0.0
    rows = data.indptr[first : first + n + 1]
    add_scores(rows, data.indices, data.values, table.ptr, table.label, state.theta, unary)
    for y in range(m):
        unary[0, y] += state.begin[y]
        unary[n - 1, y] += state.finish[y]
    if work.stack.shape[0] == 0:
        return
    weights = state.theta[table.first_step :]
    for t in range(n - 1):
        for a in range(m):
            for b in range(m):
                work.stack[t, a, b] = state.steps[0, a, b]
    add_scores(rows[1:], data.indices, data.values, table.step_ptr, table.step_label, weights, work.flat_stack)


@kernel
def path_score(unary, steps, labels):
    """Score of a labeling (n,)."""
    total = unary[0, labels[0]]
    shared = steps.shape[0] == 1
    for t in range(1, labels.shape[0]):
        total += unary[t, labels[t]] + steps[0 if shared else t - 1, labels[t - 1], labels[t]]
    return total


@kernel
def find(ptr, label, feature, wanted):
    """Position of the pair (feature, wanted), or the number of pairs where it has no weight."""
    low, high = ptr[feature], ptr[feature + ONE]
    end = high
    while low < high:
        middle = (low + high) >> ONE
        if label[middle] < wanted:
            low = middle + ONE
        else:
            high = middle
    return low if low < end and label[low] == wanted else np.uint64(label.shape[0])


@kernel
def touch(state, position, amount, count):
    """Add to D at one position; return the new number of touched entries."""
    if state.delta[position] == 0.0:
        state.touched[count] = position
        count += 1
    state.delta[position] += amount
    return count


@kernel
def touch_row(data, ptr, label, base, row, wanted, amount, state, count):
    """Add ``amount`` x the features of one token at the pairs of label ``wanted``."""
    none = np.uint64(label.shape[0])
    for k in range(data.indptr[row], data.indptr[row + ONE]):
        position = find(ptr, label, np.uint64(data.indices[k]), wanted)
        if position != none:
            count = touch(state, position + base, amount * data.values[k], count)
    return count


@kernel
def touch_path(data, table, first, labels, amount, state, count):
    """Add ``amount`` x the transition, start, end and step features of one labeling."""
    n, m = labels.shape[0], table.start.shape[0]
    if table.start[labels[0]] >= 0:
        count = touch(state, table.start[labels[0]], amount, count)
    if table.end[labels[n - 1]] >= 0:
        count = touch(state, table.end[labels[n - 1]], amount, count)
    base = np.uint64(table.first_step)
    for t in range(1, n):
        before, here = labels[t - 1], labels[t]
        if table.transition[before, here] >= 0:
            count = touch(state, table.transition[before, here], amount, count)
        if table.step_label.shape[0] > 0:
            row = np.uint64(first + t)
            count = touch_row(
                data, table.step_ptr, table.step_label, base, row, before * m + here, amount, state, count
            )
    return count


@kernel
def gather(data, table, i, path, planes, weights, state, share):
    """List D = phi(path) - sum_k weights[k] phi(planes[k]) in ``touched`` and ``moved``; return (entries, |D|^2).

    ``planes`` (K, n_tokens); those with weight 0 are passed over.
    """
    first, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    count = 0
    for t in range(n):
        for y in range(share.shape[0]):
            share[y] = 0.0
        share[path[t]] = 1.0
        for k in range(weights.shape[0]):
            share[planes[k, first + t]] -= weights[k]
        for y in range(share.shape[0]):
            if abs(share[y]) > 1e-15:  # below: the rounding error of weights that sum to 1
                row = np.uint64(first + t)
                count = touch_row(data, table.ptr, table.label, ZERO, row, y, share[y], state, count)
    count = touch_path(data, table, first, path, 1.0, state, count)
    for k in range(weights.shape[0]):
        if weights[k] != 0.0:
            count = touch_path(data, table, first, planes[k, first : first + n], -weights[k], state, count)
    norm = 0.0
    for j in range(count):
        value = state.delta[state.touched[j]]
        state.moved[j] = value
        state.delta[state.touched[j]] = 0.0
        norm += value * value
    return count, norm


@kernel
def step(table, state, count, size, elapsed):
    """Theta += size x D and memory += elapsed x size x D, with the dense copies.

    Where iterates are averaged with weights whose running sum before this step is ``elapsed``, the average is
    theta - memory / (sum of all weights): a step costs only the entries it touches.
    """
    n_state = table.label.shape[0]
    m = np.uint64(table.start.shape[0])
    for j in range(count):
        position, change = state.touched[j], size * state.moved[j]
        state.theta[position] += change
        state.memory[position] += elapsed * change
        if position >= n_state:
            source, target = np.uint64(table.source[position - n_state]), np.uint64(table.target[position - n_state])
            if source < m and target < m:
                state.steps[0, source, target] += change
            elif target < m:
                state.begin[target] += change
            elif source < m:
                state.finish[source] += change


@kernel
def decode(data, table, state, i, work):
    """Decode sequence i under theta into ``work.path``; return its score and the number of mistaken tokens."""
    first, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    if n == 0:
        return 0.0, 0
    score_sequence(data, table, state, i, work)
    steps = state.steps if work.stack.shape[0] == 0 else work.stack[: n - 1]
    score = viterbi(work.unary[:n], steps, work.alpha, work.path[:n])
    wrong = 0
    for t in range(n):
        wrong += work.path[t] != data.gold[first + t]
    return score, wrong


@kernel
def perceptron_epoch(data, table, state, work, order, rate, gold, elapsed):
    """Decode every sequence and step toward its gold labels where they differ; return the number of mistaken tokens.

    ``rate`` (n_sequences,) scales the step of each; ``gold`` is the gold labeling as (1, n_tokens); ``elapsed``
    counts the sequences seen before this epoch.
    """
    whole = np.ones(1)
    mistakes = 0
    for s in range(order.shape[0]):
        i = order[s]
        elapsed += 1.0
        if rate[i] == 0.0:
            continue
        _, wrong = decode(data, table, state, i, work)
        mistakes += wrong
        if wrong > 0:
            path = work.path[: data.offsets[i + 1] - data.offsets[i]]
            count, _ = gather(data, table, i, path, gold, whole, state, work.share)
            step(table, state, count, -rate[i], elapsed - 1.0)
    return mistakes


@kernel
def add_hamming(unary, gold):
    """Add 1 to every label but the gold one."""
    for t in range(unary.shape[0]):
        for y in range(unary.shape[1]):
            if y != gold[t]:
                unary[t, y] += 1.0


@kernel
def keep_plane(planes, weights, losses, first, path, loss, share):
    """Move ``share`` of the weight to the labeling ``path``, kept as a new plane unless it is one already."""
    n = path.shape[0]
    free, place = -1, -1
    for k in range(weights.shape[0]):
        weights[k] *= 1.0 - share
        if weights[k] > 0.0:
            same = True
            for t in range(n):
                if planes[k, first + t] != path[t]:
                    same = False
                    break
            if same:
                place = k
        elif free < 0:
            free = k
    if place < 0:
        place = free
        for t in range(n):
            planes[place, first + t] = path[t]
        losses[place] = loss
    weights[place] += share


@kernel
def frank_wolfe_epoch(data, table, state, work, order, cost, l2, planes, weights, losses, tally, fixed):
    """One pass of block-coordinate Frank-Wolfe ([LacosteJulien13], algorithm 4); return the sum of gaps.

    planes (K, n_tokens) uint16, weights and losses (n_sequences, K); a sequence needs a free plane in every pass.
    ``tally`` holds (steps so far, loss term of the dual, memory of its average). Where ``fixed``, nothing moves, and
    the sum is the duality gap.
    """
    total = 0.0
    for s in range(order.shape[0]):
        i = order[s]
        first, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        if n == 0 or cost[i] == 0.0:
            continue
        score_sequence(data, table, state, i, work)
        steps = state.steps if work.stack.shape[0] == 0 else work.stack[: n - 1]
        unary, path, gold = work.unary[:n], work.path[:n], data.gold[first : first + n]
        kept = 0.0
        held = 0.0
        for k in range(weights.shape[1]):
            if weights[i, k] > 0.0:
                kept += weights[i, k] * (path_score(unary, steps, planes[k, first : first + n]) + losses[i, k])
                held += weights[i, k] * losses[i, k]
        add_hamming(unary, gold)
        gap = max(0.0, viterbi(unary, steps, work.alpha, path) - kept)
        total += cost[i] * gap
        if fixed:
            continue
        tally[0] += 1.0
        if gap == 0.0:
            continue
        count, norm = gather(data, table, i, path, planes, weights[i], state, work.share)
        share = 1.0 if cost[i] * norm <= l2 * gap else l2 * gap / (cost[i] * norm)
        elapsed = 0.5 * tally[0] * (tally[0] - 1.0)
        step(table, state, count, -share * cost[i] / l2, elapsed)
        loss = 0.0
        for t in range(n):
            loss += path[t] != gold[t]
        change = share * cost[i] * (loss - held)
        tally[1] += change
        tally[2] += elapsed * change
        keep_plane(planes, weights[i], losses[i], first, path, loss, share)
    return total
