"""Sums over all labelings of tables of log-scores by variable elimination, with the marginals of every table, and draws.

Marginals are derivatives: what the sum owes to each entry goes back through the same steps ([Dechter99]). A component is
summed in products of exponentials, each table's largest being 1; if products become so small that some may have
vanished, it is summed again in logarithms, which takes an exponential for each entry.
"""

import numpy as np

from rulefield.kernels.graph.exact.eliminate import (
    add_inner,
    add_up,
    advance,
    fill_buckets,
    gather_inputs,
    outer_size,
)
from rulefield.kernels.jit import kernel

LEAST_LOGARITHM = -400.0
"""Of a sum of products whose largest possible value is 1: below it, products may have vanished (at -745)."""


@kernel
def sum_tables(tables, plan, best):
    """Return the marginals of all tables, laid out like ``values``, and the log-sum of each component, at its last place.

    Nodes in ``best`` (a mask; they must go first) take their best label instead of being summed over.
    """
    buckets = fill_buckets(tables, plan)
    entries, longest = message_sizes(tables, plan)
    n, begin = len(plan.order), len(tables.values)
    data = np.empty(begin + longest)
    share = np.zeros(begin + longest)
    logs, scale = np.zeros(n), np.ones(n)
    first = 0
    for last in range(n):
        if plan.parent[last] >= 0:
            continue
        place_messages(buckets, entries, first, last, begin)
        logs[last], linear = send_component(data, scale, tables, plan, buckets, best, first, last)
        if logs[last] > -np.inf:
            share[begin : begin + entries[first : last + 1].sum()] = 0.0
            share[buckets.message_at[last]] = 1.0
            for p in range(last, first - 1, -1):
                give_back(data, share, scale[p], tables, plan, buckets, best[plan.order[p]], p, linear)
        first = last + 1
    return share[:begin], logs


@kernel
def message_sizes(tables, plan):
    """Entries of the table that each place leaves, and of all those of the largest component."""
    n = len(plan.order)
    entries = np.ones(n, np.int64)
    total, longest = 0, 0
    for p in range(n):
        for d in range(plan.width[p]):
            entries[p] *= tables.sizes[plan.order[plan.scope[p, d]]]
        total += entries[p]
        if plan.parent[p] < 0:
            longest = max(longest, total)
            total = 0
    return entries, longest


@kernel
def place_messages(buckets, entries, first, last, at):
    """Lay the tables that places ``first`` to ``last`` leave out one after the other."""
    for p in range(first, last + 1):
        buckets.message_at[p] = at
        at += entries[p]


@kernel
def send_component(data, scale, tables, plan, buckets, best, first, last):
    """Sum over one component; returns the logarithm of the sum, and whether it was summed in products."""
    for linear in (True, False):
        tops, shrunk = 0.0, 0.0
        for p in range(first, last + 1):
            tops += read_tables(data, tables, buckets, p, linear)
            scale[p] = send(data, tables, plan, buckets, best[plan.order[p]], p, linear)
            shrunk += np.log(scale[p])
        if linear and shrunk > LEAST_LOGARITHM:
            return tops + shrunk, True
    return data[buckets.message_at[last]], False


@kernel
def read_tables(data, tables, buckets, p, linear):
    """Write the tables of place ``p``: as they are, or as exponentials up to 1; returns what was taken out."""
    taken = 0.0
    t = buckets.head[p]
    while t >= 0:
        top = top_of(tables, t) if linear else 0.0
        taken += top
        for k in range(tables.at[t], tables.at[t + 1]):
            data[k] = np.exp(tables.values[k] - top) if linear else tables.values[k]
        t = buckets.following[t]
    return taken


@kernel
def top_of(tables, t):
    """Largest value of a table; 0 if all are minus infinity."""
    top = -np.inf
    for k in range(tables.at[t], tables.at[t + 1]):
        top = max(top, tables.values[k])
    return top if top > -np.inf else 0.0


@kernel
def send(data, tables, plan, buckets, is_best, p, linear):
    """Fill the table that place ``p`` leaves; products are divided by the largest, which is returned (else 1)."""
    shape, inputs, split = gather_inputs(tables, plan, buckets, p)
    size, block, outer = tables.sizes[plan.order[p]], inputs.inner.shape[1], outer_size(shape, split)
    fixed = add_inner(data, inputs, size, linear)
    digit, offset, trial = np.zeros(split, np.int64), inputs.base.copy(), np.empty(block)
    begin, largest = buckets.message_at[p], 0.0
    for o in range(outer):
        out = data[begin + o * block : begin + (o + 1) * block]
        if linear and not is_best:
            sum_products(data, inputs, offset, fixed, trial, out)
        else:
            take_best(data, inputs, offset, fixed, linear, trial, out)
            if not is_best:
                add_logarithms(data, inputs, offset, fixed, trial, out)
        for b in range(block):
            largest = max(largest, out[b])
        advance(inputs, shape, split, digit, offset)
    if not linear:
        return 1.0
    if largest > 0.0:
        for k in range(begin, begin + outer * block):
            data[k] /= largest
    return largest


@kernel
def sum_products(data, inputs, offset, fixed, trial, out):
    """Sum a block over the labels of the node that goes."""
    out[:] = 0.0
    for y in range(len(fixed)):
        add_up(data, inputs, offset, fixed[y], y, True, trial)
        for b in range(len(out)):
            out[b] += trial[b]


@kernel
def take_best(data, inputs, offset, fixed, linear, trial, out):
    """Fill a block with the best over the labels of the node that goes."""
    out[:] = -np.inf
    for y in range(len(fixed)):
        add_up(data, inputs, offset, fixed[y], y, linear, trial)
        for b in range(len(out)):
            out[b] = max(out[b], trial[b])


