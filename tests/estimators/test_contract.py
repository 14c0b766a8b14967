"""The contract: what every estimator does alike, one row per test, run over all of them: signatures, rules, results.

The rows on scikit-learn, on fits and on files stand beside it, in ``test_contract_*.py``.
"""

import inspect
import re

import numpy as np
import pytest

import rulefield as rf
from oracles.contract import REGRESSOR, fitted, given, methods_of, over, over_all, over_rules, plain, seeded
from oracles.contract_cases import MADE_OF_OTHERS, picked
from rulefield import exceptions

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
def test_limits_and_seeds_have_one_default_and_mean_the_same(case):
    """None is the learner's own limit or tolerance; a fit without a seed can be repeated."""
    parameters = inspect.signature(case.cls).parameters
    for name in {"max_iter", "tol", "random_state"} & set(parameters):
        assert parameters[name].default is None, name


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


@over
def test_classes_are_arrays_of_labels_by_task_or_output_where_there_are_several(case):
    if case.name in REGRESSOR:
        return
    classes = fitted(case).classes_
    several = classes.values() if isinstance(classes, dict) else classes if isinstance(classes, list) else [classes]
    assert all(
        isinstance(own, np.ndarray) and own.ndim == 1 and len(set(own.tolist())) == len(own) for own in several
    )


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
    assert all(type(labeling) is rf.formats.Labeling for labeling in found)
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
