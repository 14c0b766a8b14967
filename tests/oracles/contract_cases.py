"""The estimators that keep the contract, each with tiny data, a rule that changes its answers, and known labels."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.encode.graph_builders import chain as chain_graph

N = 12


@dataclass(frozen=True)
class Case:
    """One estimator of the contract.

    Parameters
    ----------
    cls : the estimator
    params : what it is made with here
    data : X and y
    rule : a hard rule that forbids a label the model predicts
    conflict : hard rules that contradict each other
    other : parameters other than the default, all to be found again in a file
    grid : parameters for grid search
    weighted : whether ``fit`` takes ``sample_weight``
    stop : parameters with which the iterations run out
    calm : parameters with which they do not
    most : how many constructor parameters are allowed
    inner : what stands before the names of a learner's parameters, where another estimator learns
    inside : the class of the estimator inside, if a case of the same class has another one
    """

    cls: type
    data: Callable[[], tuple[Any, Any]]
    params: dict[str, Any] = field(default_factory=dict)
    rule: Callable[[], Any] | None = None
    conflict: Callable[[], list[Any]] | None = None
    other: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    weighted: bool = True
    stop: dict[str, Any] = field(default_factory=lambda: {"max_iter": 1, "tol": 0.0})
    calm: dict[str, Any] = field(default_factory=lambda: {"max_iter": 2000})
    most: int = 18
    inner: str = ""
    inside: str = ""

    @property
    def name(self):
        return self.cls.__name__ + (f"({self.inside})" if self.inside else "")

    def make(self, **params):
        return self.cls(**{**deepcopy(self.params), **params})

    def known(self, y):
        """Labels of which the first of the first item is known to be what ``y`` says; nothing of the others."""
        return [_first_known(y[0])] + [None] * (len(y) - 1)


def _first_known(labels):
    if isinstance(labels, dict):
        first, *rest = labels
        return {first: _first_known(labels[first])} | dict.fromkeys(rest)
    values = list(labels)
    return [values[0]] + [None] * (len(values) - 1)


def picked(rows, which):
    return rows[np.asarray(which)] if isinstance(rows, np.ndarray) else [rows[i] for i in which]


@cache
def sequences(scheme=True):
    """Names and years in a sea of other words: learnable, with some noise."""
    rng = np.random.default_rng(0)
    words = {"O": ["the", "of", "in", "a"], "name": ["Ada", "Alan", "Emmy"], "year": ["1815", "1912", "1882"]}
    X, y = [], []
    for _ in range(N):
        tokens, labels = [], []
        for kind in ["O", "name", "O", "year"][: rng.integers(2, 5)]:
            for k in range(int(rng.integers(1, 3))):
                source = kind if rng.random() > 0.1 else "O"
                tokens.append(str(rng.choice(words[source])))
                labels.append("O" if kind == "O" else f"{'B' if k == 0 else 'I'}-{kind}")
        X.append(tokens)
        y.append(labels)
    return X, y


@cache
def tasks():
    X, y = sequences()
    return X, [{"ner": row, "year": ["yes" if "year" in label else "no" for label in row]} for row in y]


@cache
def graphs():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(N):
        labels = rng.integers(2, size=int(rng.integers(2, 5)))
        features = np.hstack([np.eye(2)[labels] + 0.3 * rng.normal(size=(len(labels), 2)), np.ones((len(labels), 1))])
        X.append(chain_graph(features))
        y.append([["left", "right"][k] for k in labels])
    return X, y


@cache
def pages():
    """Columns of lines, cut by rules into cells: the first line of a cell is its head."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(N):
        boxes, labels, rulings, at = [], [], [], 0.0
        for _ in range(int(rng.integers(2, 4))):
            rulings.append([0, at + 1, 100, at + 2])
            for k in range(int(rng.integers(1, 4))):
                at += 20.0
                boxes.append([5 + rng.random(), at - 15, 60 + 30 * rng.random(), at])
                labels.append("head" if k == 0 else "text")
        X.append(rf.formats.Page(boxes, separators=rulings))
        y.append(labels)
    return X, y


@cache
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = (X @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(40, 3)) > 0).astype(int)
    return X, Y


@cache
def values():
    X, _ = table()
    rng = np.random.default_rng(1)
    return X, X @ rng.normal(size=(3, 2)) + 0.3 * rng.normal(size=(40, 2))


@cache
def texts():
    """The same names and years as texts with spans of characters."""
    X, y = [], []
    for tokens, labels in zip(*sequences()):
        text, spans = "", []
        for token, label in zip(tokens, labels):
            text += " " * bool(text)
            if label[0] == "I":
                spans[-1] = (spans[-1][0], len(text) + len(token), spans[-1][2])
            elif label[0] == "B":
                spans.append((len(text), len(text) + len(token), label[2:]))
            text += token
        X.append(text)
        y.append(spans)
    return X, y


def absent(*pattern, **task):
    return lambda: r.absent(*pattern, **task)


def contradiction(pattern, **task):
    return lambda: [r.absent(pattern, **task).named("none"), r.present(pattern, **task).named("some")]


def no_node(kind, label):
    return lambda: r.at_most(0, r.nodes(kind).is_(label))


