"""The contract of fits: records, limits, what tol means, silence, Ctrl-C."""

import sys
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from oracles.contract import fitted, over, over_all, quiet_fit
from oracles.contract_cases import CASES, MADE_OF_OTHERS
from rulefield import exceptions

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
    ("SegmentCRF", {}),
    ("JointCRF", {}),
    ("GraphCRF", {}),
    ("GraphCRF", {"algorithm": "ssvm"}),
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
    else:  # the gradient is zero within rounding, or nothing is labeled wrongly any more
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