@kernel
def add_logarithms(data, inputs, offset, fixed, trial, out):
    """Turn the best of a block, in logarithms, into the logarithm of the sum."""
    total = np.zeros(len(out))
    for y in range(len(fixed)):
        add_up(data, inputs, offset, fixed[y], y, False, trial)
        for b in range(len(out)):
            if trial[b] > -np.inf:
                total[b] += np.exp(trial[b] - out[b])
    for b in range(len(out)):
        if total[b] > 0.0:
            out[b] += np.log(total[b])


@kernel
def give_back(data, share, scale, tables, plan, buckets, is_best, p, linear):
    """Hand the shares of the table that place ``p`` left down to all that it was made of."""
    shape, inputs, split = gather_inputs(tables, plan, buckets, p)
    size, block, outer = tables.sizes[plan.order[p]], inputs.inner.shape[1], outer_size(shape, split)
    fixed = add_inner(data, inputs, size, linear)
    inner_share = np.zeros((size, block))
    digit, offset = np.zeros(split, np.int64), inputs.base.copy()
    trial, due = np.empty(block), np.empty(block)
    for o in range(outer):
        here = buckets.message_at[p] + o * block
        message = data[here : here + block]
        overwrite_due(due, share[here : here + block], message, scale, linear and not is_best)
        for y in range(size):
            add_up(data, inputs, offset, fixed[y], y, linear, trial)
            if is_best:
                take_share_of_best(trial, due, message, scale)
            else:
                take_share(trial, due, message, linear)
            hand_down(share, inputs, offset, y, trial, inner_share[y])
        advance(inputs, shape, split, digit, offset)
    for i in range(len(inputs.base)):
        if inputs.kind[i] == 0:
            for y in range(size):
                begin = inputs.base[i] + y * inputs.own[i]
                for b in range(block):
                    share[begin + inputs.inner[i, b]] += inner_share[y, b]


@kernel
def overwrite_due(due, share, message, scale, divide):
    """Fill what is due to a block; ``divide``: per unit of its products."""
    for b in range(len(due)):
        due[b] = share[b]
        if divide:
            due[b] = share[b] / (scale * message[b]) if message[b] > 0.0 else 0.0


@kernel
def take_share(trial, due, message, linear):
    """Turn the values of one label into its shares."""
    for b in range(len(trial)):
        if linear:
            trial[b] *= due[b]
        else:
            trial[b] = due[b] * np.exp(trial[b] - message[b]) if trial[b] > -np.inf else 0.0


@kernel
def take_share_of_best(trial, due, message, scale):
    """Give all that is due to the first label that is best."""
    for b in range(len(trial)):
        reached = trial[b] / scale == message[b]
        trial[b] = due[b] if reached else 0.0
        if reached:
            due[b] = 0.0


@kernel
def hand_down(share, inputs, offset, y, part, inner_share):
    """Add the shares of one block and label to all inputs but those over inner nodes only, which are summed up first."""
    total = 0.0
    for b in range(len(part)):
        inner_share[b] += part[b]
        total += part[b]
    for i in range(len(offset)):
        begin = offset[i] + y * inputs.own[i]
        if inputs.kind[i] == 1:
            share[begin] += total
        elif inputs.kind[i] == 3:
            for b in range(len(part)):
                share[begin + b] += part[b]
        elif inputs.kind[i] == 2:
            for b in range(len(part)):
                share[begin + inputs.inner[i, b]] += part[b]


@kernel
def draw_labels(tables, plan, best, uniform):
    """Draw labelings (draws, nodes) of the distribution, given uniform numbers (draws, places); the sum must not be 0."""
    buckets = fill_buckets(tables, plan)
    entries, _ = message_sizes(tables, plan)
    n, begin = len(plan.order), len(tables.values)
    data, scale, linear = np.empty(begin + entries.sum()), np.ones(n), np.ones(n, np.bool_)
    place_messages(buckets, entries, 0, n - 1, begin)
    first = 0
    for last in range(n):
        if plan.parent[last] < 0:
            _, linear[first : last + 1] = send_component(data, scale, tables, plan, buckets, best, first, last)
            first = last + 1
    labels = np.zeros((len(uniform), n), np.int64)
    for p in range(n - 1, -1, -1):
        v = plan.order[p]
        _, inputs, _ = gather_inputs(tables, plan, buckets, p)
        weight = np.empty(tables.sizes[v])
        for d in range(len(labels)):
            weigh_labels(data, inputs, plan, p, labels[d], linear[p], weight)
            labels[d, v] = np.argmax(weight) if best[v] else pick(weight, uniform[d, p], linear[p])
    return labels


@kernel
def weigh_labels(data, inputs, plan, p, labels, linear, weight):
    """Fill what each label of the node at place ``p`` is worth, given the labels of those that went later."""
    weight[:] = 1.0 if linear else 0.0
    for i in range(len(inputs.base)):
        at = inputs.base[i]
        for d in range(plan.width[p]):
            at += inputs.step[i, d] * labels[plan.order[plan.scope[p, d]]]
        for y in range(len(weight)):
            term = data[at + y * inputs.own[i]]
            weight[y] = weight[y] * term if linear else weight[y] + term


@kernel
def pick(weight, uniform, linear):
    """Return a label drawn by its weight (a logarithm, if not ``linear``)."""
    if not linear:
        top = weight.max()
        for y in range(len(weight)):
            weight[y] = np.exp(weight[y] - top)
    left = uniform * weight.sum()
    chosen = 0
    for y in range(len(weight)):
        if weight[y] > 0.0:
            chosen = y
            left -= weight[y]
            if left < 0.0:
                break
    return chosen
