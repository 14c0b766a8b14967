"""What optimal means: a fixed tolerance in nats, plus the rounding error of the sums."""

import numpy as np
import pytest

from rulefield.exceptions import InputError
from rulefield.inference.engines import Engine, Engines
from rulefield.inference.result import TOLERANCE, Status, judge, rounding_error
from rulefield.kernels import certificate


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e6])
def test_the_tolerance_does_not_grow_with_the_objective(offset):
    assert judge(offset, offset + 0.9 * TOLERANCE) is Status.optimal
    assert judge(offset, offset + 1.1 * TOLERANCE) is Status.bounded


def test_rounding_is_allowed_for_and_nothing_else():
    error = rounding_error(100, -1e12)
    assert error == pytest.approx(100 * 2.0**-52 * 1e12)
    assert judge(0.0, 0.9 * error, error) is Status.optimal
    assert judge(0.0, 1.1 * error + TOLERANCE, error) is Status.bounded


def test_rounding_error_bounds_what_sums_lose():
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e8):
        values = -(rng.random(1000) * scale)
        total = 0.0
        for value in values:
            total += value
        exact = float(np.sum(values.astype(np.longdouble)))
        assert abs(total - exact) <= rounding_error(1000, total)


def test_nothing_is_proved_without_a_labeling():
    assert judge(-np.inf, -np.inf) is Status.infeasible
    assert judge(-np.inf, 3.0) is Status.bounded


def test_kernels_compute_the_same():
    assert certificate.rounding_error_kernel(7, -3.0) == rounding_error(7, -3.0)


def table():
    return Engines(
        "toys",
        [
            Engine("auto", lambda: 1, True, frozenset({"rows", "tally"})),
            Engine("quick_look", lambda: 2, False, frozenset()),
            Engine("rows_only", lambda: 3, True, frozenset({"rows"})),
        ],
    )


def test_an_unknown_engine_gets_the_nearest_name():
    with pytest.raises(
        InputError, match=r"engine 'quick-look' is unknown \(did you mean 'quick_look'\?\); toys have auto"
    ):
        table().find("quick-look")


def test_an_exact_engine_refuses_what_it_cannot_read():
    engines, tally = table(), [frozenset({"tally"})]
    assert engines.choose("auto", tally).run() == 1
    assert engines.choose("quick_look", tally).run() == 2  # judges, does not promise
    with pytest.raises(
        InputError, match="engine 'rows_only' does not read rules in the form tally; engines that do: auto"
    ):
        engines.choose("rows_only", tally)
