"""The chain model agrees with the definition of its score, and keeps the weights that it says it keeps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles.labeled_chains import (
    dense_rows,
    labelings,
    random_allowed,
    random_labels,
    random_sequences,
    score_by_definition,
)
from rulefield.data.sequences import Labels, Sequences
from rulefield.exceptions import InputError
from rulefield.models.chain import ChainModel

LENGTHS = [3, 1, 0, 4]
CASES = {
    "plain": {},
    "all weights": {"all_states": True, "all_transitions": True},
    "no start and end": {"start_end": False},
    "rare pairs dropped": {"min_count": 2},
}


def problem(seed=0, n_labels=3, forbid=False, dense=False, **options):
    rng = np.random.default_rng(seed)
    allowed = random_allowed(rng, n_labels) if forbid else None
    sequences = random_sequences(rng, LENGTHS, dense=dense)
    labels = random_labels(rng, LENGTHS, n_labels, allowed)
    model = ChainModel.build(sequences, labels, allowed=allowed, **options)
    return model, rng.normal(size=model.size), sequences, labels


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("forbid", [False, True], ids=["free", "forbidden"])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_potentials_score_every_labeling_as_defined(options, forbid, dense):
    model, theta, sequences, _ = problem(1, forbid=forbid, dense=dense, **options)
    for i in range(len(sequences)):
        potentials = model.potentials(theta, sequences, i)
        for path in labelings(LENGTHS[i], model.n_labels):
            assert_allclose(
                potentials.score(path), score_by_definition(model, theta, dense_rows(sequences, i), path), atol=1e-12
            )


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_features_of_a_labeling_times_theta_are_its_score(options):
    model, theta, sequences, _ = problem(2, **options)
    rng = np.random.default_rng(3)
    for i in range(len(sequences)):
        path = rng.integers(model.n_labels, size=LENGTHS[i])
        features = model.zeros()
        model.add_features(features, sequences, i, path, scale=2.0)
        assert_allclose(features @ theta, 2 * model.potentials(theta, sequences, i).score(path), atol=1e-12)


def test_joint_features_add_up_over_sequences():
    model, _, sequences, labels = problem(4)
    total = model.zeros()
    for i in range(len(sequences)):
        model.add_features(total, sequences, i, labels.ids[labels.offsets[i] : labels.offsets[i + 1]])
    assert_allclose(model.joint_features(sequences, labels.ids), total)


def test_unary_of_all_tokens_is_that_of_each_sequence():
    model, theta, sequences, _ = problem(5, forbid=True)
    together = model.unary(theta, sequences)
    for i in range(len(sequences)):
        first, last = sequences.offsets[i : i + 2]
        assert_array_equal(together[first:last], model.potentials(theta, sequences, i).unary)


def test_only_seen_pairs_and_transitions_have_weights():
    model, _, sequences, labels = problem(6)
    seen = {
        (f, int(labels.ids[t])) for t, f in zip(*(part.tolist() for part in np.nonzero(sequences.matrix.toarray())))
    }
    kept = {
        (f, int(y))
        for f in range(model.n_features)
        for y in model.pairs.label[int(model.pairs.ptr[f]) : int(model.pairs.ptr[f + 1])]
    }
    assert kept == seen
    steps = {
        (int(labels.ids[t - 1]), int(labels.ids[t]))
        for first, last in zip(labels.offsets[:-1], labels.offsets[1:])
        for t in range(first + 1, last)
    }
    assert set(zip(model.transition_from.tolist(), model.transition_to.tolist())) == steps


def test_sets_of_labels_count_and_unknown_tokens_do_not():
    sequences = Sequences(np.eye(3), [3])
    masks = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], np.uint8)
    model = ChainModel.build(sequences, Labels(np.array([-1, -1, 2]), [3], 3, masks))
    assert_array_equal(model.pairs.ptr, [0, 2, 2, 3])
    assert_array_equal(model.pairs.label, [0, 1, 2])
    assert set(zip(model.transition_from.tolist(), model.transition_to.tolist())) == {
        (a, b) for a in (0, 1) for b in range(3)
    } | {(a, 2) for a in range(3)}


def test_where_nothing_is_known_every_pair_counts():
    labels = Labels(np.full(2, -1), [2], 3, np.ones((2, 3), np.uint8))
    model = ChainModel.build(Sequences(np.eye(2), [2]), labels)
    assert model.pairs.n_pairs == 6


def test_minimum_count_counts_tokens():
    sequences = Sequences(np.array([[1.0, 1], [1, 0], [1, 1]]), [3])
    model = ChainModel.build(sequences, Labels(np.array([0, 0, 1]), [3], 2), min_count=2)
    assert_array_equal(model.pairs.ptr, [0, 1, 1])
    assert_array_equal(model.pairs.label, [0])


def test_data_of_another_width_is_refused():
    model, theta, _, _ = problem(7)
    with pytest.raises(InputError, match=r"2 features.* built for 7"):
        model.unary(theta, Sequences(np.ones((2, 2)), [2]))


@pytest.mark.parametrize(("theta", "message"), [(np.zeros(3), "shape"), (None, "finite")])
def test_unusable_theta_is_refused(theta, message):
    model, good, _, _ = problem(8)
    with pytest.raises(InputError, match=message):
        model.check_theta(np.full_like(good, np.nan) if theta is None else theta)


def test_wrong_mask_shape_is_refused():
    with pytest.raises(InputError, match=r"permitted starts must have shape \(2,\)"):
        ChainModel.build(
            Sequences(np.ones((1, 1)), [1]),
            Labels(np.zeros(1), [1], 2),
            allowed=(np.ones((2, 2)), np.ones(3), np.ones(2)),
        )
