"""What a fitted chain with learned rules answers: labels, probabilities, k best, samples, reasons, the rules in words."""

import copy
from typing import Any

import numpy as np

from rulefield.estimators.base import SequenceEstimator
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.explanations import Explanation, ModelExplanation
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import rule_list
from rulefield.estimators.ruled.gains import Gain
from rulefield.estimators.ruled.reports import RuleReport
from rulefield.estimators.ruled.two_stage import TwoStageDecoder
from rulefield.estimators.sequences import span_score
from rulefield.estimators.types import ArrayLike, KnownLike, LabelsLike, RandomState, RulesLike, SequencesLike, Tokens
from rulefield.exceptions import InputError
from rulefield.parallel import n_threads
from rulefield.rules.rule import Rule
from rulefield.scikit import check_is_fitted


class FittedRuled(SequenceEstimator):
    """The half of :class:`rulefield.RuledCRF` that works once the chain is fitted and rules have their weights."""

    method: str
    on_infeasible: str
    n_jobs: int | None
    estimator_: ChainCRF
    rules_: list[Rule]
    report_: list[RuleReport]
    gains_: list[Gain]
    vetoed_: bool
    tau_: float | None
    n_candidates_: int
    n_kept_: int

    def predict(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None
    ) -> np.ndarray:
        """Return the best labels of each sequence under the learned rules: a 1-D object array of lists.

        Parameters
        ----------
        X : as in ``fit``
        rules : list of rules, optional
            In place of the learned ones; ``[]`` for none.
        known : list of sequences, optional
            Labels known beforehand (``None``: unknown; a set: one of these), or None for a whole sequence.
        """
        return self._chain().predict(X, rules=self._acting(rules), known=known)

    def decode(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        engine: str = "auto",
        node_limit: int | None = None,
        seconds: float | None = None,
        probability: bool = False,
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the best labeling of each sequence with its score, bound, status and broken rules.

        As :meth:`ChainCRF.decode`; two-stage decoding has the engines ``auto``, ``milp`` and ``enumerate``.
        """
        return self._chain().decode(
            X,
            rules=self._acting(rules),
            known=known,
            engine=engine,
            node_limit=node_limit,
            seconds=seconds,
            probability=probability,
            verify=verify,
        )

    def predict_marginals(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        output: str = "dict",
    ) -> list[Any]:
        """Return the probability of every label at every token under the rules, as :meth:`ChainCRF.predict_marginals`."""
        return self._distribution().predict_marginals(X, rules=self._acting(rules), known=known, output=output)

    def predict_kbest(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None, k: int = 5
    ) -> list[list[tuple[list[Any], float]]]:
        """Return the k best labelings of each sequence under the rules, and their probabilities."""
        return self._distribution().predict_kbest(X, rules=self._acting(rules), known=known, k=k)

    def sample(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> list[list[list[Any]]]:
        """Draw ``n_samples`` labelings of each sequence from the chain's distribution under the rules."""
        how: dict[str, Any] = {"known": known, "n_samples": n_samples, "random_state": random_state}
        return self._distribution().sample(X, rules=self._acting(rules), **how)

    def explain(
        self,
        x: Tokens | None = None,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        top: int = 5,
    ) -> Explanation | ModelExplanation:
        """Say which features and transitions decided the labels of one sequence, as :meth:`ChainCRF.explain`."""
        return self._chain().explain(x, rules=self._acting(rules), known=known, top=top)

    def score(
        self,
        X: SequencesLike,
        y: LabelsLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Span F1, as :meth:`ChainCRF.score`."""
        return span_score(y, self.predict(X, rules=rules, known=known), self.estimator_.scheme, sample_weight)

    def _acting(self, rules: RulesLike | None) -> list[Any]:
        check_is_fitted(self)
        return rule_list(self.rules_ if rules is None else rules)

    def _chain(self) -> ChainCRF:
        """Return the chain as this model decodes with it: its own threads, and two stages where asked for."""
        check_is_fitted(self)
        chain: ChainCRF = copy.copy(self.estimator_)
        chain.n_jobs, chain.on_infeasible = self.n_jobs, self.on_infeasible  # of the copy: estimator_ keeps its own
        if self.method == "two-stage":
            chain._ruled_decoder = self._two_stage_decoder  # type: ignore[method-assign]
        return chain

    def _two_stage_decoder(self, rules: RulesLike) -> TwoStageDecoder:
        decoder = ChainDecoder(self.estimator_.model_, self.estimator_.theta_, n_threads(self.n_jobs))
        tau = 1.0 if self.tau_ is None else self.tau_
        return TwoStageDecoder(decoder, rules, self.classes_, self.estimator_.scheme, self.on_infeasible, tau=tau)

    def _distribution(self) -> ChainCRF:
        if self.method == "two-stage":
            raise InputError(
                "two-stage decoding has no distribution: its rules break ties and have no price; use method='soft', or "
                "the chain estimator_ with rules of its own."
            )
        return self._chain()

    def report(self) -> str:
        """Return the kept rules in words, the most expensive first."""
        check_is_fitted(self)
        rows = sorted((r for r in self.report_ if r.weight > 0 or r.contradicted), key=lambda r: -r.weight)
        head = f"{self.n_candidates_} candidates, {self.n_kept_} tried, {len(self.rules_)} kept"
        if self.tau_ is not None:
            head += f"; tau {self.tau_:g}"
        if self.gains_:
            head += f"; held-out gain in points: {', '.join(map(str, self.gains_))}"
        if self.vetoed_:
            head += "; learned weights are not used: there they lose tokens, prove nothing or mend next to nothing"
        return "\n".join([head, *map(str, rows)])

    @property
    def _encoder(self) -> InputEncoder:  # type: ignore[override]
        return self.estimator_._encoder

    @property
    def classes_(self) -> list[Any]:
        """Labels, sorted."""
        return self.estimator_.classes_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rules_")
