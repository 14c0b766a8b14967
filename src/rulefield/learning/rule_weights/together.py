r"""Residual prices of many rules at once, for rules that nobody wrote: each in the light of those priced before it.

A residual price asks what the model does not know. Once one rule is paid, the model knows more, and a second rule that says
the same should cost nothing; priced apart, both are paid in full. So rules are taken one after the other: next is the one
whose price would move the likelihood most, roughly (m - g) c where the model is expected to break it in m sequences, gold
labels do in g and c is its price; then m is counted anew.

Rules that were found hold in the labels that they were found in, so g flatters them. A rule is therefore kept only where it
proves itself on predictions: paying it, over those kept before, must fix more tokens of the held-out sequences than it
breaks, by more than one standard error (over sequences). Most rules change no prediction and go; so does one that fixes three
tokens here and breaks three there, and one that acts on a single sequence: its gain is its own standard error, and of
hundreds of candidates some always have such luck.
"""

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.learning.rule_weights.residual import expected_broken, shares_in

LEAST_GAIN = 0.05
"""Likelihood, in nats over all sequences, that is too little to look at a rule."""


def prices_together(measured: MeasuredLists, gold: csr_matrix) -> np.ndarray:
    """Prices (n_rules,) of rules that help, each beyond what the model and the rules before it know; 0 for the others.

    Parameters
    ----------
    measured : MeasuredLists
        Likely labelings of held-out sequences, by a model that has not seen them.
    gold : csr_matrix, shape (n_sequences, n_rules)
        Units that gold labels pay for.

    Notes
    -----
    O(candidates with a price) choices from the lists, and a count over all amounts for each rule that is kept.
    """
    lists, units = measured.lists, measured.units.tocsc()
    right = lists.tokens_right
    prices, worth = np.zeros(units.shape[1]), measured.worth.copy()
    best = lists.best_of(worth)
    waiting = np.ones(len(prices), dtype=bool)
    shares = shares_in(expected_broken(lists, measured.units, worth), gold)
    while waiting.any():
        cost = shares.prices
        gain = np.where(waiting, (shares.by_model - shares.by_gold) * cost, 0.0)
        rule = int(np.argmax(gain))
        if gain[rule] <= LEAST_GAIN:
            break
        waiting[rule] = False
        here = slice(units.indptr[rule], units.indptr[rule + 1])
        tried = worth.copy()
        tried[units.indices[here]] -= cost[rule] * units.data[here]
        chosen = lists.best_of(tried)
        if clearly_better(right[chosen] - right[best]):
            prices[rule], worth, best = cost[rule], tried, chosen
            shares = shares_in(expected_broken(lists, measured.units, worth), gold)
    return prices


def clearly_better(change: np.ndarray) -> bool:
    """Whether a sum over sequences is above 0 by more than its standard error; what one sequence says never is."""
    total = change.sum()
    return bool(total > 0 and total**2 > (change**2).sum())


def in_errors(gains: np.ndarray) -> float:
    """Return a sum over sequences in its standard errors, 0 if nothing changes; above 1 it is clearly better."""
    size = float(np.sqrt((gains**2).sum()))
    return float(gains.sum()) / size if size else 0.0
