"""Random small semi-Markov problems."""

import numpy as np
from hypothesis import strategies as st

from rulefield.problem.segments import SegmentPotentials, Spans


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
