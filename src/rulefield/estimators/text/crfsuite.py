"""Models of CRFsuite as fitted chains (or parsers): then rules, k best, probabilities, ``save``."""

from pathlib import Path
from typing import Any

import numpy as np

from rulefield.encode.crfsuite import CrfsuiteChain, read_crfsuite
from rulefield.encode.features import FeatureEncoder
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.sequences import object_array
from rulefield.estimators.text.parser import TextParser
from rulefield.estimators.types import as_transformer
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable


def load_crfsuite(path: str | Path | bytes, *, tokenizer: Any = None, features: Any = None) -> Any:
    """Open a model that CRFsuite (python-crfsuite, sklearn-crfsuite, usaddress, ...) has trained.

    Parameters
    ----------
    path : path, or the file's bytes
    tokenizer : callable, optional
        What cut texts into tokens; with it the model comes as a :class:`TextParser`.
    features : callable or transformer, optional
        What turned the tokens of one sequence into features.

    Returns
    -------
    ChainCRF, or TextParser where a tokenizer is given
        Labels and marginals are those of ``pycrfsuite.Tagger``.
    """
    crf = chain_of_weights(read_crfsuite(path), features)
    return crf if tokenizer is None else TextParser.of(crf, tokenizer)


def chain_of_weights(weights: CrfsuiteChain, features: Any = None) -> ChainCRF:
    """Make a fitted chain of the weights of CRFsuite; ``features`` turned tokens into features there."""
    m, n = len(weights.labels), len(weights.features)
    order = np.argsort(np.array(weights.labels, dtype=object), kind="stable")
    place = np.argsort(order)
    keys, where = np.unique(weights.state_feature * m + place[weights.state_label], return_inverse=True)
    state = np.bincount(where, weights=weights.state_weight, minlength=len(keys))  # pairs given twice add up
    first, second = np.divmod(np.arange(m * m, dtype=np.uint32), np.uint32(m))
    nothing, free = np.zeros(0, np.uint32), np.ones(m, bool)
    model = ChainModel(
        n_labels=m,
        n_features=n,
        pairs=PairTable.of_keys(keys, n, m),
        transition_from=first,
        transition_to=second,
        start_label=nothing,
        end_label=nothing,
        allowed=np.ones((m, m), bool),
        allowed_start=free,
        allowed_end=free,
    )
    crf = ChainCRF(features=as_transformer(features), start_end=False)
    crf.classes_ = object_array([weights.labels[i] for i in order])
    crf.model_ = model
    crf.theta_ = np.concatenate([state, weights.transitions[np.ix_(order, order)].ravel()])
    crf._encoder = InputEncoder(crf.features, crf.classes_.tolist())
    crf._encoder.encoder = FeatureEncoder(weights.features)
    crf._labels_encoder = LabelEncoder().set_classes(crf.classes_.tolist())
    crf.log_, crf.n_iter_, crf.converged_, crf.stopped_because_ = [], 0, True, "read from another tool's file"
    crf.expectations_ = []
    crf.l1_, crf.l2_ = 0.0, 0.0  # what the other tool used is not in its file
    return crf
