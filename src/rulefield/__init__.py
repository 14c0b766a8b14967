"""Conditional random fields that follow your rules.

Public names are imported on first use, so that ``import rulefield`` costs next to nothing and a script
that labels sequences never loads the graph or Gaussian code. What is not listed here has its place in a public
module: ``rules``, ``datasets``, ``metrics``, ``formats``, ``graphs``, ``plots`` or ``compat``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; _PUBLIC is the same list for the interpreter
    from rulefield import compat as compat
    from rulefield import datasets as datasets
    from rulefield import formats as formats
    from rulefield import graphs as graphs
    from rulefield import metrics as metrics
    from rulefield import plots as plots
    from rulefield import rules as rules
    from rulefield.data.scored import Scored as Scored
    from rulefield.encode.tokens import TokenFeatures as TokenFeatures
    from rulefield.estimators.chain.corpora import write_corpus as write_corpus
    from rulefield.estimators.chain.estimator import ChainCRF as ChainCRF
    from rulefield.estimators.chain.scores import decode_scores as decode_scores
    from rulefield.estimators.documents.tagger import DocumentTagger as DocumentTagger
    from rulefield.estimators.expectations import GeneralizedExpectation as GeneralizedExpectation
    from rulefield.estimators.expectations import PosteriorRegularization as PosteriorRegularization
    from rulefield.estimators.gaussian.classifier import GaussianCRFClassifier as GaussianCRFClassifier
    from rulefield.estimators.gaussian.regressor import GaussianCRFRegressor as GaussianCRFRegressor
    from rulefield.estimators.graph.estimator import GraphCRF as GraphCRF
    from rulefield.estimators.joint.estimator import JointCRF as JointCRF
    from rulefield.estimators.multilabel.estimator import MultiLabelCRF as MultiLabelCRF
    from rulefield.estimators.ruled.choice import choose_rules as choose_rules
    from rulefield.estimators.ruled.estimator import RuledCRF as RuledCRF
    from rulefield.estimators.ruled.held_out import cross_fit as cross_fit
    from rulefield.estimators.saving import load as load
    from rulefield.estimators.segments.estimator import SegmentCRF as SegmentCRF
    from rulefield.estimators.text.crfsuite import load_crfsuite as load_crfsuite
    from rulefield.estimators.text.parser import TextParser as TextParser
    from rulefield.learning.chain.corpus import open_corpus as open_corpus
    from rulefield.report.page import write_report as write_report
    from rulefield.report.suggest import suggest as suggest

__version__ = "0.1.0"

_PUBLIC = {
    "ChainCRF": "estimators.chain.estimator",
    "DocumentTagger": "estimators.documents.tagger",
    "GaussianCRFClassifier": "estimators.gaussian.classifier",
    "GaussianCRFRegressor": "estimators.gaussian.regressor",
    "GeneralizedExpectation": "estimators.expectations",
    "GraphCRF": "estimators.graph.estimator",
    "JointCRF": "estimators.joint.estimator",
    "MultiLabelCRF": "estimators.multilabel.estimator",
    "PosteriorRegularization": "estimators.expectations",
    "RuledCRF": "estimators.ruled.estimator",
    "Scored": "data.scored",
    "SegmentCRF": "estimators.segments.estimator",
    "TextParser": "estimators.text.parser",
    "TokenFeatures": "encode.tokens",
    "choose_rules": "estimators.ruled.choice",
    "cross_fit": "estimators.ruled.held_out",
    "decode_scores": "estimators.chain.scores",
    "load": "estimators.saving",
    "load_crfsuite": "estimators.text.crfsuite",
    "open_corpus": "learning.chain.corpus",
    "suggest": "report.suggest",
    "write_corpus": "estimators.chain.corpora",
    "write_report": "report.page",
}
_MODULES = ("compat", "datasets", "formats", "graphs", "metrics", "plots", "rules")

__all__ = [*_PUBLIC, *_MODULES]


if not TYPE_CHECKING:  # a type checker would take every name for public

    def __getattr__(name: str) -> Any:
        if name in _PUBLIC:
            value = getattr(import_module(f"rulefield.{_PUBLIC[name]}"), name)
        elif name in _MODULES:
            value = import_module(f"rulefield.{name}")
        else:
            raise AttributeError(f"module 'rulefield' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return ["__version__", *__all__]
