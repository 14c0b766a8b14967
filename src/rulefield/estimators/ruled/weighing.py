"""How RuledCRF learns what rules should cost: candidates are screened, measured, taken one by one, judged, reported."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.estimators.ruled.candidates import Candidates
from rulefield.estimators.ruled.gains import Gain, gains, negligible
from rulefield.estimators.ruled.held_out import FOLDS, CrossFitted, default_folds
from rulefield.estimators.ruled.reports import RuleReport, effects_of, rule_reports
from rulefield.learning.fit_log import Ending, FitRecord, FitResult
from rulefield.learning.rule_weights.lists import MeasuredLists
from rulefield.learning.rule_weights.path import (
    MIN_PRICE,
    TAKEN,
    PathData,
    PathSettings,
    RulePath,
    losses,
    worth_under,
)
from rulefield.learning.rule_weights.residual import (
    broken_shares,
    expected_broken,
    in_errors,
    shares_in,
)
from rulefield.rules.finding.observed import Parts
from rulefield.rules.rule import AUTO, Rule

MIN_SEQUENCES_FOR_GAINS = 10
SCREENED_LABELINGS = 5
"""Labelings of each sequence on which found rules are screened, before they are measured on whole lists."""
FINAL_SWEEPS = 200
"""Improvements of the weights of the rules that are kept, at most."""
PROVED = 2.0
"""Sum of two gains, tokens and likelihood, each in its standard errors, that found rules must exceed (Stouffer: 1.4)."""
SLACK_ERRORS, SLACK_SHARE = 0.1, 0.05
"""What fewer rules may lose on held-out sequences: a tenth of the gain's standard error, and no more than 5 % of the gain."""


@dataclass(frozen=True)
class Weighed:
    """Rules with their weights, and how they came by them (attributes of RuledCRF under their names)."""

    rules: list[Rule]
    weights: np.ndarray
    """Of all candidates."""
    report: list[RuleReport]
    gains: list[Gain]
    vetoed: bool
    n_kept: int
    result: FitResult


@dataclass(frozen=True)
class FoldGains:
    """What rules bring on sequences that they were neither found nor weighed on.

    For each sequence, ``tokens`` are those that became right less those that became wrong, and ``likelier`` the nats by
    which its labels became likelier, among those of the lists. The chain has ``n_wrong`` sequences wrong. ``size`` is
    the number of rules to take beyond those that are forced; None for all. Nothing was learned if there are no
    ``gains``.
    """

    gains: list[Gain]
    tokens: np.ndarray
    likelier: np.ndarray
    n_wrong: int = 0
    size: int | None = None

    def is_vetoed(self, found: bool) -> bool:
        """Whether learned weights are not used.

        A loss of tokens must exceed its standard error, so that one sequence never decides. Rules that were ``found``
        must make a difference, and prove themselves by fixed tokens and the likelihood of held-out labels together;
        what users wrote is asked for neither. The likelihood sees what rules do to every sequence, even if its best
        labels do not change.
        """
        if not self.gains:
            return False
        if in_errors(-self.tokens) > 1:
            return True
        proved = in_errors(self.tokens) + in_errors(self.likelier) > PROVED
        return found and (not proved or negligible(self.gains, self.n_wrong))


