"""How the tests of the contract run over all estimators, and compare what they give."""

import pickle
import warnings
from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse

import rulefield as rf
from oracles.contract_cases import CASES, MADE_OF_OTHERS
from rulefield.rules import Rule
from rulefield.rules.text import to_dicts

TABLES = {"MultiLabelCRF", "GaussianCRFClassifier", "GaussianCRFRegressor"}
REGRESSOR = {"GaussianCRFRegressor"}

METHODS = ("predict", "decode", "predict_marginals", "predict_proba", "predict_kbest", "sample", "explain", "score")


def over(test, without=()):
    """Run a test over all estimators."""
    cases = [case for case in CASES if case.name not in without]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)(test)


def over_all(test):
    """Run a test over all estimators, and those that are made of another."""
    return pytest.mark.parametrize("case", [*CASES, *MADE_OF_OTHERS], ids=lambda case: case.name)(test)


def over_rules(test):
    """Run a test over all estimators that take rules."""
    return over(test, REGRESSOR)


@cache
def _fitted(name):
    case = next(c for c in [*CASES, *MADE_OF_OTHERS] if c.name == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.make().fit(*case.data())


def fitted(case):
    """Return a fitted estimator, a copy: tests may change it."""
    return pickle.loads(pickle.dumps(_fitted(case.name)))


def plain(value):
    """Return an answer as lists, so that == compares it."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, rf.formats.Labeling):
        return plain(value.labels), value.broken
    if hasattr(value, "tokens"):
        return [token.label for token in value.tokens]
    return value.item() if isinstance(value, np.generic) else value


def same(a, b):
    """Whether two parameters or attributes hold the same, arrays and models included."""
    if type(a) is not type(b) and not (isinstance(a, dict | list | tuple) and isinstance(b, type(a))):
        return a == b if isinstance(a, str | int | float) else False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and all(same(x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist()))
    if scipy.sparse.issparse(a):
        return a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, float):
        return a == b or (np.isnan(a) and np.isnan(b))
    if isinstance(a, Rule):  # numbers in rules make rules of ==
        return to_dicts([a]) == to_dicts([b])
    if is_dataclass(a) and not hasattr(a, "get_params"):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.compare)
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(), b.get_state())
    if hasattr(a, "__dict__") and type(a).__eq__ is object.__eq__:
        return same(public(vars(a)), public(vars(b)))
    return a == b


def public(attributes):
    return {name: value for name, value in attributes.items() if not name.startswith("_")}


def quiet_fit(estimator, X, y, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y, **how)


def given(method, case):
    """Return arguments of a method: the data, and y where it is needed."""
    X, y = case.data()
    if method == "explain":
        return (X[0],)
    return (X, y) if method == "score" else (X,)


def methods_of(case):
    return [name for name in METHODS if hasattr(case.cls, name)]


def seeded(method):
    return {"random_state": 0} if method == "sample" else {}
