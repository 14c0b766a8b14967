"""Scores from elsewhere beside features: what is learned and answered is what folding them into the potentials gives."""

import numpy as np
import pytest
from scipy.optimize import check_grad

import rulefield as rf
from oracles.labelings import viterbi
from rulefield import rules as r
from rulefield.data.sequences import Labels, Sequences
from rulefield.exceptions import InputError
from rulefield.inference.sequences.exact import clamp, forward_backward, kbest
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.stochastic import StochasticLikelihood
from rulefield.models.chain import ChainModel
from rulefield.problem.chain import ChainPotentials

LABELS = ["B-x", "I-x", "O"]


def drawn(n, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    tokens = [[f"w{rng.integers(6)}" for _ in range(rng.integers(2, 7))] for _ in range(n)]
    scores = [rng.normal(size=(len(row), 3)) * scale for row in tokens]
    y = []
    for table in scores:
        labels = [LABELS[j] for j in table.argmax(axis=1)]
        for t, label in enumerate(labels):
            if label == "I-x" and (t == 0 or labels[t - 1] == "O"):
                labels[t] = "B-x"
        y.append(labels)
    return tokens, scores, y


def scored(tokens, scores):
    return [rf.Scored(row, table, LABELS) for row, table in zip(tokens, scores)]


@pytest.fixture(scope="module")
def data():
    return drawn(12)


@pytest.fixture(scope="module")
def crf(data):
    tokens, scores, y = data
    return rf.ChainCRF(scheme="BIO", l2=0.3).fit(scored(tokens, scores), y)


def folded(crf, tokens, table):
    """Potentials of a sequence by hand: those of the features, plus the scores."""
    plain = Sequences(
        crf._encoder.encoder.transform([crf._encoder.features.transform([tokens])[0]]).matrix, [len(tokens)]
    )
    potentials = crf.model_.potentials(crf.theta_, plain, 0)
    return ChainPotentials(potentials.unary + table, potentials.pairwise)


def test_every_answer_is_that_of_folded_potentials(crf, data):
    tokens, scores, _ = drawn(8, seed=1)
    X = scored(tokens, scores)
    labels, marginals = crf.predict(X), crf.predict_marginals(X, output="array")
    best, ranked = crf.decode(X, probability=True), crf.predict_kbest(X, k=3)
    for i, (row, table) in enumerate(zip(tokens, scores)):
        potentials = folded(crf, row, table)
        top, sums = viterbi(potentials), forward_backward(potentials)
        assert labels[i] == best[i].labels == [LABELS[j] for j in top.labels]
        assert best[i].score == pytest.approx(top.score)
        np.testing.assert_allclose(marginals[i], sums.node, atol=1e-12)
        assert best[i].probability == pytest.approx(np.exp(top.score - sums.log_partition))
        expected = [
            ([LABELS[j] for j in a.labels], np.exp(a.score - sums.log_partition)) for a in kbest(potentials, 3)
        ]
        assert [found for found, _ in ranked[i]] == [found for found, _ in expected]
        np.testing.assert_allclose([p for _, p in ranked[i]], [p for _, p in expected])


def test_rules_see_tokens_and_scores(crf):
    tokens, scores, _ = drawn(8, seed=2, scale=3.0)
    rules = [r.segments("x") <= 1, r.at(r.token_equals("w1"), here="O").soft(1.5)]
    found = crf.decode(scored(tokens, scores), rules=rules)
    for labeling, row, table in zip(found, tokens, scores):
        potentials = folded(crf, row, table)
        by_hand = rf.decode_scores(
            [potentials.unary], LABELS, tokens=[row], transitions=potentials.pairwise, scheme="BIO", rules=rules
        )[0]
        assert labeling.labels == by_hand.labels
        assert labeling.objective == pytest.approx(by_hand.objective)
        assert labeling.status == "optimal"


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("scale", [1.0, 300.0])  # the second leaves the range of sums in probability space
def test_the_likelihood_is_that_of_folded_potentials_and_its_gradient_is_right(partial, scale):
    rng = np.random.default_rng(0)
    lengths = np.array([3, 1, 4])
    sequences = Sequences(rng.normal(size=(8, 3)), lengths, rng.normal(size=(8, 3)) * scale)
    ids = rng.integers(0, 3, size=8).astype(np.int32)
    allowed = None
    if partial:
        allowed = (ids[:, None] == np.arange(3)).astype(np.uint8)
        allowed[[1, 5]] = 1
        ids[[1, 5]] = -1
    labels = Labels(ids, lengths, 3, allowed)
    model = ChainModel.build(sequences, labels, all_states=True, all_transitions=True)
    objective = ChainLikelihood(model, sequences, labels, l2=0.7, sample_weight=np.array([1.0, 2.0, 0.5]))
    theta = rng.normal(size=model.size)
    expected = 0.35 * theta @ theta
    for i, weight in enumerate([1.0, 2.0, 0.5]):
        potentials = model.potentials(theta, Sequences(sequences.matrix, lengths), i)
        rows = slice(int(sequences.offsets[i]), int(sequences.offsets[i + 1]))
        whole = ChainPotentials(potentials.unary + sequences.scores[rows], potentials.pairwise)
        mask = (ids[rows, None] == np.arange(3)) if allowed is None else allowed[rows].astype(bool)
        known = forward_backward(clamp(whole, mask.astype(np.uint8))).log_partition
        expected += weight * (forward_backward(whole).log_partition - known)
    assert objective.value(theta) == pytest.approx(expected)
    gradient = lambda x: objective.value_and_gradient(x)[1]  # noqa: E731
    assert check_grad(objective.value, gradient, theta) < 1e-5 * max(1.0, scale)
    total = sum(objective.of_sequence(theta, i)[0] for i in range(3)) + 0.35 * theta @ theta
    assert total == pytest.approx(expected)


def test_stochastic_steps_learn_nothing_if_the_scores_are_right():
    sequences = Sequences(np.zeros((3, 1)), [3], np.array([[5.0, 0.0], [0.0, 5.0], [5.0, 0.0]]))
    labels = Labels(np.array([0, 1, 0], np.int32), np.array([3]), 2)
    walk = StochasticLikelihood(ChainLikelihood(ChainModel.build(sequences, labels), sequences, labels))
    assert walk.epoch() < 0.1


def test_labels_of_the_scores_join_those_of_the_model_in_any_order(data):
    tokens, scores, y = data
    table = [np.hstack([t[:, [2]], np.full((len(t), 1), 9.0), t[:, [0, 1]]]) for t in scores]
    X = [rf.Scored(row, t, ["O", "B-new", "B-x", "I-x"]) for row, t in zip(tokens, table)]
    crf = rf.ChainCRF(l2=100.0, tol=1e-8).fit(X, y)
    assert crf.classes_.tolist() == ["B-new", *LABELS]
    unseen = crf.predict([rf.Scored(["w9"], [[0.0, 50.0, 0.0, 0.0]], ["O", "B-new", "B-x", "I-x"])])
    assert unseen[0] == ["B-new"]


def test_files_folds_and_rules_that_are_learned(crf, data, tmp_path):
    tokens, scores, y = data
    X = scored(tokens, scores)
    crf.save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf")
    assert list(again.predict(X)) == list(crf.predict(X))
    with pytest.raises(InputError, match="trained with scores from elsewhere .* X comes without"):
        again.predict(tokens)
    ruled = rf.RuledCRF(rf.ChainCRF(scheme="BIO"), rules=[(r.segments("x") <= 1).soft("learn")]).fit(X, y)
    assert len(ruled.predict(X)) == len(X)
    assert "given score" in str(crf.explain(X[0]))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: rf.Scored(["a"], [[1.0], [2.0]]), "one row per token; got 2 rows for 1 tokens"),
        (lambda: rf.Scored(["a"], [[np.nan]]), "NaN or"),
        (lambda: rf.Scored(["a"], [[1.0, 2.0]], ["A", "A"]), "a name occurs twice"),
        (lambda: rf.Scored(["a"], [[1.0, 2.0]], ["A"]), "shape \\(n_tokens, 1\\)"),
        (lambda: rf.ChainCRF().fit([rf.Scored(["a"], [[1.0, 2.0]])], [["A"]]), "2 columns, but the model has 1 labels"),
        (lambda: rf.ChainCRF().fit([rf.Scored(["a"], [[1.0]], ["A"])], [["B"]]), "no column for label 'B'"),
        (lambda: rf.ChainCRF().fit([rf.Scored(["a"], [[-np.inf]], ["A"])], [["A"]]), "the label of token 0"),
        (lambda: rf.ChainCRF().fit([rf.Scored(["a"], [[1.0]]), ["b"]], [["A"], ["A"]]), "1 of 2 sequences carry scores"),
        (lambda: rf.SegmentCRF().fit([rf.Scored(["a"], [[1.0]])], [["A"]]), "ChainCRF and RuledCRF only"),
        (lambda: rf.ChainCRF().fit(iter([rf.Scored(["a"], [[1.0]])]), [["A"]]), "are taken from a list"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()
