"""Model files of every kind behind one face: what the commands ask of a model that labels sequences."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulefield.encode.schemes import OUTSIDE
from rulefield.exceptions import InputError


class OpenedChain:
    """A :class:`ChainCRF`; also the base of the others.

    ``chain`` is the chain inside the model, where there is one to be explained.
    """

    kind = "chain"

    def __init__(self, crf: Any, jobs: int):
        self.crf = crf.set_params(n_jobs=jobs)

    @property
    def chain(self) -> Any:
        """The chain whose weights and explanations can be shown."""
        return self.crf

    def predict(self, tokens: list[Any], rules: Sequence[Any] | None = None) -> list[Any]:
        """Best labels of each sequence; ``rules`` take the place of the model's own."""
        return list(self.crf.predict(tokens, rules=rules))

    def probabilities(self, tokens: list[Any], predicted: list[Any], rules: Sequence[Any] | None) -> list[Any]:
        """Probabilities of the predicted labels, under the rules that chose them."""
        tables = self.crf.predict_marginals(tokens, output="array", rules=rules)
        return _picked(tables, predicted, {label: i for i, label in enumerate(self.crf.classes_)})

    def kbest(self, tokens: list[Any], k: int, rules: Sequence[Any] | None) -> list[list[tuple[list[Any], float]]]:
        """Return the k best labelings of each sequence, under the rules, with their probabilities."""
        return self.crf.predict_kbest(tokens, k=k, rules=rules)


class OpenedRuled(OpenedChain):
    """A :class:`RuledCRF`: a chain, and rules with learned weights."""

    kind = "chain with learned rules"

    @property
    def chain(self) -> Any:
        """The chain without its rules."""
        return self.crf.estimator_


class OpenedSegments(OpenedChain):
    """A :class:`SegmentCRF`."""

    kind = "segments"

    @property
    def chain(self) -> Any:
        """Nothing: segments are no chain."""
        return None

    def probabilities(self, tokens: list[Any], predicted: list[Any], rules: Sequence[Any] | None) -> list[Any]:
        """Probability, under the rules, that each token lies in a segment of the predicted type."""
        place = {kind: i for i, kind in enumerate(self.crf.classes_)}
        if getattr(self.crf, "estimator_", self.crf).scheme is not None:
            types = {label: label if label == OUTSIDE else label.split("-", 1)[1] for y in predicted for label in y}
            place = {label: place[kind] for label, kind in types.items()}
        return _picked(self.crf.predict_marginals(tokens, rules=rules, output="array"), predicted, place)

    def kbest(self, tokens: list[Any], k: int, rules: Sequence[Any] | None) -> list[list[tuple[list[Any], float]]]:
        """Return the labels of the k best segmentations of each sequence, under the rules, with their probabilities."""
        return self.crf.predict_kbest(tokens, rules=rules, k=k)


class OpenedRuledSegments(OpenedSegments):
    """A :class:`RuledCRF` of segments."""

    kind = "segments with learned rules"


class OpenedJoint(OpenedChain):
    """A :class:`JointCRF`: labels are a dict of task to labels for each sequence."""

    kind = "joint"

    @property
    def chain(self) -> Any:
        """Nothing: each task is a chain of its own."""
        return None

    def predict(self, tokens: list[Any], rules: Sequence[Any] | None = None) -> list[Any]:
        """Best labels of each task of each sequence; ``rules`` take the place of the model's own."""
        return list(self.crf.predict(words(tokens), rules=rules))

    def probabilities(self, tokens: list[Any], predicted: list[Any], rules: Sequence[Any] | None) -> list[Any]:
        """Probabilities of the predicted labels, by task, under the rules that chose them."""
        tables = self.crf.predict_marginals(words(tokens), rules=rules)
        found = {}
        for task, labels in self.crf.classes_.items():
            place = {label: i for i, label in enumerate(labels)}
            found[task] = _picked([t[task] for t in tables], [y[task] for y in predicted], place)
        return [{task: rows[i] for task, rows in found.items()} for i in range(len(predicted))]

    def kbest(self, tokens: list[Any], k: int, rules: Sequence[Any] | None) -> list[list[tuple[Any, float]]]:
        """Return the k best joint labelings of each sequence, under the rules, with their probabilities."""
        return self.crf.predict_kbest(words(tokens), k=k, rules=rules)


_KINDS = {"ChainCRF": OpenedChain, "RuledCRF": OpenedRuled, "SegmentCRF": OpenedSegments, "JointCRF": OpenedJoint}


def open_model(path: str, jobs: int = 1) -> OpenedChain:
    """Read a model file that labels sequences, whatever its kind; threads as asked for."""
    from rulefield.estimators.files import load

    crf = load(path)
    if type(crf).__name__ == "TextParser":
        crf = crf.model_  # what labels the tokens; `rulefield parse` begins with texts
    name = type(crf).__name__
    if name == "DocumentTagger":
        raise InputError(
            f"{path!r} labels pages: rulefield predict takes it with files of PAGE XML, ALTO, hOCR, JSON of boxes or PDF."
        )
    if name not in _KINDS:
        raise InputError(f"the commands label sequences, but {path!r} holds a {name}; use it from Python.")
    if name == "RuledCRF" and crf.estimator_._kind == "segments":
        return OpenedRuledSegments(crf, jobs)
    return _KINDS[name](crf, jobs)


def words(tokens: list[Any]) -> list[Any]:
    """Take the word of each token that has columns: joint models read nothing else of a row."""
    return [[token[0] if isinstance(token, tuple) else token for token in sequence] for sequence in tokens]


def _picked(tables: Sequence[np.ndarray], labels: list[Any], place: dict[Any, int]) -> list[list[float]]:
    """Probability of each label in rows of probabilities."""
    return [
        [round(float(row[place[label]]), 6) for row, label in zip(table, sequence)]
        for table, sequence in zip(tables, labels)
    ]
