"""Walks times the machine of their rules: sums over labelings by dense vectors of the machine's states, node by node."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def dense_before(walk, machine, kind, before):
    """Fill ``before`` (nodes, states): mass of the labelings up to each node that lead to each state; return their total.

    A node passes its vector on through each step once, and then adds it along all arcs of that step.
    """
    layer, label, arc_ptr, arc_to, arc_mass = walk.layer, walk.label, walk.arc_ptr, walk.arc_to, walk.arc_mass
    step, to, pay, end = machine.step, machine.to, machine.pay, machine.end
    states, m = len(end), step.shape[1]
    passed, done = np.empty(to.shape), np.full(len(to), -1)
    for i in range(layer[1]):
        s = step[kind[0], label[i], m]
        before[i, to[s, 0]] = walk.start[i] * pay[s, 0]
    for t in range(1, len(layer) - 1):
        k = kind[t]
        for i in range(layer[t - 1], layer[t]):
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                j, share = arc_to[a], arc_mass[a]
                s = step[k, label[j], label[i]]
                if done[s] != i:
                    done[s] = i
                    for q in range(states):
                        passed[s, q] = 0.0
                    for q in range(states):
                        passed[s, to[s, q]] += before[i, q] * pay[s, q]
                for q in range(states):
                    before[j, q] += share * passed[s, q]
    total = 0.0
    for i in range(layer[-2], layer[-1]):
        for q in range(states):
            total += before[i, q] * end[q]
    return total


@kernel
def dense_marginals(walk, machine, kind, before, total, node):
    """Add the probability of every label to ``node`` (n, m); ``before`` and ``total`` are those of :func:`dense_before`."""
    layer, label, arc_ptr, arc_to, arc_mass = walk.layer, walk.label, walk.arc_ptr, walk.arc_to, walk.arc_mass
    step, to, pay, end = machine.step, machine.to, machine.pay, machine.end
    states, n = len(end), len(layer) - 1
    after, ahead = np.zeros(before.shape), np.empty(to.shape)
    done, met = np.full(len(to), -1), np.empty(len(to), np.int64)
    for back in range(n):
        t = n - 1 - back
        for i in range(layer[t], layer[t + 1]):
            count = 0
            for q in range(states if t == n - 1 else 0):
                after[i, q] = end[q]
            for a in range(arc_ptr[i], arc_ptr[i + 1] if t < n - 1 else arc_ptr[i]):
                j, share = arc_to[a], arc_mass[a]
                s = step[kind[t + 1], label[j], label[i]]
                if done[s] != i:
                    done[s], met[count] = i, s
                    count += 1
                    for q in range(states):
                        ahead[s, q] = 0.0
                for q in range(states):
                    ahead[s, q] += share * after[j, q]
            for c in range(count):
                s = met[c]
                for q in range(states):
                    after[i, q] += pay[s, q] * ahead[s, to[s, q]]
            mass = 0.0
            for q in range(states):
                mass += before[i, q] * after[i, q]
            node[t, label[i]] += mass / total
