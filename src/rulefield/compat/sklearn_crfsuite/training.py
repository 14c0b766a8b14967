"""Training as CRFsuite's two algorithms that maximize the likelihood do, by rulefield's learners."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.crfsuite import CrfsuiteChain
from rulefield.encode.features import FeatureEncoder
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.parameters import FLAG, Requirement, check_value, either, number, one_of, whole
from rulefield.estimators.sequences import label_lists
from rulefield.exceptions import InputError
from rulefield.learning.chain.likelihood import ChainLikelihood, fit_likelihood
from rulefield.learning.chain.stochastic import StochasticLikelihood
from rulefield.learning.fit_log import FitRecord, FitResult, run_passes
from rulefield.metrics import sequence_accuracy, token_accuracy, token_f1, token_precision, token_recall
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable

NO_LIMIT = 2**31 - 1
PORTION = 1000  # sequences that are encoded at a time
COMMON = {"min_freq": 0.0, "all_possible_states": False, "all_possible_transitions": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "lbfgs": {
        "c1": 0.0, "c2": 1.0, "max_iterations": NO_LIMIT, "num_memories": 6, "epsilon": 1e-5, "period": 10,
        "delta": 1e-5, "linesearch": "MoreThuente", "max_linesearch": 20,
    },
    "l2sgd": {
        "c2": 1.0, "max_iterations": 1000, "period": 10, "delta": 1e-6, "calibration_eta": 0.1, "calibration_rate": 2.0,
        "calibration_samples": 1000, "calibration_candidates": 10, "calibration_max_trials": 20,
    },
}  # fmt: skip
"""Parameters that each algorithm has, with CRFsuite's defaults."""
ONLINE = ("ap", "pa", "arow")
"""Algorithms of CRFsuite that are refused with a sentence."""
ONLINE_PARAMETERS = ("pa_type", "c", "error_sensitive", "averaging", "variance", "gamma")
"""Parameters of these algorithms, refused likewise."""
SWITCH = Requirement("0 or 1", lambda value: value in (0, 1))
KINDS = {
    **dict.fromkeys(("min_freq", "c1", "c2", "epsilon", "delta"), number()),
    **dict.fromkeys(("calibration_eta", "calibration_rate"), number(above=True)),
    **dict.fromkeys(("max_iterations", "num_memories", "period", "max_linesearch"), whole(1)),
    **dict.fromkeys(("calibration_samples", "calibration_candidates", "calibration_max_trials"), number(above=True)),
    **dict.fromkeys(("all_possible_states", "all_possible_transitions"), either(FLAG, SWITCH)),
    "linesearch": one_of("MoreThuente", "Backtracking", "StrongBacktracking"),
}


