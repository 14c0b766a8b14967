"""From candidates to rules with weights: pruned, measured in one pass, learned, judged on other folds, reported."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.encode.spans import SegmentTable
from rulefield.estimators.ruled.gains import Gain, gains, negligible
from rulefield.estimators.ruled.held_out import FOLDS, CrossFitted, default_folds
from rulefield.estimators.ruled.prices import LEAST_PRICE, measured, resolve
from rulefield.estimators.ruled.reports import RuleReport, effects_of, rule_reports
from rulefield.learning.fit_log import Ending, FitResult
from rulefield.learning.rule_weights.distances import WrongSpans
from rulefield.learning.rule_weights.learners import Examples, learn_margin, learn_perceptron
from rulefield.learning.rule_weights.likelihood import Likelihood, Penalty, learn_likelihood, most_likely
from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.learning.rule_weights.residual import expected_broken, shares_in
from rulefield.learning.rule_weights.together import clearly_better, in_errors
from rulefield.rules.finding.importance import importance_of
from rulefield.rules.rule import Rule

Finder = Callable[[np.ndarray], list[Rule]]
LEAST_FOR_GAINS = 10
PROVED = math.sqrt(2)
"""Sum of two gains in standard errors that is one standard error itself, were they independent (Stouffer)."""


@dataclass(frozen=True)
class Learner:
    """How weights are learned: options of RuledCRF under their names there."""

    algorithm: str
    learns: bool
    """Whether open weights are learned at all (the two-stage method takes prices as they are)."""
    cutoff: float
    max_iter: int
    rate: float
    l1: float
    l2: float
    only_helpful: bool
    seed: int
    n_jobs: int

    @property
    def takes_priors(self) -> bool:
        """Whether residual prices are where learning starts, not where it ends."""
        return self.learns and self.algorithm == "likelihood"


@dataclass(frozen=True)
class Weighed:
    """Rules with their weights, and how they came by them (attributes of RuledCRF under their names)."""

    rules: list[Rule]
    weights: np.ndarray
    """Of all candidates."""
    data: Examples
    report: list[RuleReport]
    gains: list[Gain]
    vetoed: bool
    n_kept: int
    result: FitResult


@dataclass(frozen=True)
class FoldGains:
    """What rules bring on sequences that they were neither found nor weighed on.

    Parameters
    ----------
    gains : list of Gain
        Empty where nothing was learned.
    mended : ndarray of int64, shape (n_sequences,)
        Tokens of each sequence that became right, less those that became wrong.
    likelier : ndarray, shape (n_changed,)
        Nats by which the labels of sequences became likelier (among those of the lists); empty for learners that do not know
        probabilities.
    """

    gains: list[Gain]
    mended: np.ndarray
    likelier: np.ndarray


def weigh(candidates: list[Rule], held: CrossFitted, how: Learner, find: Finder | None = None) -> Weighed:
    """Learn what candidates should cost, on held-out sequences.

    Candidates are first measured on gold labels and best predictions only; those that are important enough are measured once
    on all lists of likely labelings, where those that tell no labelings apart, or tell them apart as an earlier one does,
    go. Weights are then a matter of sparse products.

    Parameters
    ----------
    find : function of some members of ``held.examples``, giving rules, optional
        What found the candidates, where nobody wrote them. Gains are then those of rules found without the sequences that
        they are judged on, nobody is told of candidates that are not obeyed, and a veto takes all of them away. There is
        one where tokens lose more than a standard error; for found rules also where tokens and likelihood together gain less
        than one, or where they surely make no difference.
    """
    base = held.crf
    folds = _folds(len(held.examples), how)
    rules, sets = _with_those_of_folds(candidates, folds, find)
    resolved = resolve(rules, held.lists, base.classes_, base.scheme, how.takes_priors, found=find is not None)
    every = measured(resolved.rules, held.examples, base.classes_, base.scheme, how.n_jobs, held.executor)
    plain = _plain(every, held)
    broken, gold = (_counts(units) for units in (every.units(plain), every.gold))
    importance = importance_of(broken, gold)
    tried = np.flatnonzero(~every.learned | (resolved.prior > 0) | (importance >= how.cutoff))
    work = _Work(
        held, [resolved.rules[i] for i in tried], resolved.prior[tried], resolved.auto[tried], how, find is not None
    )
    main = work.chosen(np.isin(tried, sets[0]), work.prior)
    result = work.learned(main)
    judged = work.judged(plain, [(train, np.isin(tried, own)) for train, own in zip(folds, sets[1:])])
    n_wrong = sum(not np.array_equal(labels, example.gold) for labels, example in zip(plain, held.examples))
    vetoed = _vetoed(judged, n_wrong, find is not None)
    weights = np.zeros(len(rules))
    weights[tried[main]] = result.theta if not vetoed else work.prior[main] if find is None else 0.0
    weights = every.weights(weights)
    effects = np.zeros((len(rules), 3), dtype=np.int64)
    effects[tried[main]] = effects_of(work.alone.columns(main), weights[tried[main]])
    if how.only_helpful:
        weights = np.where(every.learned & (resolved.prior == 0) & (effects[:, 1] <= effects[:, 2]), 0.0, weights)
    report = rule_reports(
        resolved.rules[: len(candidates)], weights, importance, broken, gold, effects, resolved.expected
    )
    kept = [_priced(rule, weight) for rule, weight in zip(resolved.rules, weights) if weight > 0]
    n_kept = int((tried < len(candidates)).sum())
    return Weighed(kept, weights, every, report, judged.gains, vetoed, n_kept, result)


def _folds(n: int, how: Learner) -> list[np.ndarray]:
    """Sequences to learn from in each fold, the others being for judging gains; none where sequences are few."""
    if n < LEAST_FOR_GAINS or not how.learns:
        return []
    return folds_of(n, how.seed, None if how.algorithm == "likelihood" else 2)


def folds_of(n: int, seed: int, k: int | None = None) -> list[np.ndarray]:
    """Sequences to learn from in each of ``k`` folds; by default five, three where sequences are many."""
    k = k or min(FOLDS, default_folds(n))
    order = np.random.default_rng(seed).permutation(n)
    return [np.setdiff1d(order, order[fold::k]) for fold in range(k)]


def _with_those_of_folds(
    candidates: list[Rule], folds: list[np.ndarray], find: Finder | None
) -> tuple[list[Rule], list[np.ndarray]]:
    """Candidates and what else is found in folds, and the numbers of those of all sequences and of each fold."""
    rules, sets = list(candidates), [np.arange(len(candidates))]
    if find is None:
        return rules, sets * (1 + len(folds))
    number = {rule.text: i for i, rule in enumerate(rules)}
    for train in folds:
        own = []
        for rule in find(train):
            i = number.setdefault(rule.text, len(rules))
            if i == len(rules):
                rules.append(rule)
            own.append(i)
        sets.append(np.array(own, dtype=np.int64))
    return rules, sets


def _plain(data: Examples, held: CrossFitted) -> list[np.ndarray]:
    """Best labels where nothing is learned yet; rules with a price are paid."""
    none = np.zeros(len(data.learned))
    if data.weights(none).any():
        return data.best(range(len(data)), none)
    lists = held.lists
    return [lists.labelings[j] for j in lists.first]


def _vetoed(judged: FoldGains, n_wrong: int, found: bool) -> bool:
    """Whether learned weights are not used: a loss of tokens must exceed its standard error, so one sequence never decides.

    Found rules must make a difference, and prove themselves by the mended tokens and the likelihood of held-out labels
    together; what users wrote is asked for neither. The likelihood sees what rules do to every sequence, where most labels do
    not change. It tells data with an order to find (citations and addresses: more than 2 standard errors above 0 in 65 of 72
    fits of 50 and 100 sequences) from parts of speech, which know little of it (-3.1 to +.8 in 24).
    """
    if not judged.gains:
        return False
    if clearly_better(-judged.mended):
        return True
    unproved = judged.likelier.size > 0 and in_errors(judged.mended) + in_errors(judged.likelier) <= PROVED
    return found and (unproved or negligible(judged.gains, n_wrong))


def _counts(units: csr_matrix) -> np.ndarray:
    """Sequences that break each rule, (n_rules,)."""
    return np.bincount(units.indices, minlength=units.shape[1])


class _Work:
    """Rules that are tried, on lists of labelings."""

    def __init__(
        self, held: CrossFitted, rules: list[Rule], prior: np.ndarray, auto: np.ndarray, how: Learner, found: bool
    ):
        self._held, self._rules, self.how, self.prior, self._auto = held, rules, how, prior, auto
        self._least = LEAST_PRICE if found else 0.0
        self.table = SegmentTable([str(c) for c in held.crf.classes_], held.crf.scheme)
        self.distance = WrongSpans(self.table)
        self.data = self._measured(np.arange(len(rules)))
        self.alone = MeasuredLists.of(held.lists, self.data)
        self.lists = self.alone.paid(self.data, self.distance)

    def _measured(self, some: np.ndarray) -> Examples:
        base = self._held.crf
        rules = [self._rules[i] for i in some]
        return measured(rules, self._held.examples, base.classes_, base.scheme, self.how.n_jobs, self._held.executor)

    def chosen(self, among: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Numbers of the rules ``among`` these (a mask) that have a price, or say something of their own."""
        earning = among & self.data.learned & (prior == 0)
        return np.union1d(np.flatnonzero(among & ~earning), self.lists.distinct(np.flatnonzero(earning)))

    def learned(self, some: np.ndarray) -> FitResult:
        """Weights of some rules from all sequences."""
        data, how = self._measured(some), self.how
        if not data.learned.any():
            weights = data.weights(np.zeros(len(some)))
            return FitResult(weights, 0.0, Ending.converged, "No rule has a weight to learn.", ())
        if how.algorithm != "likelihood":
            return self._by_passes(data)
        options: dict[str, Any] = {"rounds": how.max_iter, "l1": how.l1, "l2": how.l2, "prior": self.prior[some]}
        return learn_likelihood(data, self.lists.columns(some), distance=self.distance, **options)

    def _by_passes(self, data: Examples) -> FitResult:
        how = self.how
        if how.algorithm == "perceptron":
            return learn_perceptron(data, epochs=how.max_iter, l1=how.l1, seed=how.seed, rate=how.rate)
        return learn_margin(data, epochs=how.max_iter, l1=how.l1, seed=how.seed, l2=how.l2)

    def judged(self, plain: list[np.ndarray], folds: list[tuple[np.ndarray, np.ndarray]]) -> FoldGains:
        """Judge the sequences outside of each fold by what its sequences say: candidates (masks), prices, weights.

        Answers are the best of the lists, so that nothing is decoded.
        """
        if not self.data.learned.any() or not folds:
            return FoldGains([], np.zeros(len(plain), dtype=np.int64), np.zeros(0))
        found, likelier = list(plain), [np.zeros(0)]
        for train, among in folds:
            test = np.setdiff1d(np.arange(len(plain)), train)
            part, weights = self.lists.some(test), self._fold_weights(train, among)
            for i, j in zip(test, part.best(weights)):
                found[i] = part.lists.labelings[j]
            if self.how.algorithm == "likelihood":
                loss = Likelihood(part)
                likelier.append(loss.losses(np.zeros(len(weights))) - loss.losses(weights))
        gold = [example.gold for example in self.data.examples]
        mended = [int((after == g).sum()) - int((before == g).sum()) for g, before, after in zip(gold, plain, found)]
        return FoldGains(
            gains(gold, plain, found, self.table), np.array(mended, dtype=np.int64), np.concatenate(likelier)
        )

    def _fold_weights(self, train: np.ndarray, among: np.ndarray) -> np.ndarray:
        prices = shares_in(self._broken[train], self.data.gold[train]).prices
        prior = np.where(self._auto & (prices >= self._least), prices, 0.0)
        some = self.chosen(among, prior)
        weights = np.zeros(len(among))
        if self.how.algorithm == "likelihood":
            penalty = Penalty.of(self.how.l1, self.how.l2, prior[some], self.data.learned[some])
            weights[some] = most_likely(self.lists.columns(some).some(train), penalty)[0]
        else:
            weights[some] = self._by_passes(self._measured(some).some(train)).theta
        return weights

    @cached_property
    def _broken(self) -> csr_matrix:
        return expected_broken(self.lists.lists, self.lists.units, self.lists.worth)


def _priced(rule: Rule, weight: float) -> Rule:
    return rule.hard() if np.isinf(weight) else rule.soft(float(weight), per=rule.per)
