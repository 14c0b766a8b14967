"""The contract of files: every parameter and fitted attribute survives, or is refused."""

import pytest
from sklearn.base import clone

import rulefield as rf
from oracles.contract import fitted, over, over_all, plain, quiet_fit, same
from rulefield import exceptions
from rulefield.persistence import load_model, model_to_bytes

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
    assert {name for name in before if not same(before[name], after[name])} <= {"estimator", "model"}
    own = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert {name for name in own if not same(getattr(model, name), getattr(again, name, None))} == set()
    assert plain(again.predict(X)) == plain(model.predict(X))
    assert again.to_bytes() == model.to_bytes()


@over_all
def test_the_same_fit_writes_the_same_bytes(case):
    X, y = case.data()
    model = clone(case.make())
    model.set_params(**{name: 0 for name in model.get_params() if name.endswith("random_state")})
    first, second = (quiet_fit(clone(model), X, y) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()


@over_all
def test_a_subclass_is_refused(case):
    own = type("Own", (case.cls,), {})
    with pytest.raises(exceptions.ModelFileError, match="Own is a subclass; pickle it"):
        quiet_fit(own(**case.params), *case.data()).to_bytes()


@over
def test_what_a_file_cannot_hold_is_refused(case):
    model = fitted(case)
    name = next(n for n in ("rules", "random_state", "l2") if n in case.cls._get_param_names())
    setattr(model, name, object())
    with pytest.raises(exceptions.ModelFileError, match=f"^{name} of this {case.cls.__name__} is a object"):
        model.to_bytes()


@over_all
def test_numbers_that_no_seed_or_word_can_be_are_refused(case):
    """A seed of numpy is below 2^32, what kernels count with below 2^63, a float below 2^1024."""
    kind, arrays, metadata = load_model(fitted(case).to_bytes())
    params = metadata["params"]
    numbers = {n for n, value in params.items() if type(value) in (int, float)} - {"n_jobs"}
    for name in numbers | ({"random_state"} & set(params)):
        for value in (
            10**400,
            *([2**63] if type(params[name]) is int else []),
            *([-1, 2**32] * (name == "random_state")),
        ):
            with pytest.raises(exceptions.ModelFileError, match=f"{name} must be "):
                rf.load(model_to_bytes(kind, arrays, metadata | {"params": params | {name: value}}))
    if hasattr(case.cls, "sample"):
        with pytest.raises(exceptions.InputError, match="random_state must be .* to 4294967295"):
            fitted(case).sample(case.data()[0][:2], random_state=2**32)
