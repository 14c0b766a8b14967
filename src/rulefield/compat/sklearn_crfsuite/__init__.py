"""The names of sklearn-crfsuite 0.5: write ``from rulefield.compat import sklearn_crfsuite``, and leave the rest as it is."""

from rulefield.compat.sklearn_crfsuite import metrics, scorers, utils
from rulefield.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF", "metrics", "scorers", "utils"]
