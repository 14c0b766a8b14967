"""The contract: what every estimator does alike, one row per test, run over all of them."""

import inspect
import pickle
import re
import sys
import warnings
from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

import rulefield as rf
from oracles.contract_cases import CASES, MADE_OF_OTHERS, picked
from rulefield import exceptions
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
    if isinstance(value, rf.Labeling):
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
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(), b.get_state())
    if hasattr(a, "__dict__") and type(a).__eq__ is object.__eq__:
        return same(_public(vars(a)), _public(vars(b)))
    return a == b


def _public(attributes):
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


# --- names and constructors ---------------------------------------------------------------------------


@over_all
def test_methods_have_the_same_signatures(case):
    for name in methods_of(case):
        parameters = list(inspect.signature(getattr(case.cls, name)).parameters.values())[1:]
        first = ["X", "y"] if name == "score" else ["x"] if name == "explain" else ["X"]
        assert [p.name for p in parameters[: len(first)]] == first, name
        rest = parameters[len(first) :]
        assert all(p.kind is p.KEYWORD_ONLY for p in rest), (name, [str(p) for p in rest])
        wanted = {"known": None} | ({} if case.name in REGRESSOR else {"rules": None})
        wanted |= {"k": 5} if name == "predict_kbest" else {}
        wanted |= {"n_samples": 1, "random_state": None} if name == "sample" else {}
        wanted |= {"engine": "auto"} if name == "decode" else {}
        wanted |= {"sample_weight": None} if name == "score" else {}
        defaults = {p.name: p.default for p in rest}
        assert {key: defaults.get(key, "missing") for key in wanted} == wanted, name
        assert "on_infeasible" not in defaults, name


@over_all
def test_unknown_keywords_raise(case):
    model = fitted(case)
    for name in methods_of(case):
        with pytest.raises(TypeError):
            getattr(model, name)(*given(name, case), rulse=[])


@over_all
def test_constructors_are_small_and_keyword_only(case):
    parameters = list(inspect.signature(case.cls).parameters.values())
    first = 1 if case.cls is rf.RuledCRF else 0
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[first:])
    assert len(parameters) <= case.most
    names = {p.name for p in parameters}
    if case in MADE_OF_OTHERS:
        return  # rules and threads are its model's
    if case.name not in REGRESSOR:
        assert {"rules", "on_infeasible"} <= names
    assert "n_jobs" in names


@over_all
def test_constructors_keep_what_they_are_given(case):
    marks = {name: object() for name in case.cls._get_param_names()}
    model = case.cls(**marks)
    assert all(model.get_params(deep=False)[name] is mark for name, mark in marks.items())
    assert set(vars(model)) == set(marks)


@over_all
def test_every_parameter_is_documented(case):
    text = inspect.getdoc(case.cls)
    section = text[text.index("Parameters\n") : text.index("Attributes\n")]
    told = {
        name.strip() for line in re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", section, re.M) for name in line.split(",")
    }
    assert set(case.cls._get_param_names()) <= told


@over_all
def test_every_fitted_attribute_is_documented(case):
    text = inspect.getdoc(case.cls)
    section = text[text.index("Attributes\n") :]
    model = fitted(case)
    own = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert {name for name in own if not re.search(rf"\b{name}\b", section)} == set()


@over_all
def test_a_table_says_what_every_parameter_may_be(case):
    assert set(case.cls._parameters) == set(case.cls._get_param_names())
    X, y = case.data()
    for name, required in case.cls._parameters.items():
        if required.words.startswith("anything"):
            continue
        with pytest.raises(exceptions.InputError, match=rf"^{name} must be"):
            case.make(**{name: object()}).fit(X, y)


# --- rules, known labels, results ---------------------------------------------------------------------


@over_rules
def test_rules_mean_the_same_in_every_method(case):
    rules = [case.rule()]
    model = fitted(case).set_params(rules=rules) if case.cls is not rf.RuledCRF else ruled_by(case, rules)
    for name in methods_of(case):
        method, args = getattr(model, name), given(name, case)
        own = plain(method(*args, **seeded(name)))
        assert own == plain(method(*args, rules=None, **seeded(name))), name
        assert own == plain(method(*args, rules=list(rules), **seeded(name))), name
        assert own != plain(method(*args, rules=[], **seeded(name))), name


def ruled_by(case, rules):
    model = fitted(case)
    model.rules_ = rules
    return model


