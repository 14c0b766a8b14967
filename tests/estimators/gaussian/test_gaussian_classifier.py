"""The Gaussian classifier as users meet it."""

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import rulefield
from rulefield.estimators.gaussian.classifier import GaussianCRFClassifier
from rulefield.estimators.gaussian.inputs import content_order
from rulefield.exceptions import InputError, LabelError

RING = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)


def common_cause(n=300, outputs=4, seed=0):
    """Labels that share a cause that the features do not tell."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    z = X[:, :1] + 1.5 * rng.normal(size=(n, 1))
    Y = (z + 0.7 * rng.normal(size=(n, outputs)) > 0).astype(float)
    return X, Y


def field_draws(seed=0, m=200, n=6, v=6.0):
    """Logits, labels drawn from a field on a ring, and its similarity."""
    rng = np.random.default_rng(seed)
    a = np.eye(n) + 2.0 * (np.diag(RING.sum(1)) - RING) / 2
    scores = rng.normal(size=(m, n, 2)) * 2
    mean = scores @ np.array([0.7, 0.5]) - 0.3
    z = mean + rng.normal(size=(m, n)) @ np.linalg.cholesky(v * np.linalg.inv(a)).T
    return scores, (rng.random((m, n)) < expit(z)).astype(float)


def test_known_labels_move_the_others():
    X, Y = common_cause()
    field = GaussianCRFClassifier().fit(X[:200], Y[:200])
    known = np.where(np.arange(4) < 2, Y[200:], np.nan)
    plain, given = field.predict_proba(X[200:]), field.predict_proba(X[200:], known=known)
    truth = Y[200:, 2:]
    error = [((p[:, 2:] - truth) ** 2).mean() for p in (plain, given)]
    assert error[1] < 0.75 * error[0]
    np.testing.assert_array_equal(given[:, :2], Y[200:, :2])


@pytest.mark.parametrize("method", ["map", "jj", "vb"])
@pytest.mark.parametrize("paper", [False, True])
def test_methods_and_paper_mode_fit(method, paper):
    X, Y = common_cause(120)
    field = GaussianCRFClassifier(algorithm=method, paper=paper).fit(X, Y)
    p = field.predict_proba(X)
    assert p.shape == Y.shape
    assert np.all((p > 0) & (p < 1))
    assert field.score(X, Y) > 0.6
    if paper:
        assert field.predictor_weights_.sum() == pytest.approx(1.0)
        assert np.all(field.bias_ == 0)
        assert len(field.graph_weights_) >= 4
    if method == "map":
        assert field.variance_ == 0


def test_bayesian_field_knows_the_joint_distribution_better():
    X, Y = common_cause()
    joint = {
        m: GaussianCRFClassifier(algorithm=m).fit(X[:200], Y[:200]).predict_joint_log_proba(X[200:], Y[200:]).sum()
        for m in ("map", "vb")
    }
    assert joint["vb"] > joint["map"] + 10


def test_learning_finds_a_drawn_field():
    """The bound prefers a stiffer field of less variance (its gap grows with the variance of single nodes)."""
    scores, Y = field_draws(m=3000, v=1.0)
    field = GaussianCRFClassifier(predictors="precomputed", graphs=[RING], mean="direct", l2=1e4).fit(scores, Y)
    np.testing.assert_allclose(field.predictor_weights_, np.tile([0.7, 0.5], (6, 1)), atol=0.05)
    assert field.graph_weights_["graph 0"] > 1.0
    a = np.eye(6) + field.graph_weights_["graph 0"] * (np.diag(RING.sum(1)) - RING) / 2
    neighbors = field.variance_ * np.linalg.inv(a)[0, 1]
    assert neighbors == pytest.approx(np.linalg.inv(3 * np.eye(6) - RING)[0, 1], rel=0.3)


def test_a_useless_graph_gets_exactly_zero():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 6, 1)) * 2
    Y = (rng.random((400, 6)) < expit(scores[..., 0])).astype(float)
    for method in ("map", "vb"):
        field = GaussianCRFClassifier(predictors="precomputed", graphs=[RING], algorithm=method, mean="smoothed").fit(
            scores, Y
        )
        assert field.graph_weights_["graph 0"] == 0.0


@pytest.mark.parametrize(
    "form", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array, networkx.from_numpy_array]
)
def test_any_form_of_graph_gives_the_same_field(form):
    scores, Y = field_draws()
    plain = GaussianCRFClassifier(predictors="precomputed", graphs=[RING]).fit(scores, Y)
    other = GaussianCRFClassifier(predictors="precomputed", graphs=[form(RING)]).fit(scores, Y)
    np.testing.assert_allclose(other.predict_proba(scores), plain.predict_proba(scores), atol=1e-6)


def test_graphs_of_instances_equal_a_shared_one_where_they_are_the_same():
    scores, Y = field_draws(m=29)  # too few for weights of single outputs, which only a shared graph allows
    shared = GaussianCRFClassifier(predictors="precomputed", graphs=[RING], mean="smoothed").fit(scores, Y)
    each = np.repeat(RING[None], len(Y), axis=0)
    own = GaussianCRFClassifier(predictors="precomputed", graphs=[], mean="smoothed").fit(scores, Y, graphs=[each])
    np.testing.assert_allclose(own.predict_proba(scores, graphs=[each]), shared.predict_proba(scores), atol=1e-4)
    assert own.objective_ == pytest.approx(shared.objective_, abs=1e-4)


def test_instances_of_different_sizes():
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 7, size=60)
    X = [rng.normal(size=(s, 3)) for s in sizes]
    graphs = [np.ones((s, s)) - np.eye(s) for s in sizes]
    common = rng.normal(size=60) * 2
    Y = [(x[:, 0] + c + rng.normal(size=len(x)) > 0).astype(float) for x, c in zip(X, common)]
    Y[3][:1] = np.nan
    field = GaussianCRFClassifier().fit(X, Y, graphs=[graphs])
    p = field.predict_proba(X, graphs=[graphs])
    assert [len(a) for a in p] == list(sizes)
    alone = field.predict_proba(X[5:6], graphs=[graphs[5:6]])
    np.testing.assert_allclose(alone[0], p[5])
    assert field.score(X, Y, graphs=[graphs]) > 0.6
    assert len(field.sample(X[:4], n_samples=3, graphs=[graphs[:4]])) == 4
    with pytest.raises(InputError, match="graphs must be given here, too"):
        field.predict(X)


def test_instances_of_different_sizes_answer_as_each_alone():
    """What an instance is padded with says nothing: of labels, of their likelihood, of covariances."""
    rng = np.random.default_rng(2)
    sizes = [2, 5, 3, 4] * 10
    X = [rng.normal(size=(n, 1)) * 2 for n in sizes]
    graphs = [np.ones((n, n)) - np.eye(n) for n in sizes]
    Y = [(x[:, 0] + 2 * rng.normal() > 0).astype(float) for x in X]
    field = GaussianCRFClassifier(predictors="precomputed", algorithm="vb").fit(X, Y, graphs=[graphs])
    known = [np.where(np.arange(n) < 1, y, np.nan) for n, y in zip(sizes, Y)]
    joint, proba = (
        field.predict_joint_log_proba(X, Y, graphs=[graphs]),
        field.predict_proba(X, known=known, graphs=[graphs]),
    )
    covariance = field.predict_covariance(X, known=known, graphs=[graphs])
    for j in range(4):
        one, own = slice(j, j + 1), [graphs[j : j + 1]]
        np.testing.assert_allclose(field.predict_joint_log_proba(X[one], Y[one], graphs=own), joint[one], atol=1e-7)
        np.testing.assert_allclose(field.predict_proba(X[one], known=known[one], graphs=own)[0], proba[j], atol=1e-7)
        found = field.predict_covariance(X[one], known=known[one], graphs=own)[0]
        np.testing.assert_allclose(found, covariance[j], atol=1e-6)
    with pytest.raises(LabelError, match=r"y\[1\] must hold 5 labels, one for each node; got 4"):
        GaussianCRFClassifier(predictors="precomputed").fit(X, [Y[0], Y[1][:4], *Y[2:]], graphs=[graphs])


def test_unknown_labels_in_fit():
    X, Y = common_cause()
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    field = GaussianCRFClassifier().fit(X, holes)
    full = GaussianCRFClassifier().fit(X, Y)
    assert np.abs(field.predict_proba(X) - full.predict_proba(X)).mean() < 0.05
    assert field.score(X, Y) > full.score(X, Y) - 0.03


def test_one_big_sparse_graph_with_unknown_nodes():
    rng = np.random.default_rng(0)
    side = 25
    path = scipy.sparse.diags_array(np.ones(side - 1), offsets=1, shape=(side, side))
    eye = scipy.sparse.eye_array(side)
    s = scipy.sparse.kron(path, eye) + scipy.sparse.kron(eye, path)
    s = scipy.sparse.csr_array(s + s.T)
    truth = np.kron(np.arange(25).reshape(5, 5) % 2, np.ones((5, 5))).ravel()
    scores = (3 * (truth - 0.5) + 2.5 * rng.normal(size=625))[None, :, None]
    Y = np.where(rng.random(625) < 0.5, truth, np.nan)[None]
    for method in ("map", "vb"):
        field = GaussianCRFClassifier(predictors="precomputed", graphs=[s], algorithm=method, mean="smoothed").fit(
            scores, Y
        )
        plain = ((scores[0, :, 0] > 0) == truth).mean()
        hidden = np.isnan(Y[0])
        found = field.predict(scores, known=Y if method == "vb" else None)[0]
        assert (found == truth)[hidden].mean() > plain + 0.05


def test_several_classes_and_graph_over_nodes():
    rng = np.random.default_rng(0)
    common = rng.integers(0, 3, size=150)
    Y = np.where(rng.random((150, 5)) < 0.8, common[:, None], rng.integers(0, 3, size=(150, 5))).astype(float)
    X = rng.normal(size=(150, 5, 3)) + 1.2 * (Y[..., None] == np.arange(3))
    full = [np.repeat((np.ones((5, 5)) - np.eye(5))[None], 150, axis=0)]
    cut = [full[0][:100]]
    for method in ("map", "vb"):
        field = GaussianCRFClassifier(algorithm=method).fit(X[:100], Y[:100], graphs=cut)
        p = field.predict_proba(X[100:], graphs=[full[0][100:]])
        assert p.shape == (50, 5, 3)
        np.testing.assert_allclose(p.sum(axis=-1), 1.0)
        plain = LogisticRegression().fit(X[:100].reshape(-1, 3), Y[:100].ravel())
        alone = plain.score(X[100:].reshape(-1, 3), Y[100:].ravel())
        assert field.score(X[100:], Y[100:], graphs=[full[0][100:]]) > alone + 0.03


def test_sampling_agrees_with_probabilities():
    scores, Y = field_draws()
    field = GaussianCRFClassifier(predictors="precomputed", graphs=[RING]).fit(scores, Y)
    known = np.where(np.arange(6) < 2, Y[:3], np.nan)
    drawn = field.sample(scores[:3], n_samples=4000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), field.predict_proba(scores[:3]), atol=0.04)
    drawn = field.sample(scores[:3], n_samples=4000, known=known, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), field.predict_proba(scores[:3], known=known), atol=0.04)


def test_joint_probabilities_sum_to_one():
    """All 2^4 label vectors: importance sampling sums to 1, the bound to a little less."""
    X, Y = common_cause()
    field = GaussianCRFClassifier().fit(X, Y)
    every = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T.astype(float)
    rows = np.repeat(X[:1], len(every), axis=0)
    assert np.exp(field.predict_joint_log_proba(rows, every, n_samples=4000)).sum() == pytest.approx(1.0, abs=0.02)
    assert 0.9 < np.exp(field.predict_joint_log_proba(rows, every)).sum() < 1.0
    single = field.predict_joint_log_proba(X[:1], np.array([[1, np.nan, np.nan, np.nan]]))
    assert np.exp(single[0]) == pytest.approx(field.predict_proba(X[:1])[0, 0], abs=0.01)


def test_jobs_do_not_change_the_answer():
    X, Y = common_cause(100)
    predictors = [RandomForestClassifier(10, random_state=0)]
    one = GaussianCRFClassifier(predictors=predictors).fit(X, Y).predict_proba(X)
    two = GaussianCRFClassifier(predictors=predictors, n_jobs=2).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("layout", ["table", "nodes", "scores"])
def test_the_order_of_rows_does_not_matter(layout):
    """Noise: what a fit says depends on folds, held-out rows and random forests alone, so none may go by place."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(150, 3)), rng.integers(0, 2, size=(150, 3)).astype(float)
    options = {"predictors": [RandomForestClassifier(5, max_depth=3, random_state=0)]}
    if layout != "table":
        X = rng.normal(size=(150, 3, 2))
    if layout == "scores":
        options = {"predictors": "precomputed"}
    weight = rng.integers(1, 3, size=150).astype(float)
    one = GaussianCRFClassifier(**options).fit(X, Y, weight)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(150)
        other = GaussianCRFClassifier(**options).fit(X[order], Y[order], weight[order])
        np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))


