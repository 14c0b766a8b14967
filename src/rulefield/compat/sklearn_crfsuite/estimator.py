"""``CRF`` of sklearn-crfsuite 0.5: every parameter, attribute and method, learned and decoded by rulefield."""

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from rulefield.compat.sklearn_crfsuite.metrics import flat_accuracy_score
from rulefield.compat.sklearn_crfsuite.tagger import ModelInfo, Tagger, as_items, model_info
from rulefield.compat.sklearn_crfsuite.training import DEFAULTS, ONLINE_PARAMETERS, Trainer, TrainingLog, options_of
from rulefield.encode.crfsuite import CrfsuiteChain, crfsuite_bytes, read_crfsuite
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.text.crfsuite import chain_of_weights
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.outputs import write_whole

COMMON = ("min_freq", "all_possible_states", "all_possible_transitions")


class CRF(BaseEstimator):
    """Linear-chain CRF with the parameters, attributes and methods of sklearn-crfsuite.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd"}, optional
        Likelihood by L-BFGS (the default; OWL-QN with ``c1``) or by stochastic steps. CRFsuite's online learners ("ap",
        "pa", "arow") are refused.
    min_freq : float, default 0
        Features of a label and transitions whose values sum to less over the training data get no weight.
    all_possible_states, all_possible_transitions : bool, default False
        Weights for all pairs, not only for those seen in training.
    c1, c2 : float, defaults 0 and 1
        Penalties c1 |w| and c2 |w|^2 (lbfgs; l2sgd has c2).
    max_iterations : int, optional
        By default no limit for lbfgs, 1000 for l2sgd.
    num_memories : int, default 6
        Pairs that L-BFGS remembers.
    epsilon : float
        lbfgs ends where the gradient's norm falls below this share of the weights' (1e-5).
    delta : float
        lbfgs and l2sgd end where the objective improves by less than this share over ten iterations (1e-5, 1e-6).
    pa_type, c, error_sensitive, averaging, variance, gamma
        Of CRFsuite's online learners; refused if given.
    period, linesearch, max_linesearch, calibration_eta, calibration_rate, calibration_samples, calibration_candidates, \
calibration_max_trials
        Accepted and checked, without effect: rulefield's minimizers choose their steps themselves.
    verbose : bool, default False
        Print a line per iteration.
    model_filename : path, optional
        A model file of CRFsuite: ``fit`` writes it, and an unfitted ``CRF`` reads it.
    keep_tempfiles : bool, default False
        Whether the file that ``modelfile.name`` makes is kept when the model goes.
    trainer_cls : None
        A class of trainers of python-crfsuite has no place here; anything but None is refused by ``fit``.

    Attributes
    ----------
    crf_ : ChainCRF
        The fitted chain: rules, k best, samples, explanations, ``save``.
    classes_ : list of str
        In the order in which training met them.
    attributes_, num_attributes_, state_features_, transition_features_, size_, training_log_, tagger_
        As in sklearn-crfsuite; None before ``fit``.

    Examples
    --------
    >>> from rulefield.compat import sklearn_crfsuite
    >>> X = [[{"word": "Ada"}, {"word": "1843"}], [{"word": "Alan"}, {"word": "1936"}]]
    >>> crf = sklearn_crfsuite.CRF(c1=0.1, c2=0.1).fit(X, [["name", "year"], ["name", "year"]])
    >>> crf.predict_single([{"word": "Alan"}, {"word": "1843"}])
    ['name', 'year']
    """

    training_log_: TrainingLog | None = None
    _weights: CrfsuiteChain | None = None
    _chain: ChainCRF | None = None
    _tagger: Tagger | None = None
    _bytes: bytes | None = None
    _modelfile: "ModelFile | None" = None

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: None = None,
    ):
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.calibration_eta = calibration_eta
        self.calibration_rate = calibration_rate
        self.calibration_samples = calibration_samples
        self.calibration_candidates = calibration_candidates
        self.calibration_max_trials = calibration_max_trials
        self.pa_type = pa_type
        self.c = c
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles
        self.trainer_cls = trainer_cls

    @interruptible
    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> "CRF":
        """Learn from sequences of feature dicts (or lists of feature strings) and their labels.

        ``X_dev`` and ``y_dev`` are scored after every iteration, for ``training_log_`` and ``verbose``.
        """
        if (X_dev is None) != (y_dev is None):
            raise InputError("held-out data is X_dev and y_dev together; one of them is missing.")
        if self.trainer_cls is not None:
            raise InputError("trainer_cls is a class of python-crfsuite, which does not train here; leave it None.")
        options = options_of(self.algorithm, self._given())
        trainer = Trainer(_rows(X), [list(labels) for labels in y], options)
        dev = None if X_dev is None else (_rows(X_dev), y_dev)
        self._forget()
        self._weights = trainer.train(self.algorithm or "lbfgs", dev, print if self.verbose else None)
        self.training_log_ = trainer.log
        if self.model_filename is not None:
            write_whole(self.model_filename, self._file_bytes())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of each sequence, in an object array."""
        return np.array(list(self._fitted().predict(_rows(X))), dtype=object)

    def predict_single(self, xseq: Any) -> list[str]:
        """Return the labels of one sequence."""
        best: list[str] = self._fitted().predict([as_items(xseq)])[0]
        return best

    def predict_marginals(self, X: Any) -> np.ndarray:
        """Return {label: probability} for every item of each sequence, in an object array."""
        return np.array(self._fitted().predict_marginals(_rows(X)), dtype=object)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """Return {label: probability} for every item of one sequence."""
        marginals: list[dict[str, float]] = self._fitted().predict_marginals([as_items(xseq)])[0]
        return marginals

    def score(self, X: Any, y: Any) -> float:
        """Accuracy of sequence items."""
        return float(flat_accuracy_score(y, self.predict(X)))

    # --- what was learned -------------------------------------------------------------------------

    @property
    def crf_(self) -> ChainCRF | None:
        """The fitted chain."""
        if self._chain is None and self._known() is not None:
            self._chain = chain_of_weights(self._known())
        return self._chain

    @property
    def tagger_(self) -> Tagger | None:
        """The model with the methods of ``pycrfsuite.Tagger``."""
        chain, weights = self.crf_, self._weights
        if self._tagger is None and chain is not None and weights is not None:
            self._tagger = Tagger(chain, weights.labels, model_info(weights, len(self._file_bytes())))
        return self._tagger

    @property
    def classes_(self) -> list[str] | None:
        """Labels, in the order in which training met them."""
        weights = self._known()
        return None if weights is None else list(weights.labels)

    @property
    def size_(self) -> int | None:
        """Size of the model file of CRFsuite, in bytes."""
        return None if self._known() is None else len(self._file_bytes())

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes that have a weight."""
        info = self._info
        return None if info is None else info.header["num_attrs"]

    @property
    def attributes_(self) -> list[str] | None:
        """Attributes that have a weight."""
        info = self._info
        return None if info is None else list(info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """{(attribute, label): weight}."""
        info = self._info
        return None if info is None else info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """{(label from, label to): weight}."""
        info = self._info
        return None if info is None else info.transitions

    @property
    def modelfile(self) -> "ModelFile":
        """The model as a file of CRFsuite; its ``name`` is None before ``fit``."""
        if self._modelfile is None:
            known = self.model_filename is None and self._known() is not None
            content = self._file_bytes() if known else None
            self._modelfile = ModelFile(self.model_filename, content, self.keep_tempfiles)
        return self._modelfile

    @property
    def _info(self) -> ModelInfo | None:
        tagger = self.tagger_
        return None if tagger is None else tagger.info()

    def _known(self) -> Any:
        """Return the weights that were learned, or those of the model file."""
        if self._weights is None and self.model_filename is not None:
            self._weights = read_crfsuite(self.model_filename)
        return self._weights

    def _fitted(self) -> ChainCRF:
        chain = self.crf_
        if chain is None:
            raise NotFittedError("this CRF is not fitted yet; call fit, or give a model_filename.")
        return chain

    def _file_bytes(self) -> bytes:
        if self._bytes is None:
            self._bytes = crfsuite_bytes(self._known())
        return self._bytes

    def _given(self) -> dict[str, Any]:
        """Return the parameters of training that are not None."""
        names = {*COMMON, *(name for own in DEFAULTS.values() for name in own), *ONLINE_PARAMETERS}
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _forget(self) -> None:
        self._weights = self._chain = self._tagger = self._bytes = self._modelfile = None

    def __getstate__(self) -> dict[str, Any]:
        derived = ("_chain", "_tagger", "_bytes", "_modelfile")
        return {name: value for name, value in super().__getstate__().items() if name not in derived}


class ModelFile:
    """A model as a file that has a name: the one that was given, or a temporary one that goes with this object."""

    def __init__(self, filename: str | None, content: bytes | None, keep: bool):
        self._name, self._content, self._keep = filename, content, keep

    @property
    def name(self) -> str | None:
        """Path of the file, which is written when it is first asked for."""
        if self._name is None and self._content is not None:
            handle, self._name = tempfile.mkstemp(".crfsuite", "model")
            with os.fdopen(handle, "wb") as file:
                file.write(self._content)
            if not self._keep:
                weakref.finalize(self, Path(self._name).unlink, missing_ok=True)
        return self._name


def _rows(X: Any) -> list[Any]:
    return [as_items(xseq) for xseq in X]
