"""A fitted chain with the methods of ``pycrfsuite.Tagger``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rulefield.encode.crfsuite import CrfsuiteChain
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.exceptions import InputError
from rulefield.outputs import write_whole


@dataclass(frozen=True)
class ModelInfo:
    """What ``pycrfsuite.Tagger.info`` tells of a model.

    Parameters
    ----------
    header : dict
        ``size`` in bytes, ``num_labels``, ``num_attrs``.
    labels, attributes : dict
        {name: number}.
    state_features : dict
        {(attribute, label): weight}; those that are not zero.
    transitions : dict
        {(label from, label to): weight}; those that are not zero.
    """

    header: dict[str, int]
    labels: dict[str, int]
    attributes: dict[str, int]
    state_features: dict[tuple[str, str], float]
    transitions: dict[tuple[str, str], float]


def model_info(weights: CrfsuiteChain, size: int) -> ModelInfo:
    """Return the weights of a chain by their names; ``size`` is that of its file."""
    chain = weights.without_zeros()
    names, labels = chain.features, chain.labels
    rows = zip(chain.state_feature.tolist(), chain.state_label.tolist(), chain.state_weight.tolist())
    before, after = np.nonzero(chain.transitions)
    steps = zip(before.tolist(), after.tolist(), chain.transitions[before, after].tolist())
    return ModelInfo(
        {"size": size, "num_labels": len(labels), "num_attrs": len(names)},
        {label: i for i, label in enumerate(labels)},
        {name: i for i, name in enumerate(names)},
        {(names[a], labels[b]): w for a, b, w in rows},
        {(labels[a], labels[b]): w for a, b, w in steps},
    )


class Tagger:
    """The methods of ``pycrfsuite.Tagger``, over a :class:`rulefield.ChainCRF`.

    Parameters
    ----------
    chain : ChainCRF
    labels : list of str
        In the order of the model file.
    info : ModelInfo
    """

    def __init__(self, chain: ChainCRF, labels: list[str], info: ModelInfo):
        self._chain, self._labels, self._info = chain, labels, info
        self._items: Any = None
        self._marginals: np.ndarray | None = None

    def labels(self) -> list[str]:
        """All labels."""
        return list(self._labels)

    def set(self, xseq: Any) -> None:
        """Take the sequence that ``tag``, ``marginal`` and ``probability`` are about."""
        self._items, self._marginals = as_items(xseq), None

    def tag(self, xseq: Any = None) -> list[str]:
        """Best labels of ``xseq``, or of the sequence set before."""
        if xseq is not None:
            self.set(xseq)
        best: list[str] = self._chain.predict([self._given()])[0]
        return best

    def marginal(self, y: str, pos: int) -> float:
        """Probability of label ``y`` at position ``pos`` of the sequence set before."""
        items = self._given()
        if self._marginals is None:
            self._marginals = self._chain.predict_marginals([items], output="array")[0]
        if y not in self._labels or not 0 <= pos < len(items):
            raise InputError(f"there is no probability of {y!r} at {pos!r}: an unknown label, or no such position.")
        return float(self._marginals[pos, self._chain.classes_.tolist().index(y)])

    def probability(self, yseq: Sequence[str]) -> float:
        """Probability of the labels ``yseq`` for the sequence set before."""
        return float(np.exp(self._chain.log_likelihood([self._given()], [list(yseq)])[0]))

    def info(self) -> ModelInfo:
        """Weights by name."""
        return self._info

    def dump(self, filename: str | Path) -> None:
        """Write the weights as text."""
        rows = [f"(0) {a} --> {b}: {w:f}" for (a, b), w in self._info.state_features.items()]
        steps = [f"(1) {a} --> {b}: {w:f}" for (a, b), w in self._info.transitions.items()]
        write_whole(filename, "\n".join(["TRANSITIONS = {", *steps, "}", "STATE_FEATURES = {", *rows, "}", ""]))

    def close(self) -> None:
        """Do nothing: there is no file to close."""

    def _given(self) -> Any:
        if self._items is None:
            raise InputError("there is no sequence yet; give one to tag(), or call set() first.")
        return self._items


def as_items(xseq: Any) -> Any:
    """Return a sequence of items as it is; a ``pycrfsuite.ItemSequence`` as a list of dicts."""
    return xseq.items() if hasattr(xseq, "items") and not isinstance(xseq, dict) else xseq