def test_given_splits_go_by_place():
    X, Y = common_cause(60)
    halves = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]

    class Halves:
        def split(self, X):
            return iter(halves)

    one, two = (GaussianCRFClassifier(cv=cv).fit(X, Y) for cv in (halves, Halves()))
    assert one.objective_ == two.objective_ != GaussianCRFClassifier(cv=2).fit(X, Y).objective_


def test_cross_fitting_does_not_leak():
    """A tree that learns its rows by heart is useless on others: the field must not trust it."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(200, 3)), rng.integers(0, 2, size=(200, 3)).astype(float)
    by_heart = RandomForestClassifier(30, bootstrap=False, random_state=0)
    field = GaussianCRFClassifier(predictors=[by_heart]).fit(X, Y)
    assert np.abs(field.predictor_weights_).mean() < 0.3


BAD = [
    ({"algorithm": "ep"}, {}, InputError, "algorithm must be one of .auto., .vb., .jj., .map.; got .ep."),
    ({"mean": "none"}, {}, InputError, r"mean must be one of .auto., .smoothed., .direct."),
    ({"algorithm": "map", "mean": "direct"}, {}, InputError, "sees graphs only through the mean"),
    ({"graphs": ["mutual"]}, {}, InputError, r"graphs names no builder 'mutual'; choose from mutual_info"),
    ({"graphs": [np.triu(np.ones((4, 4)))]}, {}, InputError, r"graph 0 is not symmetric.*use \(S \+ S.T\) / 2"),
    ({"graphs": [np.full((4, 4), np.nan)]}, {}, InputError, "NaN or infinite similarities"),
    ({"graphs": [np.eye(3)]}, {}, InputError, "has 3 nodes but there are 4 outputs"),
    ({"graphs": [np.eye(4)]}, {}, InputError, "joins no two nodes"),
    ({"predictors": []}, {}, InputError, "predictors must be None.*not empty; got \\[\\]"),
    ({"predictors": "scores"}, {}, InputError, "predictors must be None"),
    ({"cv": 1}, {}, InputError, "cv must be None, a number of folds >= 2"),
    ({"cv": 1.5}, {}, InputError, "cv must be None.*a share between 0 and 1"),
    ({}, {"Y": np.zeros((300, 4))}, LabelError, "contain 1 class"),
    ({}, {"Y": np.full((300, 4), 0.5)}, LabelError, "contain 1 class"),
    ({}, {"Y": np.tile([0, 0.5, 1], (300, 1))}, LabelError, "whole class numbers"),
    ({}, {"X": np.full((300, 3), np.nan)}, ValueError, "Input X contains NaN"),
    ({"predictors": "precomputed"}, {"X": np.full((300, 4, 1), np.nan)}, InputError, "scores contain NaN"),
    (
        {"predictors": "precomputed"},
        {},
        InputError,
        r"must have shape \(n_instances, n_nodes, n_scores\); got \(300, 3\)",
    ),
]


@pytest.mark.parametrize(("options", "data", "error", "message"), BAD, ids=[b[3][:30] for b in BAD])
def test_bad_input_is_named(options, data, error, message):
    X, Y = common_cause()
    with pytest.raises(error, match=message):
        GaussianCRFClassifier(**options).fit(data.get("X", X), data.get("Y", Y))


def test_warnings_for_odd_scores_and_lonely_nodes():
    scores, Y = field_draws()
    scores[0, 0, 0] = np.inf
    with pytest.warns(UserWarning, match="infinite logits were clipped"):
        GaussianCRFClassifier(predictors="precomputed", graphs=[RING]).fit(scores, Y)
    scores[..., 0] = 1.0
    with pytest.warns(UserWarning, match="predictor 0 gives the same score to every node"):
        GaussianCRFClassifier(predictors="precomputed", graphs=[RING]).fit(scores, Y)
    lonely = RING.copy()
    lonely[0] = lonely[:, 0] = 0
    scores, Y = field_draws()
    with pytest.warns(UserWarning, match="leaves 1 of 6 nodes alone"):
        GaussianCRFClassifier(predictors="precomputed", graphs=[lonely]).fit(scores, Y)


def test_known_label_of_no_class():
    X, Y = common_cause()
    field = GaussianCRFClassifier().fit(X, Y)
    with pytest.raises(LabelError, match="known holds the label 2, which is none of the classes"):
        field.predict_proba(X, known=np.full(Y.shape, 2.0))


def test_auto_takes_the_method_that_wins_on_held_out_instances():
    scores, Y = field_draws(m=300, v=8.0)
    field = GaussianCRFClassifier(predictors="precomputed", graphs=[RING]).fit(scores, Y)
    assert field.algorithm_ == "vb"
    assert field.variance_ > 1
    rng = np.random.default_rng(0)
    plain = (rng.random(scores.shape[:2]) < expit(scores @ np.array([0.7, 0.5]))).astype(float)
    field = GaussianCRFClassifier(predictors="precomputed", graphs=[RING]).fit(scores, plain)
    assert field.variance_ == 0  # under either method, nothing to add
    assert GaussianCRFClassifier().fit(scores[:, 0], Y[:, 0]).algorithm_ == "map"


def test_variance_must_earn_its_price(monkeypatch):
    """Labels without latent noise ask now and then for a little variance; it is dropped, and a real one is kept."""
    scores = np.random.default_rng(0).normal(size=(300, 6, 2)) * 2
    draw = np.random.default_rng(4).random((300, 6))
    Y = (draw < expit(scores @ np.array([0.7, 0.5]))).astype(float)
    field = GaussianCRFClassifier(predictors="precomputed", graphs=[RING], algorithm="vb")
    assert field.fit(scores, Y).variance_ == 0
    assert field.fit(*field_draws()).variance_ > 1
    monkeypatch.setattr("rulefield.learning.gaussian.VARIANCE_NATS", -10.0)
    assert field.fit(scores, Y).variance_ > 0


def test_alternatives_are_chosen_by_cross_fitted_loss():
    X, Y = common_cause(120)
    good, bad = LogisticRegression(C=1.0), LogisticRegression(C=1e-6)
    field = GaussianCRFClassifier(predictors=[[bad, good], RandomForestClassifier(5, random_state=0)]).fit(X, Y)
    assert field._field.layout.fitted.chosen[0].C == 1.0
    alone = GaussianCRFClassifier(predictors=[good, RandomForestClassifier(5, random_state=0)]).fit(X, Y)
    np.testing.assert_array_equal(field.predict_proba(X), alone.predict_proba(X))


def test_joint_predictors_are_fitted_once_for_all_outputs():
    X, Y = common_cause(120)
    forest = RandomForestClassifier(20, min_samples_leaf=5, random_state=0)
    joint = GaussianCRFClassifier(predictors=[forest, LogisticRegression()], joint_predictors=True).fit(X, Y)
    assert [len(m) for m in joint._field.layout.fitted.members] == [1, 4]
    order = content_order(X, Y, None, None)  # what a forest learns depends on it
    expected = np.array([p[:, 1] for p in forest.fit(X[order], Y[order]).predict_proba(X)]).T
    scores = joint.predictor_scores(X)
    np.testing.assert_allclose(expit(scores[..., 0]), np.clip(expected, 1e-3, 1 - 1e-3))
    unknown = Y.copy()
    unknown[0, 0] = np.nan
    field = GaussianCRFClassifier(predictors=[forest], joint_predictors=True).fit(X, unknown)
    assert [len(m) for m in field._field.layout.fitted.members] == [4]


@pytest.mark.parametrize("method", ["vb", "map"])
def test_weights_count_as_copies(method):
    scores, Y = field_draws(m=60)
    weight = np.random.default_rng(0).integers(0, 3, size=60)
    options = {"graphs": ["residual_correlation", "mutual_info", "label_distance"], "algorithm": method}
    one = GaussianCRFClassifier(predictors="precomputed", **options).fit(scores, Y, sample_weight=weight)
    copies = np.repeat(np.arange(60), weight)
    many = GaussianCRFClassifier(predictors="precomputed", **options).fit(scores[copies], Y[copies])
    assert one.objective_ == pytest.approx(many.objective_, abs=1e-6)
    np.testing.assert_allclose(one.predict_proba(scores), many.predict_proba(scores), atol=2e-4)


def test_weights_need_predictors_that_take_them():
    X, Y = common_cause(60)
    with pytest.raises(InputError, match="takes no sample_weight"):
        GaussianCRFClassifier(predictors=[KNeighborsClassifier()]).fit(X, Y, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="Negative values"):
        GaussianCRFClassifier().fit(X, Y, sample_weight=-np.ones(60))


def test_covariances_of_latent_values_are_those_of_the_field():
    """Without known labels v A^-1; known ones leave the variances that ``latent`` gives; labels follow the latent draws."""
    scores, Y = field_draws(m=100)
    field = GaussianCRFClassifier(predictors="precomputed", graphs=[RING], algorithm="vb").fit(scores, Y)
    a = np.eye(6) + field.graph_weights_["graph 0"] * (np.diag(RING.sum(1)) - RING) / 2
    np.testing.assert_allclose(field.predict_covariance(scores[:1])[0], field.variance_ * np.linalg.inv(a), atol=1e-9)
    known = np.full((3, 6), np.nan)
    known[:, 0] = [1, 0, 1]
    latent, (mean, variance) = (
        field.predict_covariance(scores[:3], known=known),
        field.latent(scores[:3], known=known),
    )
    np.testing.assert_allclose(np.diagonal(latent, axis1=1, axis2=2), variance, rtol=1e-6, atol=1e-9)
    drawn = field.sample(scores[:3], n_samples=40_000, known=known, random_state=0)
    rng = np.random.default_rng(1)
    for j in range(3):
        z = rng.multivariate_normal(mean[j], latent[j], size=40_000)
        labels = rng.random(z.shape) < expit(z)
        found, wanted = (np.cov(y[:, 1:].T, ddof=0) for y in (drawn[:, j], labels))
        np.testing.assert_allclose(found, wanted, atol=0.015)


@pytest.mark.parametrize("n", [29, 30, 36, 38])
def test_few_scores_are_learned_from_whatever_their_number(n):
    """From 30 instances on, outputs have weights of their own: also in the part that the algorithm is chosen by."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n, 4, 2))
    labels = (scores.sum(axis=2) + 0.3 * rng.normal(size=(n, 4)) > 0).astype(int)
    field = GaussianCRFClassifier(predictors="precomputed").fit(scores, labels)
    assert field.predictor_weights_.shape == ((4, 2) if n >= 30 else (2,))
    assert field.score(scores, labels) > 0.85


