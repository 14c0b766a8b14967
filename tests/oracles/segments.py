"""Random small semi-Markov problems."""

import numpy as np
from hypothesis import strategies as st

from oracles.compiled import random_rule
from rulefield.estimators.segments.coding import SegmentCoder
from rulefield.problem.segments import SegmentPotentials, SegmentProblem, Spans, Spelling


def random_spans(rng, n, m, scale=1.0):
    """Scores of about a third of all spans, sorted by end."""
    found = [(s, e - s + 1) for e in range(n) for s in range(e, -1, -1) if rng.random() < 0.3]
    start, length = (np.array([f[k] for f in found], np.int64) for k in range(2))
    return Spans(start, length, rng.normal(size=(len(found), m)) * scale)


def random_segments(rng, n, m, longest, forbidden=0.0, scale=1.0):
    """Potentials of n tokens, m labels, segments of at most ``longest`` tokens, a share of the scores forbidden."""
    shapes = [(n, m), (n, m), (n, m), (longest, m), (m, m)]
    arrays = [rng.normal(size=shape) * scale for shape in shapes]
    for array in arrays:
        array[rng.random(array.shape) < forbidden] = -np.inf
    return SegmentPotentials(*arrays, random_spans(rng, n, m, scale))


@st.composite
def segment_problems(draw, max_steps=5, max_states=3, forbidden=(0.0, 0.1, 0.4), scales=(0.0, 1.0, 50.0, 1e4)):
    """Problems small enough to enumerate: ties, large weights, forbidden parts, scored spans."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m, longest = draw(st.integers(0, max_steps)), draw(st.integers(1, max_states)), draw(st.integers(1, 6))
    return random_segments(rng, n, m, longest, draw(st.sampled_from(forbidden)), draw(st.sampled_from(scales)))


SCHEMES = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES", "BILOU": "BILU", "IOE1": "IE", "IOE2": "IE"}


def scheme_coder(scheme, types, outside=True):
    """A coder that has met every label of these types."""
    return SegmentCoder([f"{p}-{kind}" for kind in types for p in SCHEMES[scheme]] + ["O"] * outside, scheme)


def random_spelling(rng, m):
    """Token labels of m types: without a scheme, or under one; the last type may be O."""
    if rng.random() < 0.3:
        return Spelling.of_types(m)
    outside = bool(m > 1 and rng.random() < 0.5)
    return scheme_coder(rng.choice(list(SCHEMES)), "abcd"[: m - outside], outside).spelling


def random_segment_problem(rng, max_steps=5, max_types=3, max_rules=4, hard=0.25, known=0.25, offsets=(0.0,)):
    """A small segment problem under compiled rules of any form; now and then some token labels are known."""
    n, m = int(rng.integers(1, max_steps + 1)), int(rng.integers(1, max_types + 1))
    spelling = random_spelling(rng, m)
    scale = rng.choice([0.0, 1.0, 3.0, 30.0], p=[0.1, 0.5, 0.3, 0.1])
    potentials = random_segments(rng, n, m, int(rng.integers(1, max_steps + 1)), rng.choice([0.0, 0.1]), scale)
    single = [len(np.unique(spelling.label[:, y])) == 1 for y in range(m)]
    potentials.length[1:, single] = -np.inf  # O is one token long
    potentials.token[:] += rng.choice(offsets) * rng.choice([-1.0, 1.0])
    rules = tuple(random_rule(rng, 10 * i, n, spelling.n_labels, hard) for i in range(rng.integers(max_rules + 1)))
    allowed = rng.random((n, spelling.n_labels)) < 0.85 if rng.random() < known else None
    return SegmentProblem(potentials, spelling, rules, allowed)
