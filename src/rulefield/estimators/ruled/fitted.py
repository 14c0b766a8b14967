"""What a model with learned rules asks of the estimator inside it, and its rules in words."""

from typing import Any

from rulefield.estimators.answers import Answers, Batch
from rulefield.estimators.base import SequenceEstimator
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.explanations import ModelExplanation
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.parameters import rule_list
from rulefield.estimators.ruled.families import Inner
from rulefield.estimators.ruled.gains import Gain
from rulefield.estimators.ruled.reports import RuleReport
from rulefield.estimators.ruled.two_stage import TwoStageAnswers, TwoStageDecoder
from rulefield.estimators.types import KnownLike, LabelsLike, RulesLike, SequencesLike
from rulefield.rules.rule import Rule
from rulefield.scikit import check_is_fitted


class FittedRuled(SequenceEstimator):
    """The half of :class:`rulefield.RuledCRF` that works once the chain is fitted and rules have their weights."""

    method: str
    on_infeasible: str
    n_jobs: int | None
    estimator_: Inner
    rules_: list[Rule]
    report_: list[RuleReport]
    gains_: list[Gain]
    vetoed_: bool
    tau_: float | None
    n_candidates_: int
    n_kept_: int

    # --- the family: that of the estimator inside -------------------------------------------------

    def _encode(self, X: SequencesLike) -> Batch:
        return self.estimator_._encode(X)

    def _possible(self, known: KnownLike, batch: Batch) -> Any:
        return self.estimator_._possible(known, batch)

    def _answers(self, rules: list[Any], on_infeasible: str, n_jobs: int) -> Answers:
        if self.method == "soft":
            return self.estimator_._answers(rules, on_infeasible, n_jobs)
        assert isinstance(self.estimator_, ChainCRF)
        decoder = ChainDecoder(self.estimator_.model_, self.estimator_.theta_, n_jobs)
        tau = 1.0 if self.tau_ is None else self.tau_
        chain = decoder, rules, self.classes_, self.estimator_.scheme, on_infeasible
        return TwoStageAnswers(
            decoder, self.estimator_._labels_encoder, lambda: TwoStageDecoder(*chain, tau=tau), plain=False
        )

    def _explain_weights(self, top: int) -> ModelExplanation:
        return self.estimator_._explain_weights(top)

    def _explain_labels(self, batch: Batch, answers: Answers, top: int) -> Any:
        return self.estimator_._explain_labels(batch, answers, top)

    def _score_labels(self, y: LabelsLike, predicted: LabelsLike) -> float:
        return self.estimator_._score_labels(y, predicted)

    def _acting(self, rules: RulesLike | None) -> list[Any]:
        return rule_list(self.rules_ if rules is None else rules)

    def report(self) -> str:
        """Return the kept rules in words, those that fix most first."""
        check_is_fitted(self)
        rows = sorted(
            (r for r in self.report_ if r.weight > 0 or r.contradicted),
            key=lambda r: (r.contradicted, -r.helped, -r.weight),
        )
        head = f"{self.n_candidates_} candidates, {self.n_kept_} tried, {len(self.rules_)} kept"
        if self.tau_ is not None:
            head += f"; tau {self.tau_:g}"
        if self.gains_:
            head += f"; held-out gain in points: {', '.join(map(str, self.gains_))}"
        if self.vetoed_:
            head += "; learned weights are not used: there they lose tokens, prove nothing or fix next to nothing"
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
