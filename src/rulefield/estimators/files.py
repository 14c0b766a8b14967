"""Opening a model file, whatever model it holds."""

from importlib import import_module
from pathlib import Path
from typing import Any

from rulefield.exceptions import ModelFileError
from rulefield.persistence import load_model

_LOADERS = {
    "chain": ("rulefield.estimators.chain.estimator", "ChainCRF"),
    "document": ("rulefield.estimators.documents.tagger", "DocumentTagger"),
    "gaussian classifier": ("rulefield.estimators.gaussian.classifier", "GaussianCRFClassifier"),
    "gaussian regressor": ("rulefield.estimators.gaussian.regressor", "GaussianCRFRegressor"),
    "GraphCRF": ("rulefield.estimators.graph.estimator", "GraphCRF"),
    "MultiLabelCRF": ("rulefield.estimators.multilabel.estimator", "MultiLabelCRF"),
    "joint": ("rulefield.estimators.joint.estimator", "JointCRF"),
    "ruled": ("rulefield.estimators.ruled.estimator", "RuledCRF"),
    "text": ("rulefield.estimators.text.parser", "TextParser"),
    "segments": ("rulefield.estimators.segments.estimator", "SegmentCRF"),
}


def load(source: str | Path | bytes, **options: Any) -> Any:
    """Return the model in a file that ``save`` wrote: a path, or the file's bytes. No code in the file is run."""
    kind, arrays, metadata = load_model(source)
    if kind not in _LOADERS:
        raise ModelFileError(f"this file holds a {kind!r} model, which this version of rulefield does not know.")
    module, name = _LOADERS[kind]
    return getattr(import_module(module), name)._from_state(arrays, metadata, **options)