def node_contradiction(kind, label):
    return lambda: [
        r.at_most(0, r.nodes(kind).is_(label)).named("none"),
        r.at_least(1, r.nodes(kind).is_(label)).named("some"),
    ]


CASES = [
    Case(
        rf.ChainCRF,
        sequences,
        {"scheme": "BIO", "l2": 0.1, "max_iter": 60},
        absent("name"),
        contradiction("name"),
        {"l1": 0.01, "features": rf.TokenFeatures(window=1), "start_end": False, "random_state": 3, "n_jobs": 2,
         "initial_label": "O", "on_infeasible": "relax", "max_iter": 25},
        {"l2": [0.1, 1.0], "start_end": [True, False]},
        most=24,
    ),
    Case(
        rf.RuledCRF,
        sequences,
        {"estimator": rf.ChainCRF(scheme="BIO", l2=0.1), "cv": 2},
        absent("name"),
        contradiction("name"),
        {"rules": [r.absent("name").soft("learn"), r.present("year").soft(0.5)],
         "max_rules": 3, "random_state": 3, "n_jobs": 2},
        {"estimator__l2": [0.1, 1.0]},
        weighted=False,
        stop={"estimator__max_iter": 1},
        calm={},
    ),
    Case(
        rf.RuledCRF,
        sequences,
        {"estimator": rf.SegmentCRF(scheme="BIO", l2=0.1, max_iter=60), "cv": 2},
        absent("name"),
        contradiction("name"),
        {"rules": [r.absent("name").soft("auto"), r.present("year").soft(0.5)], "max_rules": 3, "n_jobs": 2},
        {"estimator__l2": [0.1, 1.0]},
        weighted=False,
        stop={"estimator__max_iter": 1},
        calm={},
        inside="SegmentCRF",
    ),
    Case(
        rf.SegmentCRF,
        sequences,
        {"scheme": "BIO", "l2": 0.1, "max_iter": 60},
        absent("name"),
        contradiction("name"),
        {"l1": 0.01, "lexicons": {"names": {"Ada", "Alan"}}, "max_length": 3, "n_jobs": 2, "max_iter": 25},
        {"l2": [0.1, 1.0]},
    ),
    Case(
        rf.JointCRF,
        tasks,
        {"scheme": {"ner": "BIO"}, "l2": 0.1},
        absent("name", task="ner"),
        contradiction("name", task="ner"),
        {"tasks": ["year", "ner"], "start_end": False, "n_jobs": 2, "max_iter": 5,
         "expectations": [r.share(year="yes").between(0.1, 0.5)]},
        {"l2": [0.1, 1.0]},
    ),
    Case(
        rf.GraphCRF,
        graphs,
        {"l2": 0.1, "max_iter": 100},
        no_node("token", "left"),
        node_contradiction("token", "left"),
        {"algorithm": "ssvm", "random_state": 3, "n_jobs": 2, "max_iter": 25},
        {"l2": [0.1, 1.0]},
    ),
    Case(
        rf.MultiLabelCRF,
        table,
        {"l2": 0.1},
        no_node("label", 1),
        node_contradiction("label", 1),
        {"structure": "full", "n_jobs": 2, "max_iter": 50},
        {"l2": [0.1, 1.0]},
    ),
    Case(
        rf.GaussianCRFClassifier,
        table,
        {"max_iter": 200},
        no_node("label", 1),
        node_contradiction("label", 1),
        {"mean": "smoothed", "l2": 0.5, "random_state": 3, "n_jobs": 2},
        {"l2": [0.1, 1.0]},
    ),
    Case(
        rf.GaussianCRFRegressor,
        values,
        {"max_iter": 200},
        None,
        None,
        {"mean": "smoothed", "l2": 0.5, "random_state": 3, "n_jobs": 2},
        {"l2": [0.1, 1.0]},
    ),
]  # fmt: skip

PARSER = Case(
    rf.TextParser,
    texts,
    {"model": rf.ChainCRF(scheme="BIO", l2=0.1, max_iter=60)},
    absent("name"),
    contradiction("name"),
    {"model": rf.ChainCRF(scheme="BIOES", l2=0.5), "tokenizer": "whitespace", "on_cut": "snap"},
    {"model__l2": [0.1, 1.0]},
    stop={"model__max_iter": 1, "model__tol": 0.0},
    calm={"model": rf.ChainCRF(scheme="BIO", max_iter=2000)},
    inner="model__",
)
TAGGER = Case(
    rf.DocumentTagger,
    pages,
    {"model": rf.GraphCRF(l2=0.5, max_iter=100)},
    no_node("line", "head"),
    node_contradiction("line", "head"),
    {"model": rf.GraphCRF(algorithm="ssvm", max_iter=20), "separators": False},
    {"model__l2": [0.1, 1.0], "separators": [True, False]},
    stop={"model__max_iter": 1, "model__tol": 0.0},
    calm={"model": rf.GraphCRF(max_iter=2000)},
    inner="model__",
)
MADE_OF_OTHERS = [PARSER, TAGGER]
"""They keep the rows that are about parameters, files and scikit-learn; how they learn and decode is their model's."""
