"""The best mixture of two labelings."""

import itertools

import numpy as np
import pytest

from oracles.graphs import random_problem
from rulefield.inference.graph.network import build_network
from rulefield.inference.graph.parts import parts_of
from rulefield.kernels.graph.local import cross, total_value

SHAPES = {"plain": {"n_factors": 0}, "logic": {"n_factors": 6}, "rows": {"n_factors": 2, "n_rows": 3}}


def start(rng, network):
    sizes = np.diff(network.net.node_at.astype(np.int64))
    return rng.integers(0, sizes).astype(np.uint64)


def allowed(rng, network, tries=50):
    """A random labeling that breaks no hard rule, or None."""
    for _ in range(tries):
        labels = start(rng, network)
        if total_value(network.net, network.scores, labels) > -np.inf:
            return labels
    return None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_mixture_takes_the_better_of_each_group(shape):
    mixed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        network = build_network(parts_of(random_problem(rng, 8, **SHAPES[shape]))[0])
        one, other = allowed(rng, network), allowed(rng, network)
        if one is None or other is None:
            continue
        s, found = network.scores, one.copy()
        cross(network.net, s.unary, s.pairwise, s.final, found, other)
        value = total_value(network.net, s, found)
        groups = groups_of(network.net, one != other)
        values = []
        for chosen in itertools.product([False, True], repeat=len(groups)):
            labels = one.copy()
            for group, take in zip(groups, chosen):
                labels[group] = other[group] if take else one[group]
            values.append(total_value(network.net, s, labels))
        assert value == pytest.approx(max(values))
        mixed += len(groups) > 1
    assert mixed > 10 or shape == "logic"


def groups_of(net, differs):
    """Connected groups of the nodes that differ: over edges, and over rules that read two of them."""
    n = len(differs)
    near = [set(map(int, net.inc_other[net.inc_ptr[v] : net.inc_ptr[v + 1]])) for v in range(n)]
    for f in range(len(net.n_states)):
        nodes = set(map(int, net.pos_node[net.automaton_ptr[f] : net.automaton_ptr[f + 1]]))
        for v in nodes:
            near[v] |= nodes
    left, groups = {int(v) for v in np.flatnonzero(differs)}, []
    while left:
        group, fresh = set(), {left.pop()}
        while fresh:
            v = fresh.pop()
            group.add(v)
            reached = near[v] & left
            left -= reached
            fresh |= reached
        groups.append(sorted(group))
    return groups
