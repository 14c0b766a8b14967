"""The contract with scikit-learn: clones, searches, weights, threads, seeds, feature names."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

from oracles.contract import TABLES, fitted, given, methods_of, over, over_all, plain, quiet_fit, same
from oracles.contract_cases import CASES, picked
from rulefield import exceptions

# --- scikit-learn -------------------------------------------------------------------------------------


@over_all
def test_clone_and_params(case):
    model = case.make(**case.other)
    copy = clone(model)
    assert same(copy.get_params(deep=False), model.get_params(deep=False))
    assert copy.set_params(**{f"{case.inner}n_jobs": 5}).get_params()[f"{case.inner}n_jobs"] == 5
    with pytest.raises(ValueError, match="rulse"):
        copy.set_params(rulse=1)
    with pytest.raises(NotFittedError):
        model.predict(case.data()[0])


@over_all
def test_grid_search(case):
    X, y = case.data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(case.make(), case.grid, cv=KFold(2), error_score="raise").fit(X, y)
    assert search.best_score_ > 0.2
    assert plain(search.predict(X)) == plain(search.best_estimator_.predict(X))


@over_all
def test_cross_val_predict(case):
    X, y = case.data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cross_val_predict(case.make(), X, y, cv=KFold(2))
        half = len(X) // 2
        by_hand = case.make().fit(picked(X, range(half, len(X))), picked(y, range(half, len(X))))
    assert len(found) == len(X)
    assert np.all([plain(a) == plain(b) for a, b in zip(found, by_hand.predict(picked(X, range(half))))])


@over_all
def test_pickle(case):
    model = fitted(case)
    again = pickle.loads(pickle.dumps(model))
    assert plain(again.predict(case.data()[0])) == plain(model.predict(case.data()[0]))


@over_all
def test_weight_two_is_the_data_twice_or_refused(case):
    X, y = case.data()
    weight = np.ones(len(X))
    weight[:3] = 2.0
    if not case.weighted:
        with pytest.raises(exceptions.InputError, match="sample_weight"):
            case.make().fit(X, y, sample_weight=weight)
        return
    twice = [*range(len(X)), 0, 1, 2]
    if not case.name.startswith("Gaussian"):  # whose folds would cut doubled rows elsewhere
        sharp = {f"{case.inner}tol": 1e-9, f"{case.inner}max_iter": 1000}
        a = quiet_fit(case.make().set_params(**sharp), X, y, sample_weight=weight)
        b = quiet_fit(case.make().set_params(**sharp), picked(X, twice), picked(y, twice))
        assert plain(a.predict(X)) == plain(b.predict(X))
    for bad in (weight[:-1], np.where(weight > 1, np.nan, weight), -weight):
        with pytest.raises(ValueError, match="(?i)sample_weight|weight"):
            case.make().fit(X, y, sample_weight=bad)


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case.data()[0], np.ndarray)], ids=lambda c: c.name
)
def test_features_that_doubles_cannot_carry_are_refused(case):
    X, y = case.data()
    huge = np.where(np.arange(X.size).reshape(X.shape) == 1, 1e300, X)
    for call in (lambda: case.make().fit(huge, y), lambda: fitted(case).predict(huge)):
        with pytest.raises(exceptions.InputError, match="at most 1e.12 in magnitude.* 1e.300"):
            call()


@over
def test_any_number_of_threads_gives_the_same_result(case):
    X, _ = case.data()
    answers = [_in_threads(case, n_jobs) for n_jobs in (1, 2, 3, 8, -1, -2)]
    assert all(answer == answers[0] for answer in answers[1:])
    for bad in (0, 1.5, "two"):
        with pytest.raises(exceptions.InputError, match="^n_jobs must be"):
            case.make(n_jobs=bad).fit(*case.data())


def _in_threads(case, n_jobs):
    model = quiet_fit(case.make(n_jobs=n_jobs), *case.data())
    names = [m for m in methods_of(case) if m not in ("sample", "explain")]
    return [plain(getattr(model, name)(*given(name, case))) for name in names]


@over
def test_the_same_seed_gives_the_same_result(case):
    X, y = case.data()
    model = fitted(case)
    if "random_state" in case.cls._get_param_names():
        a, b = (quiet_fit(case.make(random_state=7), X, y) for _ in range(2))
        assert plain(a.predict(X)) == plain(b.predict(X))
    if hasattr(model, "sample"):
        draws = [plain(model.sample(X, n_samples=5, random_state=seed)) for seed in (0, 0, 1)]
        assert draws[0] == draws[1] != draws[2]


@over
def test_features_are_counted_and_named(case):
    model = fitted(case)
    assert model.n_features_in_
    if case.name in TABLES:
        import pandas

        X, y = case.data()
        frame = pandas.DataFrame(X, columns=["one", "two", "three"])
        named = quiet_fit(case.make(), frame, y)
        assert list(named.feature_names_in_) == ["one", "two", "three"]
        with pytest.raises(ValueError, match="feature names"):
            named.predict(frame.rename(columns={"one": "uno"}))
    elif case.name != "GraphCRF":
        assert len(model.feature_names_in_) == model.n_features_in_
