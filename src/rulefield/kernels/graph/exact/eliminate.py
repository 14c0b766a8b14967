"""Variable elimination: the exact maximum of a sum of tables, node by node ([Dechter99]).

Eliminating a node replaces the tables over it by one over its neighbors: the best of its labels for each combination of
theirs (or the sum over its labels: :mod:`rulefield.kernels.graph.exact.sums`). In the order of a :class:`Plan` the tables
that wait form a stack, as in sparse factorization. A new table is made in blocks: the labels of its last nodes run inside a
block, those of its first ones outside. Tables over inner nodes only are added up once for all blocks, tables over outer
nodes only are one number per block and label, so that a node of many edges costs little more than a node of one.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel

BLOCK = 128


class Tables(NamedTuple):
    """A sum of tables over numbered nodes.

    ``sizes`` counts the labels of nodes. Table t is over ``scope[scope_ptr[t] : scope_ptr[t + 1]]`` and begins at ``at[t]``
    of ``values``, the last node's label running fastest.
    """

    sizes: np.ndarray
    scope_ptr: np.ndarray
    scope: np.ndarray
    at: np.ndarray
    values: np.ndarray


class Inputs(NamedTuple):
    """Tables over one node and some of the nodes of its new table: where each begins, and its steps.

    ``own`` is the step of the node's label, ``step[i, d]`` that of the d-th node of the new table (0: not in scope),
    ``kind`` 0: inner nodes only (or none), 1: outer nodes only, 2: both, 3: both, and inner labels are neighbors in memory.
    """

    base: np.ndarray
    own: np.ndarray
    step: np.ndarray
    kind: np.ndarray
    inner: np.ndarray


class NodeBuckets(NamedTuple):
    """What each place of a plan reads: lists of tables and of messages (the first of each place, and the next ones).

    ``rank`` holds the place of each node, ``message_at`` where the message of each place begins; ``place_of`` is scratch.
    """

    rank: np.ndarray
    head: np.ndarray
    following: np.ndarray
    child: np.ndarray
    sibling: np.ndarray
    message_at: np.ndarray
    place_of: np.ndarray


@kernel
def eliminate(tables, plan, stop):
    """Return the best sum and, the labels that reach it.

    ``stop[0]`` may be raised by another thread: the sum returned is then inf.
    """
    n = len(plan.order)
    buckets = fill_buckets(tables, plan)
    data = np.empty(len(tables.values) + np.int64(plan.peak))
    overwrite(data, tables.values)
    kept = np.zeros(np.int64(plan.kept), np.uint8)
    kept_at = np.zeros(n + 1, np.int64)
    labels = np.zeros(n, np.int64)
    total, top = 0.0, len(tables.values)
    for p in range(n):
        if stop[0]:
            return np.inf, labels
        size = tables.sizes[plan.order[p]]
        shape, inputs, split = gather_inputs(tables, plan, buckets, p)
        entries = combine(data, inputs, shape, split, size, top, kept, kept_at[p])
        c, begin = buckets.child[p], top
        while c >= 0:
            begin = min(begin, buckets.message_at[c])
            c = buckets.sibling[c]
        kept_at[p + 1] = kept_at[p] + ((entries + 7) // 8 if size == 2 else entries)
        if plan.parent[p] < 0:
            total += data[top]
            top = begin
            continue
        buckets.message_at[p] = begin
        if begin < top:
            for k in range(entries):
                data[begin + k] = data[top + k]
        top = begin + entries
    if total > -np.inf:
        trace_back(plan, tables.sizes, kept, kept_at, labels)
    return total, labels


@kernel
def fill_buckets(tables, plan):
    """List what each place reads; messages have no place yet."""
    n, n_tables = len(plan.order), len(tables.at) - 1
    rank = np.empty(n, np.int64)
    for p in range(n):
        rank[plan.order[p]] = p
    head, following = np.full(n, -1, np.int64), np.full(n_tables, -1, np.int64)
    for t in range(n_tables):
        first = n
        for q in range(tables.scope_ptr[t], tables.scope_ptr[t + 1]):
            first = min(first, rank[tables.scope[q]])
        head[first], following[t] = t, head[first]
    child, sibling = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for p in range(n):
        up = plan.parent[p]
        if up >= 0:
            child[up], sibling[p] = p, child[up]
    return NodeBuckets(rank, head, following, child, sibling, np.zeros(n, np.int64), np.full(n, -1, np.int64))


@kernel
def gather_inputs(tables, plan, buckets, p):
    """Return the shape of the table that place ``p`` makes, what it reads, and the first node that runs inside a block."""
    width = np.int64(plan.width[p])
    shape = np.empty(width, np.int64)
    for d in range(width):
        shape[d] = tables.sizes[plan.order[plan.scope[p, d]]]
        buckets.place_of[plan.scope[p, d]] = d
    split, block = width, 1
    while split > 0 and block * shape[split - 1] <= BLOCK:
        split -= 1
        block *= shape[split]
    count = 0
    t, c = buckets.head[p], buckets.child[p]
    while t >= 0:
        count += 1
        t = buckets.following[t]
    while c >= 0:
        count += 1
        c = buckets.sibling[c]
    inputs = Inputs(
        np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros((count, width), np.int64),
        np.zeros(count, np.int64), np.zeros((count, block), np.int32),
    )  # fmt: skip
    i, t, c = 0, buckets.head[p], buckets.child[p]
    while t >= 0:
        inputs.base[i] = tables.at[t]
        step = 1
        for q in range(tables.scope_ptr[t + 1] - 1, tables.scope_ptr[t] - 1, -1):
            v = tables.scope[q]
            if buckets.rank[v] == p:
                inputs.own[i] = step
            else:
                inputs.step[i, buckets.place_of[buckets.rank[v]]] = step
            step *= tables.sizes[v]
        i, t = i + 1, buckets.following[t]
    while c >= 0:
        inputs.base[i] = buckets.message_at[c]
        step = 1
        for d in range(plan.width[c] - 1, -1, -1):
            q = plan.scope[c, d]
            if q == p:
                inputs.own[i] = step
            else:
                inputs.step[i, buckets.place_of[q]] = step
            step *= tables.sizes[plan.order[q]]
        i, c = i + 1, buckets.sibling[c]
    for i in range(count):
        classify(inputs, i, shape, split, block)
    return shape, inputs, split


@kernel
def classify(inputs, i, shape, split, block):
    """Say where the nodes of input ``i`` run, and lay out its steps inside a block."""
    outside = inside = False
    for d in range(len(shape)):
        if inputs.step[i, d]:
            outside = outside or d < split
            inside = inside or d >= split
    inputs.kind[i] = (2 if inside else 1) if outside else 0
    filled = 1
    for d in range(len(shape) - 1, split - 1, -1):
        for y in range(1, shape[d]):
            for b in range(filled):
                inputs.inner[i, y * filled + b] = inputs.inner[i, b] + y * inputs.step[i, d]
        filled *= shape[d]
    if inputs.kind[i] == 2:
        neighbors = True
        for b in range(block):
            neighbors = neighbors and inputs.inner[i, b] == b
        if neighbors:
            inputs.kind[i] = 3


@kernel
def combine(data, inputs, shape, split, n_labels, out, kept, kept_at):
    """Write the new table at ``out`` and the best labels at ``kept_at``; returns the number of its entries."""
    block, outer = inputs.inner.shape[1], outer_size(shape, split)
    fixed = add_inner(data, inputs, n_labels, False)
    digit, offset = np.zeros(split, np.int64), inputs.base.copy()
    best, trial, pick = np.empty(block), np.empty(block), np.zeros(block, np.uint8)
    for o in range(outer):
        here = out + o * block
        for y in range(n_labels):
            add_up(data, inputs, offset, fixed[y], y, False, trial)
            if y == 0:
                for b in range(block):
                    best[b] = trial[b]
                    pick[b] = 0
            else:
                for b in range(block):
                    better = trial[b] > best[b]
                    best[b] = trial[b] if better else best[b]
                    pick[b] = y if better else pick[b]
        for b in range(block):
            data[here + b] = best[b]
        if n_labels == 2:
            pack(kept, kept_at, o * block, pick)
        else:
            for b in range(block):
                kept[kept_at + o * block + b] = pick[b]
        advance(inputs, shape, split, digit, offset)
    return outer * block


@kernel
def outer_size(shape, split):
    """Return the number of blocks."""
    outer = 1
    for d in range(split):
        outer *= shape[d]
    return outer


@kernel
def advance(inputs, shape, split, digit, offset):
    """Go on to the next block: the labels of the outer nodes, and where each input stands."""
    for d in range(split - 1, -1, -1):
        digit[d] += 1
        back = digit[d] == shape[d]
        if back:
            digit[d] = 0
        for i in range(len(offset)):
            offset[i] += inputs.step[i, d] * (1 - shape[d] if back else 1)
        if not back:
            return


@kernel
def add_inner(data, inputs, n_labels, linear):
    """Add up (``linear``: multiply) the inputs over inner nodes only, for each label and place in a block."""
    block = inputs.inner.shape[1]
    fixed = np.full((n_labels, block), 1.0 if linear else 0.0)
    for i in range(len(inputs.base)):
        if inputs.kind[i] == 0:
            for y in range(n_labels):
                begin = inputs.base[i] + y * inputs.own[i]
                if linear:
                    for b in range(block):
                        fixed[y, b] *= data[begin + inputs.inner[i, b]]
                else:
                    for b in range(block):
                        fixed[y, b] += data[begin + inputs.inner[i, b]]
    return fixed


@kernel
def add_up(data, inputs, offset, fixed, y, linear, out):
    """Add up (``linear``: multiply) all inputs over one block, for label ``y`` of the node that goes."""
    number = 1.0 if linear else 0.0
    for i in range(len(offset)):
        if inputs.kind[i] == 1:
            term = data[offset[i] + y * inputs.own[i]]
            number = number * term if linear else number + term
    for b in range(len(out)):
        out[b] = fixed[b] * number if linear else fixed[b] + number
    for i in range(len(offset)):
        begin = offset[i] + y * inputs.own[i]
        if inputs.kind[i] == 3:
            for b in range(len(out)):
                out[b] = out[b] * data[begin + b] if linear else out[b] + data[begin + b]
        elif inputs.kind[i] == 2:
            for b in range(len(out)):
                term = data[begin + inputs.inner[i, b]]
                out[b] = out[b] * term if linear else out[b] + term


@kernel
def pack(kept, kept_at, first, pick):
    """Store labels 0 and 1 as bits ``first``, ``first + 1``, ..."""
    if first % 8 == 0 and len(pick) % 8 == 0:
        here = kept_at + first // 8
        for c in range(len(pick) // 8):
            byte = 0
            for k in range(8):
                byte |= np.int64(pick[8 * c + k]) << k
            kept[here + c] = byte
        return
    for b in range(len(pick)):
        bit = first + b
        kept[kept_at + bit // 8] |= np.uint8(np.int64(pick[b]) << (bit % 8))


@kernel
def trace_back(plan, sizes, kept, kept_at, labels):
    """Read the best labels from the last eliminated node to the first."""
    for p in range(len(plan.order) - 1, -1, -1):
        v = plan.order[p]
        index = 0
        for d in range(plan.width[p]):
            w = plan.order[plan.scope[p, d]]
            index = index * sizes[w] + labels[w]
        if sizes[v] == 2:
            labels[v] = (np.int64(kept[kept_at[p] + index // 8]) >> (index % 8)) & 1
        else:
            labels[v] = kept[kept_at[p] + index]
