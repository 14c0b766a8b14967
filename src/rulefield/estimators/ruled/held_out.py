"""Held-out potentials to learn rules from: each sequence's by a chain that has not seen it."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.inputs import as_list, tokens_of
from rulefield.estimators.ruled.families import ChainFamily, Inner, SegmentFamily, family_of
from rulefield.estimators.types import LabelsLike, SequencesLike
from rulefield.exceptions import InputError, InterruptedFitWarning, callers_level
from rulefield.learning.rule_weights.lists import Example, Lists, MeasuredLists
from rulefield.learning.rule_weights.path import PathData, PathSettings
from rulefield.rules.chain.compiler import RuleCompiler
from rulefield.rules.rule import LEARN, Rule

FOLDS, FEW_FOLDS, MANY_SEQUENCES = 5, 3, 1000


@dataclass(frozen=True)
class CrossFitted:
    """A chain fitted on some sequences, and each one's potentials by a chain that has not seen it."""

    crf: Inner
    examples: list[Example]
    interrupted: bool = False

    @cached_property
    def family(self) -> ChainFamily | SegmentFamily:
        """How the model reads labels."""
        return family_of(self.crf)

    @cached_property
    def lists(self) -> Lists:
        """The most probable labelings of each sequence: what rules are weighed on, made once."""
        return Lists.best(self.examples, table=self.family.segments, n_jobs=self.crf.n_jobs)

    def measured(self, rules: Sequence[Rule], lists: Lists) -> MeasuredLists:
        """Measure lists of labelings under rules."""
        return MeasuredLists.of(lists, RuleCompiler(rules, self.family.table), self.crf.n_jobs)

    def weights_of(self, rules: Sequence[Rule]) -> np.ndarray:
        """Weights of found rules, each beyond what those taken before it say; 0 if one is worth next to nothing."""
        measured = self.measured([rule.soft(LEARN, per=rule.per) for rule in rules], self.lists)
        none, free = np.zeros(0, dtype=np.int64), np.ones(len(rules), dtype=bool)
        return PathData(measured).follow(none, np.zeros(len(rules)), free, PathSettings()).weights[-1]


def cross_fit(
    crf: Inner,
    X: SequencesLike,
    y: LabelsLike,
    cv: int | None = None,
    random_state: int = 0,
    held_out: tuple[SequencesLike, LabelsLike] | None = None,
) -> CrossFitted:
    """Fit a chain on everything and on ``cv`` folds, once; several :class:`RuledCRF` can then share the work.

    By default there are five folds; from a thousand sequences on three, in half the time of five: a chain of two thirds of so
    many is nearly as good, and all sequences are held out in any case.

    ``held_out`` (X, y) are further sequences to learn rules from: the chain is not fitted on them. Features are made once and
    shared by the folds, whose weights are those of features that they saw. Folds begin from 0 and end early. The chain of all
    sequences would be a nearer start, but it has seen what they must not know, and a fit that ends early remembers it: on
    Cora held-out sequences were then up to 15 % more likely than they are.
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold

    X, gold = as_list(X), [list(row) for row in y]
    folds = cv or default_folds(len(gold))
    if gold and not 2 <= folds <= len(gold):
        raise InputError(
            f"{folds} folds need as many sequences, and two at least; there {'is' if len(gold) == 1 else 'are'} "
            f"{len(gold)}. Label more, or give a fitted chain, cv='prefit' and sequences that it has not seen."
        )
    base, warned = _fitted(crf, X, gold)
    if any(issubclass(warning.category, InterruptedFitWarning) for warning in warned):
        return CrossFitted(base, [], interrupted=True)
    for warning in warned:
        warnings.warn(warning.message, warning.category, stacklevel=callers_level())
    family = family_of(base)
    shared = base._encoder.transform(X) if family.can_share_features() else None
    plain = clone(crf).set_params(**family.fold_parameters())
    if shared is not None:
        plain.set_params(features=None)
    splits = KFold(folds, shuffle=True, random_state=random_state).split(np.arange(len(gold)))
    rows: list[Example] = []
    try:
        for train, test in splits:
            fold, warned = _fitted(plain, picked(X if shared is None else shared, train), [gold[i] for i in train])
            if any(issubclass(warning.category, InterruptedFitWarning) for warning in warned):
                raise KeyboardInterrupt  # other warnings of a fold are those of the base
            data = None if shared is None else shared[test]
            rows += held_out_examples(fold, picked(X, test), [gold[i] for i in test], base, data)
    except KeyboardInterrupt:
        return CrossFitted(base, [], interrupted=True)
    if held_out is not None:
        rows += held_out_examples(base, as_list(held_out[0]), [list(row) for row in held_out[1]])
    return CrossFitted(base, rows)


def default_folds(n: int) -> int:
    """Folds of ``n`` sequences."""
    return FEW_FOLDS if n >= MANY_SEQUENCES else max(2, min(FOLDS, n))


def _fitted(crf: Inner, X: SequencesLike, y: list[list[Any]]) -> tuple[Inner, list[warnings.WarningMessage]]:
    """Return a fitted copy of a chain, and what its fit warned of."""
    from sklearn.base import clone

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return clone(crf).fit(X, y), warned


def picked(X: SequencesLike, rows: np.ndarray) -> SequencesLike:
    """Return some of the sequences."""
    if isinstance(X, Sequences | np.ndarray):
        return X[rows]
    return [as_list(X)[i] for i in rows]


def held_out_examples(
    crf: Inner, X: SequencesLike, y: LabelsLike, base: Inner | None = None, data: Sequences | None = None
) -> list[Example]:
    """Held-out potentials of a model; over the labels of ``base`` if a fold has not seen them all. ``data`` is X, encoded."""
    family = family_of(crf if base is None else base)
    every = family.potentials(crf, crf._encode(X if data is None else data).data)
    unknown = [next(iter(family.unknown(gold)), None) for gold in y]
    left_out = [label for label in unknown if label is not None]
    if left_out:
        _warn(
            f"{len(left_out)} held-out sequences have labels that the model was not trained on, such as {left_out[0]!r}; "
            "they are left out."
        )
    out, impossible = [], []
    for i, (gold, potentials) in enumerate(zip(y, every)):
        if unknown[i] is not None:
            continue
        labels = family.encode(list(gold))
        if labels is not None:
            example = Example(tokens_of(X, i), potentials, labels, family.spelling, family.word_of)
            if example.score(labels) > -np.inf:  # else no weight of a rule could make it the best
                out.append(example)
                continue
        impossible.append(i)
    if impossible:
        _warn(
            f"{len(impossible)} held-out sequences have labels that {family.forbidden_by}, the first is {impossible[0]}; "
            "they are left out (rulefield.encode.spans.convert repairs labels)."
        )
    return out


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=callers_level())


def warn_of_training_data(held: CrossFitted) -> None:
    """Say so where a fitted chain makes no mistake: it has probably seen these sequences, and rules learn from mistakes."""
    lists = held.lists
    if len(held.examples) and all(
        np.array_equal(lists.labelings[j], example.gold) for j, example in zip(lists.first, held.examples)
    ):
        _warn(
            f"the fitted model makes no mistake on these {len(held.examples)} sequences, so rules have nothing to learn; "
            "if it was trained on them, leave cv='prefit' out: the model is then fitted on folds."
        )
