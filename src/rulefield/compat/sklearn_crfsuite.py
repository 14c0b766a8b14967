"""``CRF`` with the names of sklearn-crfsuite, learned by :class:`rulefield.ChainCRF`."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.parameters import check_value, one_of
from rulefield.estimators.types import LabelsLike, SequencesLike

LEARNERS = {"lbfgs": ("likelihood", "lbfgs"), "l2sgd": ("likelihood", "sgd"), "ap": ("perceptron", "lbfgs")}
"""Algorithm and solver of :class:`ChainCRF`, by CRFsuite's name."""
MOST_ITERATIONS = {"lbfgs": None, "l2sgd": 1000, "ap": 100}


class CRF(BaseEstimator):
    """Linear-chain CRF with the parameters of sklearn-crfsuite.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap"}, default "lbfgs"
        Likelihood by L-BFGS or by stochastic steps; averaged perceptron.
    c1 : float, default 0.0
        L1 penalty c1 |w|; the ``l1`` of :class:`ChainCRF`.
    c2 : float, default 1.0
        L2 penalty c2 |w|^2; half the ``l2`` of :class:`ChainCRF`.
    max_iterations : int, optional
        By default those of CRFsuite: no limit but convergence, 1000 and 100 epochs.
    all_possible_states, all_possible_transitions : bool, default False
        Weights for all pairs, not only for those seen in training.
    min_freq : float, default 0
        Feature/label pairs seen less often get no weight.
    verbose : bool, default False

    Attributes
    ----------
    crf_ : ChainCRF
        The fitted chain, with everything else that it can do.
    classes_ : list

    Examples
    --------
    >>> from rulefield.compat.sklearn_crfsuite import CRF
    >>> X = [[{"word": "Ada"}, {"word": "1843"}], [{"word": "Alan"}, {"word": "1936"}]]
    >>> crf = CRF(c1=0.1, c2=0.1).fit(X, [["name", "year"], ["name", "year"]])
    >>> crf.predict_single([{"word": "Alan"}, {"word": "1843"}])
    ['name', 'year']
    """

    def __init__(
        self,
        *,
        algorithm: str = "lbfgs",
        c1: float = 0.0,
        c2: float = 1.0,
        max_iterations: int | None = None,
        all_possible_states: bool = False,
        all_possible_transitions: bool = False,
        min_freq: float = 0,
        verbose: bool = False,
    ):
        self.algorithm = algorithm
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.min_freq = min_freq
        self.verbose = verbose

    def fit(self, X: SequencesLike, y: LabelsLike) -> "CRF":
        """Learn from sequences of feature dicts (or lists of feature strings) and their labels."""
        check_value("algorithm", self.algorithm, one_of(*LEARNERS))
        algorithm, solver = LEARNERS[self.algorithm]
        limit = MOST_ITERATIONS[self.algorithm] if self.max_iterations is None else self.max_iterations
        self.crf_ = ChainCRF(
            algorithm=algorithm,
            solver=solver,
            l1=self.c1,
            l2=2 * self.c2,
            max_iter=limit,
            all_states=self.all_possible_states,
            all_transitions=self.all_possible_transitions,
            min_count=int(np.ceil(self.min_freq)),
            verbose=int(self.verbose),
        ).fit(X, y)
        return self

    def predict(self, X: SequencesLike) -> np.ndarray:
        """Return the labels of each sequence."""
        return self._chain.predict(X)

    def predict_single(self, xseq: Any) -> list[Any]:
        """Return the labels of one sequence."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: SequencesLike) -> list[list[dict[Any, float]]]:
        """Return {label: probability} for every token of every sequence."""
        return self._chain.predict_marginals(X)

    def predict_marginals_single(self, xseq: Any) -> list[dict[Any, float]]:
        """Return {label: probability} for every token of one sequence."""
        return self.predict_marginals([xseq])[0]

    def score(self, X: SequencesLike, y: LabelsLike) -> float:
        """Token accuracy, as sklearn-crfsuite counts it."""
        pairs = [(a, b) for gold, guess in zip(y, self.predict(X)) for a, b in zip(gold, guess)]
        return sum(a == b for a, b in pairs) / len(pairs)

    @property
    def classes_(self) -> list[Any]:
        """Labels, sorted."""
        return self._chain.classes_

    @property
    def _chain(self) -> ChainCRF:
        check_is_fitted(self, "crf_")
        return self.crf_
