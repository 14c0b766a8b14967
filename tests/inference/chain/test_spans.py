"""Probabilities of segments against all labellings."""

from itertools import product

import numpy as np
import pytest

from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.spans import SegmentTable, Span, spans
from rulefield.inference.chain.spans import span_probabilities
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
    """Random scores of the labellings that the scheme allows: compiled rules read no others."""
    allowed, start, end = allowed_transitions(labels, scheme)
    unary, pairwise = rng.normal(size=(n, len(labels))), rng.normal(size=(len(labels),) * 2)
    unary[0, ~start], unary[-1, ~end], pairwise[~allowed] = -np.inf, -np.inf, -np.inf
    return ChainPotentials(unary, pairwise)


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("ruled", [False, True])
def test_a_segment_is_as_probable_as_the_labellings_that_hold_it(name, ruled):
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
        found = span_probabilities(ChainProblem(potentials, compiled), wanted, table)
        np.testing.assert_allclose(found, [holds[key] / weight for key in wanted], rtol=1e-9)


def test_no_span_no_sum():
    potentials = ChainPotentials(np.zeros((1, 2)), np.zeros((2, 2)))
    assert span_probabilities(ChainProblem(potentials), [], SegmentTable(["O", "B-x"], "BIO")) == []
    assert span_probabilities(
        ChainProblem(potentials), [(Span(0, 1, "x"), 0)], SegmentTable(["O", "B-x"], "BIO")
    ) == [0.5]
