"""scikit-learn's own checks."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from rulefield.estimators.gaussian.classifier import GaussianCRFClassifier
from rulefield.estimators.gaussian.regressor import GaussianCRFRegressor

# What scikit-learn leaves out by itself, and why. Nothing is expected to fail.
LEFT_OUT = {
    "check_array_api_input": "needs the environment variable SCIPY_ARRAY_API",
    "check_classifier_data_not_an_array": "its last part needs pandas; the rest ran",
    "check_regressor_data_not_an_array": "its last part needs pandas; the rest ran",
    "check_sample_weights_pandas_series": "needs pandas",
    "check_classifiers_multilabel_output_format_decision_function": "there is predict_proba, no decision_function",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator", [GaussianCRFClassifier(), GaussianCRFRegressor()], ids=lambda e: type(e).__name__
)
def test_scikit_learn_checks(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert len(results) > 40
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= set(LEFT_OUT)


@pytest.mark.parametrize("cls", [GaussianCRFClassifier, GaussianCRFRegressor])
def test_a_fit_reads_top_down(cls):
    """What a fit calls never calls back into the file of the estimator."""
    own = Path(inspect.getfile(cls))
    X = np.random.default_rng(0).normal(size=(40, 2))
    back = []

    def watch(frame, event, arg):
        caller = Path(frame.f_back.f_code.co_filename) if event == "call" and frame.f_back else own
        if Path(frame.f_code.co_filename) == own and caller.parent == own.parent and caller != own:
            back.append((caller.name, frame.f_code.co_name))

    sys.setprofile(watch)
    try:
        cls().fit(X, (X > 0).astype(int))
    finally:
        sys.setprofile(None)
    assert back == []
