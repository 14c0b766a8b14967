"""Penalties that are chosen: by held-out likelihood, within a limit of work, the same for any number of threads."""

import numpy as np
import pytest

import rulefield as rf
from rulefield.data.sequences import Labels, Sequences
from rulefield.datasets import make_addresses
from rulefield.estimators.chain.estimator import CHOSEN_L1_TOL
from rulefield.exceptions import InputError
from rulefield.learning.chain import penalties
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.penalties import choose_penalties
from rulefield.models.chain import ChainModel

TOKENS, LABELS = make_addresses(40, seed=5)


def drawn(n=60, length=6, n_features=8, noise=0, strength=2.0, seed=0):
    """Sequences whose labels follow the first features, with further columns of pure noise."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n * length, n_features + noise))
    scores = strength * matrix[:, :n_features] @ rng.normal(size=(n_features, 3))
    ids = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    lengths = np.full(n, length)
    return Sequences(matrix, lengths), Labels(ids, lengths, 3)


def held_out_loss(data, labels, fresh, l1, l2):
    model = ChainModel.build(data, labels, all_states=True)
    theta = penalties.fit_likelihood(ChainLikelihood(model, data, labels, l2=l2), l1=l1).theta
    return ChainLikelihood(model, *fresh).value(theta)


def build(data, labels):
    return ChainModel.build(data, labels, all_states=True)


@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_the_chosen_l2_is_near_the_best_on_fresh_data(strength):
    """Weak signals want a strong penalty, strong ones a weak one: no value tried is clearly better on fresh data."""
    data, labels = drawn(n=460, strength=strength, seed=1)
    fresh, data, labels = (data[60:], labels[60:]), data[:60], labels[:60]
    found = choose_penalties(build, data, labels, None, 0.0, "auto")
    losses = {l2: held_out_loss(data, labels, fresh, 0.0, l2) for l2 in (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)}
    assert found.l1 == 0.0
    assert losses[found.l2] < 1.1 * min(losses.values())
    assert losses[found.l2] < max(losses.values())


def test_l1_is_chosen_where_most_features_are_noise():
    data, labels = drawn(n=40, n_features=2, noise=200, seed=2)
    assert choose_penalties(build, data, labels, None, "auto", 0.1).l1 > 0.0


def test_the_chosen_l1_loses_little_if_every_feature_says_a_little():
    data, labels = drawn(n=460, n_features=40, strength=0.3, seed=3)
    fresh, data, labels = (data[60:], labels[60:]), data[:60], labels[:60]
    found = choose_penalties(build, data, labels, None, "auto", 1.0)
    assert held_out_loss(data, labels, fresh, found.l1, 1.0) < 1.05 * held_out_loss(data, labels, fresh, 0.0, 1.0)


def test_numbers_are_kept_and_few_sequences_get_the_usual_ones():
    data, labels = drawn()
    assert choose_penalties(build, data, labels, None, 0.2, 0.7) == penalties.Penalties(0.2, 0.7)
    assert choose_penalties(build, data[:5], labels[:5], None, "auto", "auto") == penalties.Penalties(0.0, 1.0)
    assert choose_penalties(build, data[:5], labels[:5], None, 0.5, "auto") == penalties.Penalties(0.5, 1.0)


def test_the_work_is_limited():
    """With the fit that follows: at most four times the evaluations of one fit."""
    alone = rf.ChainCRF(scheme="BIO", l2=1.0).fit(TOKENS, LABELS)
    passes = []
    original = penalties.Penalties

    def seen(*values):
        passes.append(values[2] if len(values) > 2 else 0.0)
        return original(*values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(penalties, "Penalties", seen)
        rf.ChainCRF(scheme="BIO", l1="auto", l2="auto").fit(TOKENS, LABELS)
    assert 0 < max(passes) < 3 * alone.log_[-1].evaluations


def test_chains_keep_what_was_chosen(tmp_path):
    crf = rf.ChainCRF(scheme="BIO", l1="auto", l2="auto").fit(TOKENS, LABELS)
    assert (crf.l1, crf.l2) == ("auto", "auto")
    tol = CHOSEN_L1_TOL if crf.l1_ else None
    same = rf.ChainCRF(scheme="BIO", l1=crf.l1_, l2=crf.l2_, tol=tol).fit(TOKENS, LABELS)
    np.testing.assert_array_equal(crf.theta_, same.theta_)
    assert (same.l1_, same.l2_) == (crf.l1_, crf.l2_)
    threads = rf.ChainCRF(scheme="BIO", l1="auto", l2="auto", n_jobs=2).fit(TOKENS, LABELS)
    np.testing.assert_array_equal(crf.theta_, threads.theta_)
    crf.save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf")
    assert (again.l1, again.l2, again.l1_, again.l2_) == ("auto", "auto", crf.l1_, crf.l2_)


def test_labels_of_sequences_without_weight_do_not_matter():
    data, labels = drawn(n=60, strength=3.0, seed=4)
    altered = Labels(np.where(np.arange(360) < 180, labels.ids, 0), labels.lengths, 3)
    weight = np.repeat([1.0, 0.0], 30)
    found = [choose_penalties(build, data, known, weight, 0.0, "auto") for known in (labels, altered)]
    assert found[0] == found[1]
    assert choose_penalties(build, data, altered, None, 0.0, "auto") != found[0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"expectations": [rf.rules.share(["B-zip"]).at_most(0.5)]}, "not by expectations; give numbers"),
        ({"l2": "much"}, "l2 must be 'auto' or a finite number >= 0; got 'much'"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options, match):
    with pytest.raises(InputError, match=match):
        rf.ChainCRF(**{"scheme": "BIO", "l2": "auto", **options}).fit(TOKENS, LABELS)
