"""Opening models of CRFsuite."""

from pathlib import Path
from typing import Any

from rulefield.encode.foreign.crfsuite import read_crfsuite
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
    crf = chain_of_weights(read_crfsuite(path), features)
    if tokenizer is None:
        return crf
    return TextParser.of(crf, tokenizer)
