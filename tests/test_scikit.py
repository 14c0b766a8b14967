"""Sequence models keep scikit-learn's conventions without importing it."""

import pickle
import subprocess
import sys

import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils import get_tags
from sklearn.utils.validation import check_random_state

from rulefield import ChainCRF, RuledCRF, TokenFeatures, scikit
from rulefield.exceptions import InputError

X = [["Ada", "Lovelace", "1843"], ["Alan", "Turing", "1936"], ["Emmy", "Noether", "1918"], ["Kurt", "Goedel", "1931"]]
Y = [["B", "I", "O"]] * 4


def test_learning_and_predicting_do_not_load_scikit_learn():
    """It brings scipy.stats, and pandas where that is installed: more memory than a chain's weights."""
    code = (
        "import sys, scipy.sparse\n"
        "light = set(sys.modules)\n"  # older ones bring their graphs along
        "import rulefield as rf\n"
        "crf = rf.ChainCRF(max_iter=1).fit([['Ada', '1843']], [['B', 'O']])\n"
        "assert crf.predict([['Ada', '1843']])[0] == ['B', 'O']\n"
        "heavy = {'sklearn', 'pandas', 'rich', 'scipy.stats', 'scipy.sparse.csgraph', 'scipy.optimize'}\n"
        "strange = heavy & set(sys.modules) - light\n"
        "assert not strange, strange"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "ConvergenceWarning: ChainCRF: fit stopped after 1 iterations" in done.stderr


class Reference(BaseEstimator):
    """Scikit-learn's own base with the parameters of a RuledCRF: what ours has to agree with."""

    __init__ = RuledCRF.__init__


def test_parameters_are_those_of_scikit_learns_base():
    ours, theirs = RuledCRF(ChainCRF(l2=3.0)), Reference(ChainCRF(l2=3.0))
    strip = lambda params: {name: repr(value) for name, value in params.items()}  # noqa: E731
    assert strip(ours.get_params()) == strip(theirs.get_params())
    ours.set_params(estimator__l2=5.0, cv=3), theirs.set_params(estimator__l2=5.0, cv=3)
    assert strip(ours.get_params()) == strip(theirs.get_params())
    assert repr(ours) == repr(theirs).replace("Reference(", "RuledCRF(").replace("\n          ", "\n         ")
    for estimator in (ours, theirs):
        with pytest.raises(ValueError, match="Invalid parameter 'l3'"):
            estimator.set_params(l3=1.0)
    assert pickle.loads(pickle.dumps(ours)).estimator.l2 == 5.0


def test_what_only_scikit_learn_asks_for_comes_from_it():
    crf = ChainCRF(l2=0.3)
    assert get_tags(crf).target_tags.required
    assert not get_tags(crf).input_tags.two_d_array
    assert get_tags(TokenFeatures()).transformer_tags is not None
    assert "ChainCRF(l2=0.3)" in crf._repr_mimebundle_()["text/plain"]
    assert "0.3" in crf._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(crf, "_repr_html_")
    assert not hasattr(crf, "theta_")
    assert not hasattr(crf, "_html")


def test_metadata_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        crf = ChainCRF(tol=0.1).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        assert type(crf) is ChainCRF
        assert clone(crf).get_metadata_routing().fit.requests["sample_weight"] is True
        search = GridSearchCV(crf, {"l2": [0.1, 1.0]}, cv=2, error_score="raise").fit(
            X, Y, sample_weight=[1.0, 2.0, 1.0, 1.0]
        )
        assert search.best_params_["l2"] in (0.1, 1.0)


def test_seeds_are_read_as_scikit_learn_reads_them():
    for seed in (0, 7):
        assert scikit.check_random_state(seed).randint(10**9) == check_random_state(seed).randint(10**9)
    assert scikit.check_random_state(None) is check_random_state(None)
    kept = check_random_state(3)
    assert scikit.check_random_state(kept) is kept
    for strange in ("x", -1, 2**32):
        with pytest.raises(InputError, match="random_state must be None, a whole number from 0 to 4294967295"):
            scikit.check_random_state(strange)
