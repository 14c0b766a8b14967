"""Two-stage decoding with a fitted chain: of all labelings nearly as probable as the best, the least broken."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from rulefield.encode.spans import SegmentTable
from rulefield.estimators.answers import Ask, SequenceSums
from rulefield.estimators.base import Batch
from rulefield.estimators.chain.answers import ChainAnswers
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.ruled.gains import Gain, gains
from rulefield.exceptions import InputError
from rulefield.inference.result import TOLERANCE, Result
from rulefield.inference.sequences.exact import log_partition
from rulefield.inference.sequences.sums import Chances
from rulefield.inference.sequences.two_stage import decode_two_stage
from rulefield.learning.rule_weights.lists import Lists
from rulefield.learning.rule_weights.residual import in_errors
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules.finding.observed import Parts

TAUS = (1.0, 0.99, 0.98, 0.97, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.0)


class TwoStageAnswers(ChainAnswers):
    """Labels and labelings of two-stage decoding, which has no distribution; ``tau``: how near to the best they must be."""

    def __init__(self, *chain: Any, tau: float):
        super().__init__(*chain)
        self.tau = tau
        source, labels, scheme, _, *rest = chain
        self._without_rules = ChainAnswers(source, labels, scheme, [], *rest)

    def quick_results(self, batch: Batch, how: dict[str, Any]) -> list[Result | None]:
        """Return None for all: each sequence is decoded by itself."""
        return [None] * len(batch)

    def quick_labels(self, batch: Batch) -> list[np.ndarray | None]:
        """Return None for all."""
        return [None] * len(batch)

    def decode(self, problem: ChainProblem, **how: Any) -> Result:
        """Return the least broken of the labelings that are nearly as probable as the best."""
        if problem.potentials.n_steps == 0:  # nothing to weigh
            return super().decode(problem)
        return decode_two_stage(problem, tau=self.tau, log_partition=log_partition(problem.potentials), **how)

    def labeling(self, batch: Batch, i: int, result: Result, *probability: Any) -> Labeling:
        """Return an answer, which has no proof."""
        return replace(super().labeling(batch, i, result, *probability), prover=None)

    def chances(self, batch: Batch, ask: Ask, tolerance: float) -> list[Chances]:
        """Sum over labelings by the model alone: the rules have no price here."""
        return self._without_rules.chances(batch, ask, tolerance)

    def probabilities(self, results: list[Result], sums: SequenceSums) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return probabilities by the model alone, which are exact."""
        chance = np.exp(np.array([one.score for one in results]) - sums.log_partition)
        return chance, np.zeros(len(chance)), np.full(len(chance), -1)

    def marginals(self, batch: Batch, quick: bool = False, tolerance: float = 0.0) -> list[np.ndarray]:
        """Refuse, except for an explanation (``quick``), which shows probabilities by the model alone."""
        return self._without_rules.marginals(batch) if quick else _refuse_distribution()

    def kbest(self, batch: Batch, k: int) -> NoReturn:
        """Refuse."""
        _refuse_distribution()

    def samples(self, batch: Batch, n_samples: int, seed: int) -> NoReturn:
        """Refuse."""
        _refuse_distribution()


def _refuse_distribution() -> NoReturn:
    raise InputError(
        "two-stage decoding has no distribution: its rules break ties and have no price; use method='soft', or the "
        "chain estimator_ with rules of its own."
    )


class TauChoice:
    """How near to the best a labeling must be, chosen on lists of likely labelings of held-out sequences.

    Of several tau the one nearest to 1 is taken whose tokens are within one standard error of the best one's: what is not
    clearly better for looking further away stays with the model.

    ``costs`` (n_labelings,) are what the rules cost each labeling, infinite where it breaks a hard one; ``taus`` go downward
    from 1.
    """

    def __init__(self, lists: Lists, costs: np.ndarray, taus: Sequence[float] = TAUS):
        self.lists, self.taus = lists, np.array(taus)
        right = lists.tokens_right
        score = np.where(np.isinf(costs), -np.inf, lists.score)
        best = score[lists.best_of(score)]
        chains = [e.potentials for e in lists.examples if isinstance(e.potentials, ChainPotentials)]
        partitions = np.array([log_partition(own) for own in chains])
        self._places = []
        for tau in self.taus:
            floor = best - (1 - tau) * np.abs(np.where(np.isinf(best), 0.0, best - partitions))
            near = score >= floor[lists.owner] - TOLERANCE
            self._places.append(
                lists.best_of(np.where(near, -costs, -np.inf))
            )  # the first of equals has the best score
        self._right = right[np.array(self._places)]

    def best(self, members: np.ndarray | slice = slice(None)) -> int:
        """Return the number of the tau that some sequences ask for."""
        right = self._right[:, members]
        best = right[int(np.argmax(right.sum(axis=1)))]
        return next(k for k, row in enumerate(right) if in_errors(best - row) <= 1)

    def gains(self, table: SegmentTable, folds: Parts) -> list[Gain]:
        """Judge what the second stage brings to each part, by the tau that the others ask for."""
        lists, places = self.lists, self._places[0].copy()
        for fold in range(folds.n_parts):
            test = folds.part == fold
            places[test] = self._places[self.best(~test)][test]
        gold = [example.gold for example in lists.examples]
        plain, found = ([lists.labelings[j] for j in some] for some in (self._places[0], places))
        return gains(gold, plain, found, table)
