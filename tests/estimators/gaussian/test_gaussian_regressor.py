"""The Gaussian regressor as users meet it."""

import numpy as np
import pytest
import scipy.stats

from rulefield.encode.similarity import grid
from rulefield.estimators.gaussian.regressor import GaussianCRFRegressor
from rulefield.exceptions import InputError, LabelError


def erring_together(n=200, outputs=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = X @ rng.normal(size=(3, outputs)) + rng.normal(size=(n, 1)) + 0.4 * rng.normal(size=(n, outputs))
    return X, Y * np.array([1.0, 10.0, 0.1, 1.0]) + np.array([0.0, 100.0, -5.0, 3.0])


def test_known_values_move_the_others():
    X, Y = erring_together()
    field = GaussianCRFRegressor().fit(X[:150], Y[:150])
    known = np.where(np.arange(4) < 2, Y[150:], np.nan)
    plain, given = field.predict(X[150:]), field.predict(X[150:], known=known)
    np.testing.assert_allclose(given[:, :2], Y[150:, :2])
    error = [((p - Y[150:])[:, 2:] ** 2).mean(axis=0) for p in (plain, given)]
    assert np.all(error[1] < 0.5 * error[0])


def test_log_density_is_that_of_the_normal_it_reports():
    X, Y = erring_together()
    field = GaussianCRFRegressor().fit(X, Y)
    mean, cov = field.predict(X[:3]), field.predict_covariance(X[:1])[0]
    expected = [scipy.stats.multivariate_normal(m, cov).logpdf(y) for m, y in zip(mean, Y[:3])]
    np.testing.assert_allclose(field.predict_joint_log_proba(X[:3], Y[:3]), expected)
    std = field.predict(X[:3], return_std=True)[1]
    np.testing.assert_allclose(std, np.tile(np.sqrt(np.diag(cov)), (3, 1)))
    drawn = field.sample(X[:1], n_samples=20000, random_state=0)[:, 0]
    np.testing.assert_allclose(np.corrcoef(drawn.T), cov / np.outer(std[0], std[0]), atol=0.03)
    known = np.array([[Y[0, 0], np.nan, np.nan, np.nan]])
    drawn = field.sample(X[:1], n_samples=5000, known=known, random_state=0)[:, 0]
    given, spread = field.predict(X[:1], known=known, return_std=True)
    assert np.all(drawn[:, 0] == pytest.approx(Y[0, 0]))
    np.testing.assert_allclose(drawn.std(axis=0)[1:], spread[0, 1:], rtol=0.06)
    np.testing.assert_allclose(drawn.mean(axis=0), given[0], atol=4 * spread[0].max() / np.sqrt(5000) + 1e-9)


def test_units_do_not_matter():
    X, Y = erring_together()
    one, two = GaussianCRFRegressor().fit(X, Y), GaussianCRFRegressor().fit(X, Y * 1e6 - 3)
    np.testing.assert_allclose(two.predict(X), one.predict(X) * 1e6 - 3, rtol=1e-4, atol=1e3)


def test_smoothing_helps_on_a_grid():
    rng = np.random.default_rng(0)
    s = grid(30, 30)
    r, c = np.divmod(np.arange(900), 30)
    truth = np.sin(r / 5) + np.cos(c / 6)
    scores = (truth + rng.normal(size=900))[None, :, None]
    known = np.where(rng.random(900) < 0.5, truth + 0.3 * rng.normal(size=900), np.nan)[None]
    field = GaussianCRFRegressor(predictors="precomputed", graphs=[s], mean="smoothed").fit(scores, known)
    hidden = np.isnan(known[0])
    plain = ((scores[0, :, 0] - truth)[hidden] ** 2).mean()
    smooth = ((field.predict(scores)[0] - truth)[hidden] ** 2).mean()
    given = ((field.predict(scores, known=known)[0] - truth)[hidden] ** 2).mean()
    assert smooth < 0.3 * plain
    assert given < smooth


def test_unknown_values_and_sizes():
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 6, size=50)
    X = [rng.normal(size=(s, 2)) for s in sizes]
    Y = [x[:, 0] + rng.normal() + 0.2 * rng.normal(size=len(x)) for x in X]
    Y[0][0] = np.nan
    graphs = [[np.ones((s, s)) - np.eye(s) for s in sizes]]
    field = GaussianCRFRegressor(mean="direct").fit(X, Y, graphs=graphs)
    known = [np.r_[y[0] if np.isfinite(y[0]) else 0.0, np.full(len(y) - 1, np.nan)] for y in Y]
    assert field.score(X, Y, graphs=graphs, known=known) > field.score(X, Y, graphs=graphs) + 0.2
    assert [len(c) for c in field.predict_covariance(X, graphs=graphs)] == list(sizes)


def test_bad_input_is_named():
    X, Y = erring_together()
    with pytest.raises(InputError, match="mean must be one of .auto."):
        GaussianCRFRegressor(mean="up").fit(X, Y)
    with pytest.raises(LabelError, match="inconsistent numbers of samples"):
        GaussianCRFRegressor().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        GaussianCRFRegressor().fit(np.where(X > 2, np.nan, X), Y)


def test_covariance_given_known_values_is_that_of_draws():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    Y = X[:, :1] + rng.normal(size=(200, 1)) + 0.5 * rng.normal(size=(200, 4)) * [1, 2, 3, 4]
    field = GaussianCRFRegressor().fit(X, Y)
    known = np.full((2, 4), np.nan)
    known[0, 1] = 1.0
    known[1, [0, 3]] = 0.0
    found = field.predict_covariance(X[:2], known=known)
    _, std = field.predict(X[:2], known=known, return_std=True)
    np.testing.assert_allclose(np.sqrt(np.diagonal(found, axis1=1, axis2=2)), std, atol=1e-9)
    drawn = field.sample(X[:2], n_samples=40_000, known=known, random_state=0)
    for j in range(2):
        np.testing.assert_allclose(np.cov(drawn[:, j].T, ddof=0), found[j], atol=0.04 * np.abs(found[j]).max())
