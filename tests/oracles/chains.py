"""Random small chains for property tests."""

import numpy as np
from hypothesis import strategies as st

from rulefield.problem.chain import ChainPotentials


def random_chain(rng, n, m, forbidden=0.0, conditioned=False, scale=1.0):
    """A chain of n tokens and m labels with normal scores, a share of them forbidden."""
    unary = rng.normal(size=(n, m)) * scale
    pairwise = rng.normal(size=(max(n - 1, 0), m, m) if conditioned else (m, m)) * scale
    unary[rng.random(unary.shape) < forbidden] = -np.inf
    pairwise[rng.random(pairwise.shape) < forbidden] = -np.inf
    return ChainPotentials(unary, pairwise)


@st.composite
def chain_problems(draw, max_steps=5, max_states=3, forbidden=(0.0, 0.2, 0.6), scales=(0.0, 1.0, 50.0, 1e4)):
    """Chains small enough to enumerate: ties (scale 0), large weights, forbidden labels and steps included."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(0, max_steps)), draw(st.integers(1, max_states))
    return random_chain(
        rng, n, m, draw(st.sampled_from(forbidden)), draw(st.booleans()), draw(st.sampled_from(scales))
    )


def reversed_chain(chain):
    """The same distribution read from the right."""
    if chain.pairwise.ndim == 2:
        return ChainPotentials(chain.unary[::-1], chain.pairwise.T)
    return ChainPotentials(chain.unary[::-1], np.swapaxes(chain.pairwise[::-1], 1, 2))


def lay_end_to_end(chains):
    """Several chains of as many labels as one batch (unary, pairwise per token, offsets)."""
    m = chains[0].n_states
    unary, steps, offsets = [np.empty((0, m))], [np.empty((0, m, m))], [0]
    for chain in chains:
        n = chain.n_steps
        unary.append(chain.unary)
        padded = np.zeros((n, m, m))  # the step after the last token is never read
        padded[: max(n - 1, 0)] = chain.pairwise
        steps.append(padded)
        offsets.append(offsets[-1] + n)
    return np.concatenate(unary), np.concatenate(steps), np.array(offsets)