def own_features(n=120, n_outputs=3, seed=0):
    """Two columns for each output, side by side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2 * n_outputs))
    Y = (X.reshape(n, n_outputs, 2).sum(axis=2) + 0.3 * rng.normal(size=(n, n_outputs)) > 0).astype(int)
    return X, Y


@pytest.mark.parametrize("joint", [False, True])
def test_each_output_may_see_columns_of_its_own(tmp_path, joint):
    """The cross-fitted scores are those of the same predictor on the columns of each output alone, and files keep them."""
    X, Y = own_features()
    columns = [[0, 1], [3, 2], [4, 5]]
    how = {"predictors": [LogisticRegression()], "random_state": 0, "joint_predictors": joint}
    field = GaussianCRFClassifier(**how, columns=columns).fit(X, Y)
    for i, own in enumerate(columns):
        alone = LogisticRegression().fit(X[:, own], Y[:, i])
        wanted = np.clip(alone.decision_function(X[:, own]), *np.log([1e-3 / 0.999, 0.999 / 1e-3]))
        np.testing.assert_allclose(field.predictor_scores(X)[:, i, 0], wanted, atol=1e-6)
    changed = X.copy()
    changed[:, 4:] += 1.0
    np.testing.assert_array_equal(field.predictor_scores(changed)[:, :2], field.predictor_scores(X)[:, :2])
    field.save(tmp_path / "field.rf")
    again = rulefield.load(tmp_path / "field.rf")
    np.testing.assert_array_equal(again.predict_proba(X), field.predict_proba(X))
    names = pd.DataFrame(X, columns=list("abcdef"))
    named = GaussianCRFClassifier(**how, columns=[["a", "b"], ["d", "c"], ["e", "f"]]).fit(names, Y)
    np.testing.assert_array_equal(named.predict_proba(names), field.predict_proba(X))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([[0], [1]], "one list for each of 3 outputs; got 2"),
        ([[0], [1], [9]], "X has no column 9"),
        ([[0], [1], ["a"]], "X has no column 'a'"),
        ([[0], [1], []], "an output has none"),
        ("abc", "one list of columns for each output"),
    ],
)
def test_columns_that_are_none_are_refused(columns, words):
    X, Y = own_features()
    with pytest.raises(InputError, match=words):
        GaussianCRFClassifier(columns=columns).fit(X, Y)


def test_columns_without_a_table_are_refused():
    X, Y = own_features()
    with pytest.raises(InputError, match="columns go with a table"):
        GaussianCRFClassifier(predictors="precomputed", columns=[[0]]).fit(X[:, :, None], Y.repeat(2, axis=1))
