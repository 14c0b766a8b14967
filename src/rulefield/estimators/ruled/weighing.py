"""From candidates to rules with weights: pruned, measured in one pass, learned, judged on other folds, reported."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.encode.spans import SegmentTable
from rulefield.estimators.ruled.gains import Gain, gains
from rulefield.estimators.ruled.held_out import CrossFitted
from rulefield.estimators.ruled.prices import measured, resolve
from rulefield.estimators.ruled.reports import RuleReport, effects_of, rule_reports
from rulefield.learning.fit_log import Ending, FitResult
from rulefield.learning.rule_weights.distances import WrongSpans
from rulefield.learning.rule_weights.learners import Examples, learn_margin, learn_perceptron
from rulefield.learning.rule_weights.likelihood import Penalty, learn_likelihood, most_likely
from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.learning.rule_weights.residual import expected_broken, shares_in
from rulefield.rules.finding.importance import importance_of
from rulefield.rules.rule import Rule

GAIN_FOLDS = 5
LEAST_FOR_GAINS = 10


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


def weigh(candidates: list[Rule], held: CrossFitted, how: Learner, found: bool = False) -> Weighed:
    """Learn what candidates should cost, on held-out sequences.

    Candidates are first measured on gold labels and best predictions only; those that are important enough are measured once
    on all lists of likely labellings, where those that tell no labellings apart, or tell them apart as an earlier one does,
    go. Weights are then a matter of sparse products. Nobody is told of rules that were ``found`` and are not obeyed.
    """
    base = held.crf
    resolved = resolve(candidates, held.lists, base.classes_, base.scheme, how.takes_priors, tell=not found)
    every = measured(resolved.rules, held.examples, base.classes_, base.scheme, how.n_jobs)
    plain = _plain(every, held)
    broken, gold = every.units(plain), every.gold
    importance = importance_of(*(_counts(table) for table in (broken, gold)))
    tried = np.flatnonzero(~every.learned | (resolved.prior > 0) | (importance >= how.cutoff))
    work = _Work(held, [resolved.rules[i] for i in tried], resolved.prior[tried], how)
    result = work.learned()
    judged = work.gains(plain)
    vetoed = bool(judged) and judged[0].points < -judged[0].error
    acting = tried[work.chosen]
    weights = np.zeros(len(candidates))
    weights[acting] = work.prior if vetoed else result.theta
    weights = every.weights(weights)
    effects = np.zeros((len(candidates), 2), dtype=np.int64)
    effects[acting] = effects_of(work.alone, weights[acting])
    if how.only_helpful:
        weights = np.where(every.learned & (resolved.prior == 0) & (effects[:, 1] <= 0), 0.0, weights)
    report = rule_reports(
        resolved.rules, weights, importance, _counts(broken), _counts(gold), effects, resolved.expected
    )
    rules = [_priced(rule, weight) for rule, weight in zip(resolved.rules, weights) if weight > 0]
    return Weighed(rules, weights, every, report, judged, vetoed, len(tried), result)


def _plain(data: Examples, held: CrossFitted) -> list[np.ndarray]:
    """Best labels where nothing is learned yet; rules with a price are paid."""
    none = np.zeros(len(data.learned))
    if data.weights(none).any():
        return data.best(range(len(data)), none)
    lists = held.lists
    return [lists.labellings[j] for j in lists.first]


def _counts(units: csr_matrix) -> np.ndarray:
    """Sequences that break each rule, (n_rules,)."""
    return np.bincount(units.indices, minlength=units.shape[1])


class _Work:
    """Rules that are tried, on lists of labellings; ``chosen`` of them have a price or say something of their own."""

    def __init__(self, held: CrossFitted, rules: list[Rule], prior: np.ndarray, how: Learner):
        base = held.crf
        self.how = how
        self.table = SegmentTable([str(c) for c in base.classes_], base.scheme)
        self.distance = WrongSpans(self.table)
        data = measured(rules, held.examples, base.classes_, base.scheme, how.n_jobs)
        every = MeasuredLists.of(held.lists, data)
        earning = data.learned & (prior == 0)
        self.chosen = np.union1d(np.flatnonzero(~earning), every.distinct(np.flatnonzero(earning)))
        some = [rules[i] for i in self.chosen]
        self.prior = prior[self.chosen]
        self.data = measured(some, held.examples, base.classes_, base.scheme, how.n_jobs)
        self.alone = every.columns(self.chosen)
        self.lists = self.alone.paid(self.data, self.distance)

    def learned(self) -> FitResult:
        """Weights from all sequences."""
        if not self.data.learned.any():
            weights = self.data.weights(np.zeros(len(self.prior)))
            return FitResult(weights, 0.0, Ending.converged, "No rule has a weight to learn.", ())
        how = self.how
        if how.algorithm == "likelihood":
            options: dict[str, Any] = {"rounds": how.max_iter, "l1": how.l1, "l2": how.l2, "prior": self.prior}
            return learn_likelihood(self.data, self.lists, distance=self.distance, **options)
        return self._by_passes(self.data)

    def _by_passes(self, data: Examples) -> FitResult:
        how = self.how
        if how.algorithm == "perceptron":
            return learn_perceptron(data, epochs=how.max_iter, l1=how.l1, seed=how.seed, rate=how.rate)
        return learn_margin(data, epochs=how.max_iter, l1=how.l1, seed=how.seed, l2=how.l2)

    def gains(self, plain: list[np.ndarray]) -> list[Gain]:
        """Gains on each fold of the sequences, by weights learned on the others; none for fewer than 10 sequences.

        Answers are the best of the lists, so that nothing is decoded.
        """
        n = len(self.data)
        if n < LEAST_FOR_GAINS or not self.how.learns or not self.data.learned.any():
            return []
        order = np.random.default_rng(self.how.seed).permutation(n)
        found = list(plain)
        folds = GAIN_FOLDS if self.how.algorithm == "likelihood" else 2
        for fold in range(folds):
            test = order[fold::folds]
            weights = self._fold_weights(np.setdiff1d(order, test))
            part = self.lists.some(test)
            for i, j in zip(test, part.best(weights)):
                found[i] = part.lists.labellings[j]
        return gains([example.gold for example in self.data.examples], plain, found, self.table)

    def _fold_weights(self, members: np.ndarray) -> np.ndarray:
        if self.how.algorithm != "likelihood":
            return self._by_passes(self.data.some(members)).theta
        prices = shares_in(self._broken[members], self.data.gold[members]).prices
        prior = np.where(self.prior > 0, prices, 0.0)  # what these sequences say, and no others
        penalty = Penalty.of(self.how.l1, self.how.l2, prior, self.data.learned)
        return most_likely(self.lists.some(members), penalty)[0]

    @cached_property
    def _broken(self) -> csr_matrix:
        return expected_broken(self.lists.lists, self.lists.units, self.lists.worth)


def _priced(rule: Rule, weight: float) -> Rule:
    return rule.hard() if np.isinf(weight) else rule.soft(float(weight), per=rule.per)
