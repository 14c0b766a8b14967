"""From candidates to few rules with weights: screened, measured on lists of labelings, taken one by one, judged, reported."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.encode.spans import SegmentTable
from rulefield.estimators.ruled.gains import Gain, gains, negligible
from rulefield.estimators.ruled.held_out import FOLDS, CrossFitted, default_folds
from rulefield.estimators.ruled.prices import Resolved, measured, resolve
from rulefield.estimators.ruled.reports import RuleReport, effects_of, rule_reports
from rulefield.learning.fit_log import Ending, FitResult
from rulefield.learning.rule_weights.learners import Examples, learn_perceptron
from rulefield.learning.rule_weights.likelihood import learn_likelihood
from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.learning.rule_weights.path import MIN_PRICE, PathData, PathSettings, RulePath, losses
from rulefield.learning.rule_weights.residual import expected_broken, shares_in
from rulefield.learning.rule_weights.together import clearly_better, in_errors
from rulefield.rules.finding.importance import importance_of
from rulefield.rules.rule import Rule

MIN_SEQUENCES_FOR_GAINS = 10
SCREENED_LABELINGS = 5
"""Labelings of each sequence on which found rules are screened, before they are measured on whole lists."""
PROVED = 2.0
"""Sum of two gains, tokens and likelihood, each in its standard errors, that found rules must exceed (Stouffer: 1.4)."""
SLACK_ERRORS, SLACK_SHARE = 0.1, 0.05
"""What fewer rules may lose on held-out sequences: a tenth of the gain's standard error, and no more than 5 % of the gain."""


@dataclass(frozen=True)
class Learner:
    """How weights are learned: options of RuledCRF under their names there."""

    algorithm: str
    learns: bool
    """Whether open weights are learned at all (the two-stage method takes prices as they are)."""
    cutoff: float
    max_rules: int
    max_iter: int
    rate: float
    l2: float
    seed: int
    n_jobs: int

    @property
    def takes_priors(self) -> bool:
        """Whether residual prices are where learning starts, not where it ends."""
        return self.learns and self.algorithm == "likelihood"