def options_of(algorithm: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return CRFsuite's defaults with what the user gives; a parameter of another algorithm is an error, as there."""
    if algorithm in ONLINE:
        raise InputError(
            f"algorithm={algorithm!r} is not offered; use 'lbfgs' (the default) or 'l2sgd', which maximize the likelihood."
        )
    check_value("algorithm", algorithm or "lbfgs", one_of(*DEFAULTS))
    known = COMMON | DEFAULTS[algorithm or "lbfgs"]
    for name, value in given.items():
        if name not in known:
            having = (
                " and ".join(repr(a) for a, own in DEFAULTS.items() if name in own) or "learners not offered here"
            )
            raise InputError(f"algorithm={algorithm or 'lbfgs'!r} has no parameter {name}; it belongs to {having}.")
        check_value(name, value, KINDS[name])
    return known | given


@dataclass
class TrainingLog:
    """What happened in training, as ``pycrfsuite.Trainer.logparser`` tells it.

    Parameters
    ----------
    featgen_num_features : int
        Weights before those that are zero were dropped.
    iterations : list of dict
        ``num``, ``loss``, ``time`` (seconds), ``feature_norm``, ``active_features``; with held-out data also
        ``avg_precision``, ``avg_recall``, ``avg_f1`` (means over labels), ``item_accuracy_float`` and
        ``instance_accuracy_float``.
    """

    featgen_num_features: int
    iterations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last of them."""
        return self.iterations[-1] if self.iterations else None


def line_of(iteration: dict[str, Any]) -> str:
    """One iteration as the line that sklearn-crfsuite prints."""
    parts = ["Iter {num:<3} ", "time={time:<5.2f} ", "loss={loss:<8.2f} ", "active={active_features:<5} "]
    if "avg_f1" in iteration:
        parts += ["precision={avg_precision:0.3f}  ", "recall={avg_recall:0.3f}  ", "F1={avg_f1:0.3f}  "]
        parts += ["Acc(item/seq)={item_accuracy_float:0.3f} {instance_accuracy_float:0.3f}  "]
    return "".join([*parts, "feature_norm={feature_norm:<8.2f}"]).format(**iteration).strip()


class Trainer:
    """One training: data, structure, and the learner that the algorithm names.

    Parameters
    ----------
    X : list of sequences of feature dicts or of lists of strings
    y : list of sequences of strings
    options : dict
        See :func:`options_of`.
    """

    def __init__(self, X: list[Any], y: list[list[str]], options: dict[str, Any]):
        self.options = options
        self.encoder = FeatureEncoder.from_names([])
        portions = (X[i : i + PORTION] for i in range(0, len(X), PORTION))
        shapes = self.encoder.joined(
            [
                self.encoder.read([[_counted(item) for item in items] for items in part], grow=True)
                for part in portions
            ]
        )
        self.data = self.encoder.transform(X)
        self.names = LabelEncoder().set_classes(_in_order_of_appearance(y))
        self.labels = self.names.encode(y, self.data.lengths)
        self.model = ChainModel.build(
            shapes,
            self.labels,
            all_states=options["all_possible_states"],
            all_transitions=options["all_possible_transitions"],
            start_end=False,
        )
        if options["min_freq"] > 0:
            seen = self.model.joint_features(self.data, self.labels.ids)
            self.model = _with_weights(self.model, seen >= options["min_freq"])
        self.log = TrainingLog(self.model.size)

    def train(self, algorithm: str, dev: tuple[Any, Any] | None, show: Callable[[str], None] | None) -> CrfsuiteChain:
        """Learn; ``show`` is given one line per iteration."""
        held_out = None if dev is None else (self.encoder.transform(dev[0]), [list(labels) for labels in dev[1]])

        def watch(record: FitRecord, theta: np.ndarray) -> None:
            before = sum(r["time"] for r in self.log.iterations)
            self.log.iterations.append(
                {
                    "num": record.iteration,
                    "loss": record.objective,
                    "time": record.seconds - before,
                    "feature_norm": float(np.linalg.norm(theta)),
                    "active_features": int(np.count_nonzero(theta)),
                    **({} if held_out is None else self._scores(theta, *held_out)),
                }
            )
            if show is not None:
                show(line_of(self.log.iterations[-1]))

        done = self._minimized(watch) if algorithm == "lbfgs" else self._walked(watch)
        return self._weights(done.theta)

    def _minimized(self, watch: Any) -> FitResult:
        o = self.options
        objective = ChainLikelihood(self.model, self.data, self.labels, l2=2 * o["c2"])
        how = {"max_iter": o["max_iterations"], "tol": o["delta"], "gtol": o["epsilon"], "memory": o["num_memories"]}
        return fit_likelihood(objective, l1=o["c1"], callback=watch, **how)

    def _walked(self, watch: Any) -> FitResult:
        o = self.options
        walk = StochasticLikelihood(ChainLikelihood(self.model, self.data, self.labels, l2=2 * o["c2"]))
        return run_passes(walk, o["max_iterations"], o["delta"], watch, fixed=True)

    def _scores(self, theta: np.ndarray, data: Sequences, y: list[list[str]]) -> dict[str, float]:
        ids = ChainDecoder(self.model, theta, 1).best(data)
        found = label_lists(self.names, ids, data.lengths)
        return {
            "avg_precision": token_precision(y, found),
            "avg_recall": token_recall(y, found),
            "avg_f1": token_f1(y, found),
            "item_accuracy_float": token_accuracy(y, found),
            "instance_accuracy_float": sequence_accuracy(y, found),
        }

    def _weights(self, theta: np.ndarray) -> CrfsuiteChain:
        model, m = self.model, self.model.n_labels
        counts: np.ndarray = np.diff(model.pairs.ptr).astype(np.int64)
        transitions = np.zeros((m, m))
        transitions[model.transition_from, model.transition_to] = model.layout.transition(theta)
        return CrfsuiteChain(
            [str(label) for label in self.names.classes_],
            self.encoder.names,
            np.repeat(np.arange(len(counts)), counts),
            model.pairs.label.astype(np.int64),
            model.layout.state(theta).copy(),
            transitions,
        ).without_zeros()


def _counted(item: Any) -> Any:
    """Return an item with ones for zeros: in CRFsuite a feature that is there, even if it is False, gets its weight."""
    if not isinstance(item, Mapping):
        return item
    values = item.values()
    if False not in values and dict not in map(type, values):  # False equals 0 and 0.0
        return item
    return {key: _counted_value(value) for key, value in item.items()}


def _counted_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _counted(value)
    return True if isinstance(value, (Real, np.bool_)) and value == 0 else value


def _with_weights(model: ChainModel, keep: np.ndarray) -> ChainModel:
    """Return the model with those weights only for which ``keep`` (size,) is true."""
    state, step = model.layout.state(keep), model.layout.transition(keep)
    pairs = model.pairs
    counts: np.ndarray = np.diff(pairs.ptr).astype(np.int64)
    kept = np.bincount(np.repeat(np.arange(len(counts)), counts)[state], minlength=len(counts))
    ptr = np.concatenate([[0], np.cumsum(kept)]).astype(np.uint64)
    return replace(
        model,
        pairs=PairTable(ptr, pairs.label[state], pairs.n_labels),
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
