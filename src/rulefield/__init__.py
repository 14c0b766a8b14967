"""Conditional random fields that follow your rules.

Public names are imported on first use, so that ``import rulefield`` costs next to nothing and a script
that labels sequences never loads the graph or Gaussian code.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "ChainCRF": "rulefield.estimators.chain.estimator",
    "DocumentTagger": "rulefield.estimators.documents.tagger",
    "GaussianCRFClassifier": "rulefield.estimators.gaussian.classifier",
    "GaussianCRFRegressor": "rulefield.estimators.gaussian.regressor",
    "GeneralizedExpectation": "rulefield.estimators.expectations",
    "GraphCRF": "rulefield.estimators.graph.estimator",
    "GraphPredictors": "rulefield.estimators.graph.predictors",
    "BrokenRule": "rulefield.estimators.labelings",
    "JointCRF": "rulefield.estimators.joint.estimator",
    "Labeling": "rulefield.estimators.labelings",
    "MultiLabelCRF": "rulefield.estimators.multilabel.estimator",
    "Page": "rulefield.data.pages",
    "PosteriorRegularization": "rulefield.estimators.expectations",
    "RuledCRF": "rulefield.estimators.ruled.estimator",
    "Scored": "rulefield.data.scored",
    "SegmentCRF": "rulefield.estimators.segments.estimator",
    "Corpus": "rulefield.encode.corpora.corpus",
    "Sequences": "rulefield.data.sequences",
    "Template": "rulefield.encode.templates",
    "TextParser": "rulefield.estimators.text.parser",
    "HashedFeatures": "rulefield.encode.keyed.hashed",
    "TokenFeatures": "rulefield.encode.tokens",
    "TypedGraph": "rulefield.data.graphs",
    "choose_rules": "rulefield.estimators.ruled.choice",
    "decode_scores": "rulefield.estimators.chain.scores",
    "load": "rulefield.estimators.files",
    "load_crfpp": "rulefield.estimators.text.foreign",
    "load_crfsuite": "rulefield.estimators.text.foreign",
    "load_wapiti": "rulefield.estimators.text.foreign",
    "open_corpus": "rulefield.encode.corpora.corpus",
    "write_corpus": "rulefield.estimators.corpora",
    "suggest": "rulefield.report.suggest",
    "write_report": "rulefield.report.page",
}
_MODULES = {"rules", "metrics", "datasets"}

__all__ = ["__version__", *sorted(_PUBLIC), *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
    elif name in _MODULES:
        value = import_module(f"rulefield.{name}")
    else:
        raise AttributeError(f"module 'rulefield' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