@dataclass(frozen=True)
class Candidates:
    """Rules to weigh.

    Parameters
    ----------
    rules : list of Rule
    groups : ndarray of bool, shape (1 + n_folds, n_rules)
        Whether each was found in all sequences, and in those that each fold learns from.
    found : bool
        Nobody wrote them.
    """

    rules: list[Rule]
    groups: np.ndarray
    found: bool

    @classmethod
    def written(cls, rules: list[Rule], n_folds: int) -> "Candidates":
        """Rules that somebody wrote: every fold tries them."""
        return cls(rules, np.ones((1 + n_folds, len(rules)), dtype=bool), found=False)


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
        Empty if nothing was learned.
    tokens : ndarray of int64, shape (n_sequences,)
        Tokens of each sequence that became right, less those that became wrong.
    likelier : ndarray, shape (n_sequences,)
        Nats by which the labels of sequences became likelier (among those of the lists); empty for the perceptron.
    size : int or None
        Rules to take beyond those that are forced; None for all.
    """

    gains: list[Gain]
    tokens: np.ndarray
    likelier: np.ndarray
    size: int | None = None


def weigh(candidates: Candidates, held: CrossFitted, how: Learner) -> Weighed:
    """Learn what candidates should cost, on held-out sequences.

    1. *Resolve*: rules with ``.soft("auto")`` get their residual price, or are reported as wrong.
    2. *Screen*: rules that the model does not break more often than gold labels do are dropped.
    3. *Measure* the others on lists of likely labelings. From here on, weights are a matter of sparse products.
    4. *Learn* on all sequences and on those of each fold, rules one after the other.
    5. *Judge* each fold's rules on the other sequences: how many rules to keep, their gains, and whether to use them.
    6. *Refine* the weights of what is kept by decoding, and report.
    """
    resolved = resolve(candidates.rules, held, how.takes_priors)
    every = measured(resolved.rules, held, how.n_jobs)
    plain = _plain_labels(every, held)
    screening = _screen(every, plain, resolved, candidates.found, held, how)
    tried = screening.tried
    table = RuleTable(held, resolved.some(tried), how)
    folds = gain_folds(len(held.examples), how)
    paths = [table.follow(None, candidates.groups[0, tried])]
    paths += [table.follow(train, group[tried]) for train, group in zip(folds, candidates.groups[1:])]
    judged = table.judge(plain, folds, paths[1:])
    vetoed = is_vetoed(judged, _count_wrong(plain, held), candidates.found)
    result = table.refine(paths[0], judged.size)
    weights = np.zeros(len(resolved.rules))
    weights[tried] = result.theta if not vetoed else table.prior if not candidates.found else 0.0
    weights = every.weights(np.where(weights < MIN_PRICE, 0.0, weights))
    effects = np.zeros((len(weights), 3), dtype=np.int64)
    effects[tried] = effects_of(table.alone, weights[tried])
    counts = (screening.importance, screening.by_model, screening.by_gold)
    report = rule_reports(resolved.rules, weights, *counts, effects, resolved.expected, candidates.found)
    kept = [_priced(rule, weight) for rule, weight in zip(resolved.rules, weights) if weight > 0]
    return Weighed(kept, weights, every, report, judged.gains, vetoed, len(tried), result)


@dataclass(frozen=True)
class Screening:
    """Numbers of the rules to try; importance and broken sequences by model and gold, (n_rules,) each."""

    tried: np.ndarray
    importance: np.ndarray
    by_model: np.ndarray
    by_gold: np.ndarray


def _screen(
    every: Examples, plain: list[np.ndarray], resolved: Resolved, found: bool, held: CrossFitted, how: Learner
) -> Screening:
    """Choose the rules to try; found ones by how often the best few labelings are expected to break them."""
    by_model, by_gold = (_count_broken(units) for units in (every.units(plain), every.gold))
    importance = importance_of(by_model, by_gold)
    keep = importance >= how.cutoff
    if found:
        few = held.lists.head(SCREENED_LABELINGS)
        units = every.units(few.labelings, few.owner)
        keep |= shares_in(expected_broken(few, units, few.score), every.gold).prices >= MIN_PRICE
    tried = np.flatnonzero(~every.learned | resolved.forced | keep)
    return Screening(tried, importance, by_model, by_gold)


def gain_folds(n: int, how: Learner) -> list[np.ndarray]:
    """Sequences to learn from in each fold, the others being for judging gains; none if sequences are few."""
    if n < MIN_SEQUENCES_FOR_GAINS or not how.learns:
        return []
    return folds_of(n, how.seed, None if how.algorithm == "likelihood" else 2)


def folds_of(n: int, seed: int, k: int | None = None) -> list[np.ndarray]:
    """Sequences to learn from in each of ``k`` folds; by default five, three if sequences are many."""
    k = k or min(FOLDS, default_folds(n))
    order = np.random.default_rng(seed).permutation(n)
    return [np.setdiff1d(order, order[fold::k]) for fold in range(k)]


def _plain_labels(data: Examples, held: CrossFitted) -> list[np.ndarray]:
    """Best labels if nothing is learned yet; rules with a price are paid."""
    none = np.zeros(len(data.learned))
    if data.weights(none).any():
        return data.best(range(len(data)), none)
    lists = held.lists
    return [lists.labelings[j] for j in lists.first]


def is_vetoed(judged: FoldGains, n_wrong: int, found: bool) -> bool:
    """Whether learned weights are not used: a loss of tokens must exceed its standard error, so one sequence never decides.

    Found rules must make a difference, and prove themselves by fixed tokens and the likelihood of held-out labels
    together; what users wrote is asked for neither. The likelihood sees what rules do to every sequence, even if its best
    labels do not change.
    """
    if not judged.gains:
        return False
    if clearly_better(-judged.tokens):
        return True
    unproved = judged.likelier.size > 0 and in_errors(judged.tokens) + in_errors(judged.likelier) <= PROVED
    return found and (unproved or negligible(judged.gains, n_wrong))


def choose_size(*gains: np.ndarray) -> int:
    """Return the fewest rules whose gain, in each of several measures (n_sequences, n_sizes), is about the best."""
    enough = np.ones(gains[0].shape[1], dtype=bool)
    for gain in gains:
        total = gain.sum(axis=0)
        best = int(np.argmax(total))
        error = float(np.sqrt((gain[:, best] ** 2).sum()))
        enough &= total >= total[best] - min(SLACK_ERRORS * error, SLACK_SHARE * total[best])
    return int(np.argmax(enough)) if enough.any() else len(enough) - 1


def _count_broken(units: csr_matrix) -> np.ndarray:
    """Sequences that break each rule, (n_rules,)."""
    return np.bincount(units.indices, minlength=units.shape[1])


def _count_wrong(plain: list[np.ndarray], held: CrossFitted) -> int:
    """Sequences that the chain has wrong."""
    return sum(not np.array_equal(labels, example.gold) for labels, example in zip(plain, held.examples))


class RuleTable:
    """Rules that are tried, measured on lists of labelings."""

    def __init__(self, held: CrossFitted, resolved: Resolved, how: Learner):
        self.how, self.prior, self.forced = how, resolved.prior, resolved.forced
        self.family = held.family
        self.data = measured(resolved.rules, held, how.n_jobs)
        self.alone = MeasuredLists.of(held.lists, self.data)
        self.lists = self.alone.paid(self.data)

    def follow(self, members: np.ndarray | None, group: np.ndarray) -> RulePath:
        """Learn weights of the rules of a ``group`` (a mask) from some sequences, or all of them."""
        free = group & self.data.learned & ~self.forced
        if self.how.algorithm == "perceptron":
            return self._perceptron(members, free)
        prior = self.prior
        if members is not None and self.forced.any():
            shares = shares_in(self._broken[members], self.data.gold[members])
            prior = np.where(shares.contradicted, 0.0, shares.prices)
        settings = PathSettings(l2=self.how.l2, most=self.how.max_rules)
        return self._path_data.follow(np.flatnonzero(self.forced), prior, free, settings, members)

    @cached_property
    def _path_data(self) -> PathData:
        return PathData(self.lists, self.data.gold)

    @cached_property
    def _broken(self) -> csr_matrix:
        return expected_broken(self.lists.lists, self.lists.units, self.lists.worth)

    def _perceptron(self, members: np.ndarray | None, free: np.ndarray) -> RulePath:
        """Learn all weights at once, as [Anzaroot14] does: a path of one size."""
        data = self.data if members is None else self.data.some(members)
        result = learn_perceptron(data, epochs=self.how.max_iter, seed=self.how.seed, rate=self.how.rate)
        weights = np.where(free, result.theta, 0.0)[None]
        return RulePath(np.flatnonzero(weights[0]), weights, np.zeros(weights.shape[1]), result)

    def judge(self, plain: list[np.ndarray], folds: list[np.ndarray], paths: list[RulePath]) -> FoldGains:
        """Judge the sequences outside of each fold by the rules of those inside.

        Labels are the best of the lists, so that nothing is decoded. How many rules a fold takes is chosen on the parts
        that other folds judge.
        """
        n = len(plain)
        if not self.data.learned.any() or not folds:
            return FoldGains([], np.zeros(n, dtype=np.int64), np.zeros(n))
        n_sizes = max(len(path.weights) for path in paths)
        likelier, tokens = np.zeros((n, n_sizes)), np.zeros((n, n_sizes), dtype=np.int64)
        fold_of, tests = np.zeros(n, dtype=np.int64), []
        for fold, (train, path) in enumerate(zip(folds, paths)):
            test = np.setdiff1d(np.arange(n), train)
            part = self.lists.some(test)
            loss = losses(part, np.concatenate([np.zeros((1, len(self.prior))), path.weights]))
            sizes = np.minimum(np.arange(n_sizes), len(path.weights) - 1)
            likelier[test], fold_of[test] = loss[:, :1] - loss[:, 1 + sizes], fold
            right = part.lists.tokens_right
            answers = np.array([part.best(weights) for weights in path.weights])
            tokens[test] = (right[answers] - right[part.best()]).T[:, sizes]
            tests.append((test, part))
        labels, chosen = list(plain), np.zeros(n)
        for fold, (path, (test, part)) in enumerate(zip(paths, tests)):
            others = fold_of != fold
            size = choose_size(likelier[others], tokens[others])
            chosen[test] = likelier[test, size]
            for i, j in zip(test, part.best(path.weights[min(size, len(path.weights) - 1)])):
                labels[i] = part.lists.labelings[j]
        rows = [example.gold for example in self.data.examples], plain, labels
        gold, before, after = ([self.family.in_words(own) for own in side] for side in rows)
        change = [int((a == g).sum()) - int((b == g).sum()) for g, b, a in zip(gold, before, after)]
        return FoldGains(
            gains(gold, before, after, SegmentTable(self.family.words.labels, self.family.crf.scheme)),
            np.array(change, dtype=np.int64),
            chosen if self.how.algorithm == "likelihood" else np.zeros(0),
            choose_size(likelier, tokens),
        )

    def refine(self, path: RulePath, size: int | None) -> FitResult:
        """Weigh the first rules of a path again, on lists that decoding adds to."""
        if path.result is not None:
            return replace(path.result, theta=path.weights[-1])
        if not self.data.learned.any():
            weights = self.data.weights(np.zeros(len(self.prior)))
            return FitResult(weights, 0.0, Ending.converged, "No rule has a weight to learn.", ())
        n_taken = len(path.order) if size is None else int(self.forced.sum()) + size
        return learn_likelihood(
            self.data,
            self.lists,
            path.order[:n_taken],
            path.prior,
            l2=self.how.l2,
            rounds=self.how.max_iter,
        )


def _priced(rule: Rule, weight: float) -> Rule:
    return rule.hard() if np.isinf(weight) else rule.soft(float(weight), per=rule.per)
