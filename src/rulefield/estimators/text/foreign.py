"""Models of CRFsuite, CRF++ and Wapiti, as fitted chains (or parsers): then rules, k best, probabilities, ``save``."""

from pathlib import Path
from typing import Any

import numpy as np

from rulefield.encode.features import FeatureEncoder
from rulefield.encode.foreign.crfpp import read_crfpp
from rulefield.encode.foreign.crfsuite import read_crfsuite
from rulefield.encode.foreign.wapiti import read_wapiti
from rulefield.encode.foreign.wapiti_patterns import WapitiPatterns
from rulefield.encode.foreign.weights import ForeignChain
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.templates import Template
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.sequences import object_array
from rulefield.estimators.text.parser import TextParser
from rulefield.estimators.types import as_transformer
from rulefield.learning.chain.stochastic import Stream
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
    return _opened(chain_of_weights(read_crfsuite(path), features), tokenizer)


def load_crfpp(path: str | Path | bytes, *, tokenizer: Any = None, encoding: str = "utf-8") -> Any:
    """Open a text model of CRF++ (``crf_learn -t``); its template comes with it.

    Parameters
    ----------
    path : path, or the file's bytes
    tokenizer : callable, optional
        With it the model comes as a :class:`TextParser`; the template must then read one column.
    encoding : str
        Of the file.

    Returns
    -------
    ChainCRF, or TextParser where a tokenizer is given
        Tokens are strings, or tuples of as many columns as the template reads.
    """
    weights, template = read_crfpp(path, encoding)
    return _opened(chain_of_weights(weights, Template(template)), tokenizer)


def load_wapiti(path: str | Path | bytes, *, tokenizer: Any = None) -> Any:
    """Open a model of Wapiti; its patterns come with it.

    Parameters
    ----------
    path : path, or the file's bytes
    tokenizer : callable, optional
        With it the model comes as a :class:`TextParser`; the patterns must then read one column.

    Returns
    -------
    ChainCRF, or TextParser where a tokenizer is given
        Tokens are strings, or tuples of as many columns as the patterns read; lists of features where the model has no
        patterns.
    """
    weights, patterns = read_wapiti(path)
    features = WapitiPatterns("\n".join(patterns)) if patterns else None
    return _opened(chain_of_weights(weights, features), tokenizer)


def _opened(crf: Any, tokenizer: Any) -> Any:
    return crf if tokenizer is None else TextParser.of(crf, tokenizer)


def chain_of_weights(weights: ForeignChain, features: Any = None) -> ChainCRF:
    """Make a fitted chain of another tool's weights.

    Parameters
    ----------
    weights : ForeignChain
    features : callable or transformer, optional
        What turned tokens into features there; without it, sequences are given as features (dicts or lists of strings).
    """
    m = len(weights.labels)
    order = np.argsort(np.array(weights.labels, dtype=object), kind="stable")
    place = np.empty(m, np.int64)
    place[order] = np.arange(m)
    pairs, state = _table(
        weights.state_feature, place[weights.state_label], weights.state_weight, len(weights.features), m
    )
    step_from, step_to = np.divmod(weights.step_pair, m)
    moved = place[step_from] * m + place[step_to] if len(step_from) else weights.step_pair
    steps, step = _table(weights.step_feature, moved, weights.step_weight, len(weights.features), m * m)
    first, second = np.divmod(np.arange(m * m, dtype=np.uint32), np.uint32(m))
    nothing = np.zeros(0, np.uint32)
    free = np.ones(m, bool)
    model = ChainModel(
        m, len(weights.features), pairs, first, second, nothing, nothing, np.ones((m, m), bool), free, free, steps
    )
    crf = ChainCRF(features=as_transformer(features), start_end=False)
    crf.classes_ = object_array([weights.labels[i] for i in order])
    crf.model_ = model
    crf.theta_ = np.concatenate([state, weights.transitions[np.ix_(order, order)].ravel(), step])
    crf._encoder = InputEncoder(crf.features, crf.classes_.tolist())
    crf._encoder.encoder = FeatureEncoder.from_names(weights.features)
    crf._labels_encoder = LabelEncoder().set_classes(crf.classes_.tolist())
    crf.log_, crf.n_iter_, crf.converged_, crf.stopped_because_ = [], 0, True, "read from another tool's file"
    crf.expectations_, crf._stream = [], Stream()
    crf.l1_, crf.l2_ = 0.0, 0.0  # what the other tool used is not in its file
    return crf


def _table(
    feature: np.ndarray, label: np.ndarray, weight: np.ndarray, n_features: int, n_labels: int
) -> tuple[PairTable, np.ndarray]:
    """Pairs sorted by feature and label, and their weights in that order; pairs given twice add up."""
    keys, where = np.unique(feature * n_labels + label, return_inverse=True)
    total = np.bincount(where, weights=weight, minlength=len(keys)) if len(keys) else np.zeros(0)
    rows, columns = np.divmod(keys, n_labels)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_features))]).astype(np.uint64)
    return PairTable(ptr, columns.astype(np.uint32), n_labels), total