def weigh(candidates: Candidates, held: CrossFitted, folds: Parts, settings: PathSettings) -> Weighed:
    """Learn what candidates should cost, on held-out sequences; each fold is judged by what the others say.

    1. *Screen*: rules that the model does not break more often than gold labels do are dropped.
    2. *Measure* the others on lists of likely labelings. From here on, weights are a matter of sparse products.
    3. *Follow* the path of rules, taken one after the other, on all sequences and on those that each fold learns from.
    4. *Judge* each fold's rules on the other sequences: how many rules to keep, their gains, and whether to use them.
    5. *Finish* the weights of the rules that are kept, and report.
    """
    screening = Screening(candidates, held)
    tried = np.flatnonzero(screening.is_tried)
    table = RuleTable(screening.measure(tried), screening.prior[tried], settings)
    members = [None, *(folds.part != fold for fold in range(folds.n_parts))]
    path, *of_folds = [table.follow(some, group[tried]) for some, group in zip(members, candidates.groups)]
    judged = table.judge(folds, of_folds, held)
    vetoed = judged.is_vetoed(candidates.found)
    result = table.finish(path, judged.size)
    learned = result.theta if not vetoed else np.zeros(len(tried)) if candidates.found else table.prior
    weights = screening.fixed_weights
    weights[tried] += np.where(learned < MIN_PRICE, 0.0, learned)
    effects = np.zeros((len(weights), 3), dtype=np.int64)
    effects[tried] = effects_of(table.measured, weights[tried])
    report = rule_reports(candidates, weights, screening, effects)
    kept = [_priced(rule, weight) for rule, weight in zip(candidates.rules, weights) if weight > 0]
    return Weighed(kept, weights, report, judged.gains, vetoed, len(tried), result)


class Screening:
    """Which candidates to try (``is_tried``), and the prices of those that are "auto"; all attributes are by rule.

    Tried are rules of known weight, and those with a residual price of :data:`MIN_PRICE` at least. Found rules are
    screened on the best few labelings, because they are many; written ones on whole lists. Of rules that are "auto",
    those that gold labels contradict are ``wrong``, and the others have residual prices (``prior``). ``by_model``,
    ``by_gold`` and ``expected`` are the sequences whose prediction and gold labels break a rule, and those in which the
    model is expected to.
    """

    def __init__(self, candidates: Candidates, held: CrossFitted):
        self._rules, self._held, self._found = candidates.rules, held, candidates.found
        self._measured = held.measured(
            self._rules, held.lists.head(SCREENED_LABELINGS) if self._found else held.lists
        )
        shares = broken_shares(self._measured)
        auto = np.array([rule.weight == AUTO for rule in self._rules], dtype=bool)
        self.wrong = auto & shares.contradicted
        self.prior = np.where(auto & ~self.wrong, shares.prices, 0.0)
        learned = self._measured.is_open & ~auto & (shares.prices >= MIN_PRICE)
        self.is_tried = ~self._measured.is_open | (self.prior > 0) | learned
        self.expected = shares.by_model
        plain = self._measured.units[self._measured.best()]
        self.by_model, self.by_gold = (units.getnnz(axis=0) for units in (plain, self._measured.gold))

    @property
    def fixed_weights(self) -> np.ndarray:
        """Weights that are known, 0 for those that are learned, (n_rules,)."""
        return np.where(self._measured.is_open, 0.0, self._measured.weights)

    def measure(self, numbers: np.ndarray) -> MeasuredLists:
        """Measure some of the rules on whole lists."""
        if not self._found:
            return self._measured.of_rules(numbers)
        return self._held.measured([self._rules[i] for i in numbers], self._held.lists)


