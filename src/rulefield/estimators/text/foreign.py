"""Opening models of CRFsuite, CRF++ and Wapiti."""

from pathlib import Path
from typing import Any

from rulefield.encode.foreign.crfpp import read_crfpp
from rulefield.encode.foreign.crfsuite import read_crfsuite
from rulefield.encode.foreign.wapiti import read_wapiti
from rulefield.encode.foreign.wapiti_patterns import WapitiPatterns
from rulefield.encode.templates import Template
from rulefield.estimators.chain.foreign import chain_of_weights
from rulefield.estimators.text.parser import TextParser


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
