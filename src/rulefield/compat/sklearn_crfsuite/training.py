"""Training on CRFsuite's features with CRFsuite's penalties and defaults, by rulefield's L-BFGS."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from rulefield.encode.crfsuite import CrfsuiteChain
from rulefield.encode.features import FeatureEncoder
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.parameters import FLAG, Requirement, check_value, either, number, one_of, whole
from rulefield.exceptions import InputError
from rulefield.learning.chain.likelihood import ChainLikelihood, fit_likelihood
from rulefield.learning.fit_log import FitRecord
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable

PORTION = 1000  # sequences that are encoded at a time
DEFAULTS: dict[str, Any] = {
    "algorithm": "lbfgs", "min_freq": 0.0, "all_possible_states": False, "all_possible_transitions": False, "c1": 0.0,
    "c2": 1.0, "max_iterations": 2**31 - 1, "num_memories": 6, "epsilon": 1e-5, "delta": 1e-5,
}  # fmt: skip
"""CRFsuite's defaults of the parameters that have an effect here."""
_FLAG = either(FLAG, Requirement("0 or 1", lambda value: value in (0, 1)))
_REQUIREMENTS = {
    **dict.fromkeys(DEFAULTS, number()),
    "algorithm": one_of("lbfgs", "l2sgd"),
    "all_possible_states": _FLAG,
    "all_possible_transitions": _FLAG,
    "max_iterations": whole(1),
    "num_memories": whole(1),
}


@dataclass
class TrainingLog:
    """What happened in training.

    Parameters
    ----------
    featgen_num_features : int
        Weights before those that are zero were dropped.
    iterations : list of dict
        ``num``, ``loss``, ``time`` (seconds), ``feature_norm``, ``active_features``; the last with held-out data also
        ``avg_f1`` (mean over labels), ``item_accuracy_float`` and ``instance_accuracy_float``.
    """

    featgen_num_features: int
    iterations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last of them."""
        return self.iterations[-1] if self.iterations else None


class Trainer:
    """One training: the data as CRFsuite reads them, and the weights that they give reason for.

    Parameters
    ----------
    X : list of sequences of feature dicts or of lists of strings
    y : list of sequences of strings
    options : dict
        Parameters of training; those that are None have CRFsuite's default.
    """

    def __init__(self, X: list[Any], y: list[list[str]], options: dict[str, Any]):
        self.options = DEFAULTS | {name: value for name, value in options.items() if value is not None}
        for name, value in self.options.items():
            check_value(name, value, _REQUIREMENTS[name])
        self.encoder = FeatureEncoder()
        portions = [X[i : i + PORTION] for i in range(0, len(X), PORTION)]
        parts = [
            self.encoder.read([[_nonzero(item) for item in row] for row in part], grow=True) for part in portions
        ]
        shapes = self.encoder.joined(parts)
        self.data = self.encoder.transform(X)
        self.names = LabelEncoder().set_classes(_in_order_of_appearance(y))
        self.labels = self.names.encode(y, self.data.lengths)
        self.model = ChainModel.build(
            shapes,
            self.labels,
            all_states=self.options["all_possible_states"],
            all_transitions=self.options["all_possible_transitions"],
            start_end=False,
        )
        if self.options["min_freq"] > 0:
            seen = self.model.joint_features(self.data, self.labels.ids)
            self.model = _with_weights(self.model, seen >= self.options["min_freq"])
        self.log = TrainingLog(self.model.size)

    def train(self, show: Callable[[str], None] | None) -> CrfsuiteChain:
        """Learn; ``show`` gets one line per iteration."""

        def watch(record: FitRecord, theta: np.ndarray) -> None:
            iteration = {
                "num": record.iteration,
                "loss": record.objective,
                "time": record.seconds - sum(r["time"] for r in self.log.iterations),
                "feature_norm": float(np.linalg.norm(theta)),
                "active_features": int(np.count_nonzero(theta)),
            }
            self.log.iterations.append(iteration)
            if show is not None:
                values = [f"{k}={v}" if isinstance(v, int) else f"{k}={v:.3f}" for k, v in iteration.items()]
                show(f"Iter {'  '.join(values)}")

        done = fit_likelihood(
            ChainLikelihood(self.model, self.data, self.labels, l2=2 * self.options["c2"]),
            l1=self.options["c1"],
            max_iter=self.options["max_iterations"],
            tol=self.options["delta"],
            gtol=self.options["epsilon"],
            memory=self.options["num_memories"],
            callback=watch,
        )
        return self._weights(done.theta)

    def _weights(self, theta: np.ndarray) -> CrfsuiteChain:
        model, m = self.model, self.model.n_labels
        transitions = np.zeros((m, m))
        transitions[model.transition_from, model.transition_to] = model.layout.transition(theta)
        return CrfsuiteChain(
            [str(label) for label in self.names.classes_],
            self.encoder.names,
            _owners(model.pairs),
            model.pairs.label.astype(np.int64),
            model.layout.state(theta).copy(),
            transitions,
        ).without_zeros()


def _owners(pairs: PairTable) -> np.ndarray:
    """Return the feature of each pair."""
    counts = np.diff(pairs.ptr).astype(np.int64)
    return np.repeat(np.arange(len(counts)), counts)


def _nonzero(item: Any) -> Any:
    """Return an item with ones for zeros: in CRFsuite a feature that is there, even if it is False, gets its weight."""
    if isinstance(item, Mapping):
        values = item.values()
        if False not in values and dict not in map(type, values):  # False equals 0 and 0.0
            return item
        return {key: _nonzero(value) for key, value in item.items()}
    return True if isinstance(item, (Real, np.bool_)) and item == 0 else item


def _with_weights(model: ChainModel, keep: np.ndarray) -> ChainModel:
    """Return the model with those weights only for which ``keep`` (size,) is true."""
    state, step = model.layout.state(keep), model.layout.transition(keep)
    kept = np.bincount(_owners(model.pairs)[state], minlength=len(model.pairs.ptr) - 1)
    ptr = np.concatenate([[0], np.cumsum(kept)]).astype(np.uint64)
    return replace(
        model,
        pairs=PairTable(ptr, model.pairs.label[state], model.pairs.n_labels),
        transition_from=model.transition_from[step],
        transition_to=model.transition_to[step],
    )


def _in_order_of_appearance(y: list[list[str]]) -> list[str]:
    """Return the labels as CRFsuite numbers them; ties between labels go to the first."""
    seen = dict.fromkeys(label for labels in y for label in labels)
    for label in seen:
        if not isinstance(label, str):
            raise InputError(
                f"labels must be strings, as in sklearn-crfsuite; got {label!r}. rf.ChainCRF takes others."
            )
    return list(seen)