class RuleTable:
    """Rules that are tried, measured on lists of labelings; those with a ``prior`` price need not be chosen."""

    def __init__(self, measured: MeasuredLists, prior: np.ndarray, settings: PathSettings):
        self.measured, self.prior, self.settings = measured, prior, settings
        self._data, self._forced = PathData(measured), prior > 0

    @cached_property
    def _broken(self) -> csr_matrix:
        return expected_broken(self.measured)

    def follow(self, members: np.ndarray | None, group: np.ndarray) -> RulePath:
        """Learn weights of the rules of a ``group`` (a mask) from some sequences, or all of them."""
        prior = self.prior
        if members is not None and self._forced.any():
            shares = shares_in(self._broken[members], self.measured.gold[members])
            prior = np.where(shares.contradicted, 0.0, shares.prices)
        free = group & self.measured.is_open & ~self._forced
        most = None if self.settings.most is None else TAKEN * self.settings.most
        how = replace(self.settings, most=most)
        path = self._data.follow(np.flatnonzero(self._forced), prior, free, how, members)
        return self._data.shorten(path, self.settings, members)

    def judge(self, folds: Parts, paths: list[RulePath], held: CrossFitted) -> FoldGains:
        """Judge each part by the rules of the others.

        Labels are the best of the lists, so that nothing is decoded. How many rules a part takes is chosen on the other
        parts.
        """
        measured, lists = self.measured, self.measured.lists
        n, plain = len(lists.examples), self.measured.best()
        if not paths or not measured.is_open.any():
            return FoldGains([], np.zeros(n, dtype=np.int64), np.zeros(n))
        fold_of = folds.part
        worth = np.empty((len(lists.owner), max(len(path.weights) for path in paths)))
        for fold, path in enumerate(paths):
            rows = np.flatnonzero(fold_of[lists.owner] == fold)
            sizes = np.minimum(np.arange(worth.shape[1]), len(path.weights) - 1)
            worth[rows] = worth_under(measured.worth[rows], measured.units[rows], path.weights)[:, sizes]
        likelier = losses(measured, measured.worth[:, None]) - losses(measured, worth)
        answers = np.array([lists.best_of(column) for column in worth.T])
        tokens = (lists.tokens_right[answers] - lists.tokens_right[plain]).T
        others = [fold_of != fold for fold in range(folds.n_parts)]
        size = np.array([choose_size(likelier[some], tokens[some]) for some in others])[fold_of]
        each = np.arange(n)
        sides = (
            [example.gold for example in lists.examples],
            *([lists.labelings[j] for j in some] for some in (plain, answers[size, each])),
        )
        gold, before, after = ([held.family.in_words(own) for own in side] for side in sides)
        wrong = sum(not np.array_equal(a, b) for a, b in zip(gold, before))
        found = gains(gold, before, after, held.family.spans)
        return FoldGains(found, tokens[each, size], likelier[each, size], wrong, choose_size(likelier, tokens))

    def finish(self, path: RulePath, size: int | None) -> FitResult:
        """Weigh the first rules of a path once more, until no weight moves; by default all of them."""
        n_taken = len(path.order) if size is None else path.n_forced + size
        none, settings = np.zeros(len(self.prior), dtype=bool), replace(self.settings, sweeps=FINAL_SWEEPS)
        theta = self._data.follow(path.order[:n_taken], path.prior, none, settings).weights[-1]
        sizes = np.concatenate([path.weights[: n_taken - path.n_forced], theta[None]])
        values = losses(self.measured, worth_under(self.measured.worth, self.measured.units, sizes)).sum(axis=0)
        log = tuple(FitRecord(k + 1, value) for k, value in enumerate(values.tolist()))
        return FitResult(theta, log[-1].objective, Ending.converged, "No rule left out is worth enough.", log)


def divide(n: int, seed: int) -> Parts:
    """Divide ``n`` sequences into five parts to judge gains on, three if sequences are many, one if they are few."""
    k = min(FOLDS, default_folds(n)) if n >= MIN_SEQUENCES_FOR_GAINS else 1
    part = np.empty(n, dtype=np.int64)
    part[np.random.default_rng(seed).permutation(n)] = np.arange(n) % k
    return Parts(part, k)


def choose_size(*gains: np.ndarray) -> int:
    """Return the fewest rules whose gain, in each of several measures (n_sequences, n_sizes), is about the best."""
    enough = np.ones(gains[0].shape[1], dtype=bool)
    for gain in gains:
        total = gain.sum(axis=0)
        best = int(np.argmax(total))
        error = float(np.sqrt((gain[:, best] ** 2).sum()))
        enough &= total >= total[best] - min(SLACK_ERRORS * error, SLACK_SHARE * total[best])
    return int(np.argmax(enough)) if enough.any() else len(enough) - 1


def _priced(rule: Rule, weight: float) -> Rule:
    return rule.hard() if np.isinf(weight) else rule.soft(float(weight), per=rule.per)
