"""Probabilities of segments against all labelings."""

from itertools import product

import numpy as np
import pytest

from oracles.labelings import viterbi
from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.spans import SegmentTable, spans
from rulefield.inference.sequences.exact import log_partition
from rulefield.inference.sequences.reading import read_chains, restricted
from rulefield.inference.sequences.sums import Question, chances_of
from rulefield.kernels.jit import Kernel
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import before, compile_rules, segments

LABELS = {
    "BIO": ["O", "B-x", "I-x", "B-y"],
    "IOB1": ["O", "B-x", "I-x", "I-y"],
    "BIOES": ["O", "B-x", "E-x", "S-x"],
    None: ["O", "x", "y"],
    "deep": ["O", "B-a/B-x", "I-a/I-x", "I-a"],
}


def possible_potentials(labels, scheme, n, rng):
    """Random scores of the labelings that the scheme allows: compiled rules read no others."""
    allowed, start, end = allowed_transitions(labels, scheme)
    unary, pairwise = rng.normal(size=(n, len(labels))), rng.normal(size=(len(labels),) * 2)
    unary[0, ~start], unary[-1, ~end], pairwise[~allowed] = -np.inf, -np.inf, -np.inf
    return ChainPotentials(unary, pairwise)


def span_probabilities(problem, spans, table, tolerance=1e-3):
    """Probability of each segment (given with its level): one sum each without rules, all in one walk with rules."""
    if not problem.rules:
        p = problem.potentials
        return [min(1.0, np.exp(log_partition(restricted(p, s, table, k)) - log_partition(p))) for s, k in spans]
    asked = np.array([(s.start, s.stop, table.types.index(s.type), level) for s, level in spans], np.int64)
    question = Question(spans=asked, span_ptr=np.array([0, len(asked)]), starts=table.starts, kinds=table.type_of)
    return chances_of(problem, question, tolerance).span.tolist()


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("ruled", [False, True])
def test_a_segment_is_as_probable_as_the_labelings_that_hold_it(name, ruled):
    scheme, labels = "BIO" if name == "deep" else name, LABELS[name]
    table, rng = SegmentTable(labels, scheme), np.random.default_rng(len(labels))
    for n in (1, 3, 4):
        potentials = possible_potentials(labels, scheme, n, rng)
        kinds = [kind for kind in table.types if kind != "O"]
        rules = [(segments(kinds[0]) <= 1).soft(0.7), before(kinds[0], kinds[-1]).soft(0.4)] if ruled else []
        compiled = compile_rules(rules, labels, scheme, ["t"] * n)
        weight, holds = 0.0, {}
        for ids in product(range(len(labels)), repeat=n):
            names = [labels[i] for i in ids]
            cost = sum(rule.weight * rule.violation(["t"] * n, names, scheme) for rule in rules)
            mass = float(np.exp(potentials.score(np.array(ids)) - cost))
            if mass == 0.0:
                continue
            weight += mass
            for level in range(table.depth):
                for span in spans(names, scheme, level=None):
                    if span.type.count("/") == level:
                        holds[span, level] = holds.get((span, level), 0.0) + mass
        wanted = [(span, level) for span, level in holds if span.type != "O"]
        found = span_probabilities(ChainProblem(potentials, compiled), wanted, table, tolerance=0.0)
        np.testing.assert_allclose(found, [holds[key] / weight for key in wanted], rtol=1e-9)


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("size", [1.0, 900.0])
@pytest.mark.parametrize("compiled", [True, False])
def test_many_chains_are_read_as_each_by_its_sums(name, stepwise, size, compiled, monkeypatch):
    """Two passes give what one sum per segment gives, also if scores lie too far apart for plain products."""
    scheme, labels = "BIO" if name == "deep" else name, LABELS[name]
    monkeypatch.setattr(Kernel, "any_loaded", compiled)
    table, rng, lengths = SegmentTable(labels, scheme), np.random.default_rng(7), [5, 0, 1, 3, 1, 4]
    chains = [possible_potentials(labels, scheme, n, rng) for n in lengths if n]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    unary = size * np.concatenate([chain.unary for chain in chains])
    steps = rng.normal(size=(len(unary) if stepwise else 1, len(labels), len(labels)))
    steps = size * (steps + chains[0].pairwise)
    read = read_chains(unary, steps if stepwise else steps[0], offsets, table, True)
    assert read.proved.all()
    for i, (a, b) in enumerate(zip(offsets, offsets[1:])):
        found = read.segments.of(i, a, table)
        if a == b:
            assert found == []
            continue
        own = ChainPotentials(unary[a:b], steps[a : b - 1] if stepwise else steps[0])
        best = viterbi(own)
        names = [labels[y] for y in best.labels]
        assert [s for s, _ in found] == [s for s in spans(names, scheme, level=None) if s.type != "O"]
        np.testing.assert_allclose([read.score[i], read.total[i]], [best.score, log_partition(own)], rtol=1e-9)
        chance = read.chance[read.segments.pointer[i] : read.segments.pointer[i + 1]]
        np.testing.assert_allclose(chance, span_probabilities(ChainProblem(own), found, table), rtol=1e-6)


def test_chains_without_sums_have_the_same_segments():
    table, rng = SegmentTable(LABELS["BIO"], "BIO"), np.random.default_rng(3)
    own = possible_potentials(LABELS["BIO"], "BIO", 6, rng)
    read, summed = (read_chains(own.unary, own.pairwise, np.array([0, 6]), table, sums) for sums in (False, True))
    assert read.total is None
    assert [column.tolist() for column in read.segments] == [column.tolist() for column in summed.segments]