@over_rules
def test_labels_that_rules_forbid_are_never_given(case):
    model, rules = fitted(case), [case.rule()]
    X, _ = case.data()
    free, ruled = plain(model.predict(X, rules=[])), plain(model.predict(X, rules=rules))
    assert plain([labeling.labels for labeling in model.decode(X, rules=rules)]) == ruled != free
    assert all(not labeling.broken for labeling in model.decode(X, rules=rules))


@over
def test_known_labels_are_kept(case):
    model, (X, y) = fitted(case), case.data()
    before = model.predict(X)
    X, truth = picked(X, [0, 1]), picked(y, [0, 1])
    forced = [_other(case, truth[0]), truth[1]]
    guess = model.predict(X, known=case.known(forced))
    assert _first(plain(guess[0])) == _first(plain(forced[0])) != _first(plain(before[0]))


def _other(case, labels):
    """Labels whose first one differs from what the model says."""
    X, y = case.data()
    said = _first(plain(fitted(case).predict(X)[0]))
    if case.name in REGRESSOR:
        return [said + 1.0, *plain(labels)[1:]]
    everything = sorted({label for row in y for label in _flat(plain(row))})
    other = next(label for label in everything if label != said and not str(label).startswith("I-"))
    if isinstance(labels, dict):
        first = next(iter(labels))
        return {**labels, first: [other, *labels[first][1:]]}
    return [other, *plain(labels)[1:]]


def _flat(row):
    return next(iter(row.values())) if isinstance(row, dict) else row


def _first(row):
    return _flat(row)[0]


@over_rules
def test_decode_gives_labelings(case):
    model, (X, _) = fitted(case), case.data()
    found = model.decode(X)
    assert len(found) == len(X)
    assert all(type(labeling) is rf.Labeling for labeling in found)
    assert found == model.decode(X)
    assert found[0] != found[1]
    assert all(str(labeling).startswith("optimal") for labeling in found)
    assert all(labeling.gap <= 1e-6 and labeling.engine for labeling in found)
    assert plain([labeling.labels for labeling in found]) == plain(model.predict(X))


@over_rules
def test_contradictory_rules_raise_or_are_relaxed(case):
    model, (X, _), rules = fitted(case), case.data(), case.conflict()
    with pytest.raises(exceptions.InfeasibleError) as error:
        model.predict(X, rules=rules)
    assert set(error.value.rules) == {"none", "some"}
    relaxed = model.set_params(on_infeasible="relax").decode(X, rules=rules)
    assert all(any(b.cost == np.inf and b.rule in ("none", "some") for b in labeling.broken) for labeling in relaxed)
    with pytest.raises(exceptions.InputError, match="^on_infeasible must be"):
        case.make(on_infeasible="ignore").fit(*case.data())


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


# --- fitting ------------------------------------------------------------------------------------------


@over
def test_fits_leave_the_same_records(case):
    from rulefield.learning.fit_log import FitRecord

    model = fitted(case)
    assert isinstance(model.converged_, bool)
    assert model.n_iter_ >= 1
    assert model.log_
    assert all(type(record) is FitRecord for record in model.log_)
    assert model.log_[-1].objective <= model.log_[0].objective + 1e-9


@over_all
def test_a_limit_that_stops_a_fit_is_told_once(case):
    X, y = case.data()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = case.make().set_params(**case.stop).fit(X, y)
    told = [w for w in told if issubclass(w.category, ConvergenceWarning)]
    assert len(told) == 1
    assert "max_iter" in str(told[0].message)
    assert told[0].filename == __file__
    assert not (model.model_ if case in MADE_OF_OTHERS else model).converged_


LEARNERS = [
    ("ChainCRF", {}),
    ("ChainCRF", {"solver": "sgd"}),
    ("ChainCRF", {"algorithm": "ssvm", "l2": 10.0}),
    ("ChainCRF", {"algorithm": "perceptron"}),
    ("SegmentCRF", {}),
    ("JointCRF", {}),
    ("GraphCRF", {}),
    ("GraphCRF", {"algorithm": "pseudolikelihood"}),
    ("GraphCRF", {"algorithm": "ssvm"}),
    ("GraphCRF", {"algorithm": "perceptron"}),
    ("MultiLabelCRF", {}),
]


