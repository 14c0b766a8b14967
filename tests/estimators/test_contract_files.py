"""The contract of files: every parameter and fitted attribute survives, or is refused."""

import pytest

import rulefield as rf
from oracles.contract import fitted, over, over_all, plain, quiet_fit, same
from rulefield import exceptions

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
