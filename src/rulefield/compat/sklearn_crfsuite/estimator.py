"""``CRF`` of sklearn-crfsuite 0.5, learned and decoded by rulefield."""

from dataclasses import dataclass, field
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from rulefield.compat.sklearn_crfsuite.metrics import flat_accuracy_score
from rulefield.compat.sklearn_crfsuite.training import DEFAULTS, Trainer, TrainingLog
from rulefield.encode.crfsuite import CrfsuiteChain, crfsuite_bytes, read_crfsuite
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.text.crfsuite import chain_of_weights
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.metrics import sequence_accuracy, token_accuracy, token_f1
from rulefield.outputs import write_whole


@dataclass(eq=False, repr=False)
class CRF(BaseEstimator):
    """Linear-chain CRF with the parameters, attributes and methods of sklearn-crfsuite.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd"}, optional
        Both maximize the same likelihood, here by L-BFGS (OWL-QN with ``c1``). CRFsuite's online learners ("ap", "pa",
        "arow") and their parameters are refused.
    min_freq : float, default 0
        Features of a label and transitions whose values sum to less over the training data get no weight.
    all_possible_states, all_possible_transitions : bool, default False
        Weights for all pairs, not only for those seen in training.
    c1, c2 : float, defaults 0 and 1
        Penalties c1 |w| and c2 |w|^2.
    max_iterations : int, optional
        No limit by default.
    num_memories : int, default 6
        Pairs that L-BFGS remembers.
    epsilon : float, default 1e-5
        Training ends if the gradient's norm falls below this share of the weights'.
    delta : float, default 1e-5
        Training ends if the objective improves by less than this share over ten iterations.
    period, linesearch, max_linesearch, calibration_eta, calibration_rate, calibration_samples, calibration_candidates, \
calibration_max_trials
        Without effect: rulefield's minimizer chooses its steps itself.
    verbose : bool, default False
        Print a line per iteration.
    model_filename : path, optional
        A model file of CRFsuite: ``fit`` writes it, and an unfitted ``CRF`` reads it.
    keep_tempfiles : bool, default False
        Whether the file that ``modelfile.name`` makes is kept when the model goes.
    trainer_cls : None
        ``fit`` refuses anything else: classes of python-crfsuite do not train here.

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

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_eta: float | None = None
    calibration_rate: float | None = None
    calibration_samples: int | None = None
    calibration_candidates: int | None = None
    calibration_max_trials: int | None = None
    verbose: bool = False
    model_filename: str | None = None
    keep_tempfiles: bool = False
    trainer_cls: None = None

    training_log_: TrainingLog | None = field(init=False, default=None)
    _weights: CrfsuiteChain | None = field(init=False, default=None)
    _chain: ChainCRF | None = field(init=False, default=None)
    _tagger: "Tagger | None" = field(init=False, default=None)
    _modelfile: Any = field(init=False, default=None)

    @interruptible
    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> "CRF":
        """Learn from sequences of feature dicts (or lists of feature strings) and their labels.

        ``X_dev`` and ``y_dev`` are scored at the end, for ``training_log_``.
        """
        if (X_dev is None) != (y_dev is None):
            raise InputError("held-out data is X_dev and y_dev together; one of them is missing.")
        if self.trainer_cls is not None:
            raise InputError("trainer_cls is a class of python-crfsuite, which does not train here; leave it None.")
        trainer = Trainer(_rows(X), [list(row) for row in y], {name: getattr(self, name) for name in DEFAULTS})
        self._chain = self._tagger = self._modelfile = None
        self._weights = trainer.train(print if self.verbose else None)
        self.training_log_ = trainer.log
        if X_dev is not None and trainer.log.iterations:
            predicted = self.predict(X_dev)
            trainer.log.iterations[-1] |= {
                "avg_f1": token_f1(y_dev, predicted),
                "item_accuracy_float": token_accuracy(y_dev, predicted),
                "instance_accuracy_float": sequence_accuracy(y_dev, predicted),
            }
        if self.model_filename is not None:
            write_whole(self.model_filename, crfsuite_bytes(self._weights))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of each sequence, in an object array."""
        return np.array(list(self._fitted().predict(_rows(X))), dtype=object)

    def predict_single(self, xseq: Any) -> list[str]:
        """Return the labels of one sequence."""
        best: list[str] = self._fitted().predict(_rows([xseq]))[0]
        return best

    def predict_marginals(self, X: Any) -> np.ndarray:
        """Return {label: probability} for every item of each sequence, in an object array."""
        return np.array(self._fitted().predict_marginals(_rows(X)), dtype=object)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """Return {label: probability} for every item of one sequence."""
        marginals: list[dict[str, float]] = self._fitted().predict_marginals(_rows([xseq]))[0]
        return marginals

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy of sequence items."""
        return float(flat_accuracy_score(y, self.predict(X)))

    # --- what was learned -------------------------------------------------------------------------

    @property
    def crf_(self) -> ChainCRF | None:
        """The fitted chain."""
        weights = self._known()
        if self._chain is None and weights is not None:
            self._chain = chain_of_weights(weights)
        return self._chain

    @property
    def tagger_(self) -> "Tagger | None":
        """The model with methods of ``pycrfsuite.Tagger``."""
        if self._tagger is None and self.crf_ is not None:
            self._tagger = Tagger(self.crf_, self.classes_ or [])
        return self._tagger

    @property
    def classes_(self) -> list[str] | None:
        """Labels, in the order in which training met them."""
        weights = self._known()
        return None if weights is None else list(weights.labels)

    @property
    def size_(self) -> int | None:
        """Size of the model file of CRFsuite, in bytes."""
        weights = self._known()
        return None if weights is None else len(crfsuite_bytes(weights))

    @property
    def attributes_(self) -> list[str] | None:
        """Attributes that have a weight."""
        weights = self._known()
        return None if weights is None else list(weights.without_zeros().features)

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes that have a weight."""
        return None if self.attributes_ is None else len(self.attributes_)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """{(attribute, label): weight}; without those that are zero."""
        weights = self._known()
        if weights is None:
            return None
        rows = zip(weights.state_feature.tolist(), weights.state_label.tolist(), weights.state_weight.tolist())
        return {(weights.features[a], weights.labels[b]): w for a, b, w in rows if w}

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """{(label from, label to): weight}; without those that are zero."""
        weights = self._known()
        if weights is None:
            return None
        steps = np.argwhere(weights.transitions).tolist()
        return {(weights.labels[a], weights.labels[b]): float(weights.transitions[a, b]) for a, b in steps}

    @property
    def modelfile(self) -> Any:
        """The model as a file of CRFsuite; its ``name`` is None before ``fit``."""
        weights = self._known()
        if self.model_filename is not None or weights is None:
            return SimpleNamespace(name=self.model_filename)
        if self._modelfile is None:
            delete = not self.keep_tempfiles
            self._modelfile = NamedTemporaryFile(prefix="model", suffix=".crfsuite", delete=delete)  # noqa: SIM115
            self._modelfile.write(crfsuite_bytes(weights))
            self._modelfile.flush()
        return self._modelfile

    def _known(self) -> CrfsuiteChain | None:
        """Return the weights that were learned, or those of the model file."""
        if self._weights is None and self.model_filename is not None:
            self._weights = read_crfsuite(self.model_filename)
        return self._weights

    def _fitted(self) -> ChainCRF:
        chain = self.crf_
        if chain is None:
            raise NotFittedError("this CRF is not fitted yet; call fit, or give a model_filename.")
        return chain

    def __getstate__(self) -> dict[str, Any]:
        derived = ("_chain", "_tagger", "_modelfile")
        return {name: value for name, value in super().__getstate__().items() if name not in derived}


class Tagger:
    """The methods of ``pycrfsuite.Tagger`` that label, over a :class:`rulefield.ChainCRF`."""

    def __init__(self, chain: ChainCRF, labels: list[str]):
        self._chain, self._labels = chain, labels

    def labels(self) -> list[str]:
        """Return all labels, in the order of the model file."""
        return list(self._labels)

    def tag(self, xseq: Any) -> list[str]:
        """Return the best labels of a sequence."""
        best: list[str] = self._chain.predict(_rows([xseq]))[0]
        return best


def _rows(X: Any) -> list[Any]:
    """Return sequences of items as they are, those of ``pycrfsuite.ItemSequence`` as lists of dicts."""
    return [row.items() if hasattr(row, "items") and not isinstance(row, dict) else row for row in X]