@pytest.mark.parametrize(("name", "learner"), LEARNERS, ids=lambda value: str(value))
@pytest.mark.parametrize("tol", [3e-1, 1e-4])
def test_tol_is_the_share_by_which_the_objective_still_falls(name, learner, tol):
    case = next(c for c in CASES if c.name == name)
    model = quiet_fit(case.make(**learner, tol=tol, max_iter=2000), *case.data())
    if "fell by at most" in model.stopped_because_ or "gap" in model.stopped_because_:
        assert settled(model.log_, tol)
        assert not any(settled(model.log_[:n], tol) for n in range(1, len(model.log_)))
    else:  # the gradient is zero within rounding, or nothing is labelled wrongly any more
        assert model.converged_
        assert not settled(model.log_[:-1], tol)


def settled(log, tol):
    """The documented rule: little was gained in ten iterations, or the duality gap leaves little to gain."""
    within = tol * abs(log[-1].objective)
    before, last = log[:-10], log[-10:]
    falls = [record.objective for record in before]
    slow = bool(falls) and min(falls) - min(record.objective for record in last) <= within
    return slow or (log[-1].gap is not None and log[-1].gap <= within)


@over_all
def test_a_fit_that_converges_is_silent(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case.make(**case.calm).fit(*case.data())


@over
def test_ctrl_c_keeps_the_model_and_is_told_once(case):
    X, y = case.data()
    total = interrupted_at(None, lambda: quiet_fit(case.make(), X, y))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = case.make()
        interrupted_at(total // 2, lambda: model.fit(X, y))
    told = [w for w in told if issubclass(w.category, exceptions.InterruptedFitWarning)]
    assert len(told) == 1
    assert told[0].filename == __file__
    assert "interrupted" in str(told[0].message)
    assert not model.converged_
    assert len(model.predict(X)) == len(X)


def interrupted_at(call, work):
    """Run ``work``; Ctrl-C comes at that call of a learner's function. Returns how many there were."""
    seen = 0

    def watch(frame, event, _):
        nonlocal seen
        name = frame.f_code.co_name
        if (
            event == "call"
            and "rulefield/learning" in frame.f_code.co_filename
            and name in ("value_and_gradient", "epoch")
        ):
            seen += 1
            if seen == call:
                raise KeyboardInterrupt

    sys.setprofile(watch)
    try:
        work()
    except KeyboardInterrupt:
        pytest.fail("the fit was lost to Ctrl-C")
    finally:
        sys.setprofile(None)
    return seen


# --- files --------------------------------------------------------------------------------------------


@over_all
@pytest.mark.parametrize("params", ["usual", "other"])
def test_files_keep_every_parameter_and_attribute(case, params, tmp_path):
    X, y = case.data()
    model = fitted(case) if params == "usual" else quiet_fit(case.make(**case.other), X, y)
    model.save(tmp_path / "model.rf")
    again = rf.load(tmp_path / "model.rf")
    assert type(again) is case.cls
    before, after = model.get_params(deep=False), again.get_params(deep=False)
    assert {name for name in before if not same(before[name], after[name])} <= {"crf", "model"}
    own = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert {name for name in own if not same(getattr(model, name), getattr(again, name, None))} == set()
    assert plain(again.predict(X)) == plain(model.predict(X))
    assert again.to_bytes() == model.to_bytes()


@over_all
def test_a_subclass_with_its_own_constructor_can_be_saved(case, tmp_path):
    own = type("Own", (case.cls,), {"__init__": lambda self, *, twice=1: _own_init(self, case, twice)})
    model = quiet_fit(own(twice=2), *case.data())
    model.save(tmp_path / "model.rf")
    again = own.load(tmp_path / "model.rf")
    assert type(again) is own
    assert again.twice == 2
    X, _ = case.data()
    assert plain(again.predict(X)) == plain(model.predict(X))
    with pytest.warns(UserWarning, match="saved by Own"):
        assert type(rf.load(tmp_path / "model.rf")) is case.cls


def _own_init(self, case, twice):
    case.cls.__init__(self, **case.params)
    self.twice = twice


@over
def test_what_a_file_cannot_hold_is_refused(case):
    model = fitted(case)
    name = next(n for n in ("rules", "random_state", "l2") if n in case.cls._get_param_names())
    setattr(model, name, object())
    with pytest.raises(exceptions.ModelFileError, match=f"^{name} of this {case.name} is a object"):
        model.to_bytes()
