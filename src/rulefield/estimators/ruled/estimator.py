"""A model of sequences with rules whose weights are learned on held-out data."""

import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypedDict

import numpy as np

from rulefield.estimators.answers import Answers
from rulefield.estimators.base import Batch, SequenceEstimator
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.explanations import ModelExplanation
from rulefield.estimators.fitting import ProgressLine, report_fit
from rulefield.estimators.inputs import InputEncoder, as_list
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    N_JOBS,
    ON_INFEASIBLE,
    RANDOM_STATE,
    SOME_RULES,
    VERBOSE,
    Requirement,
    Table,
    check_parameters,
    either,
    instance_of,
    number,
    one_of,
    optional,
    rule_list,
    whole,
)
from rulefield.estimators.ruled.candidates import Candidates, find_candidates
from rulefield.estimators.ruled.families import Inner
from rulefield.estimators.ruled.gains import Gain
from rulefield.estimators.ruled.held_out import (
    CrossFitted,
    cross_fit,
    default_folds,
    held_out_examples,
    warn_of_training_data,
)
from rulefield.estimators.ruled.reports import RuleReport, warn_of_wrong_rules
from rulefield.estimators.ruled.two_stage import TAUS, TauChoice, TwoStageAnswers
from rulefield.estimators.ruled.weighing import Weighed, divide, weigh
from rulefield.estimators.saving import State
from rulefield.estimators.segments.estimator import SegmentCRF
from rulefield.estimators.types import (
    ArrayLike,
    KnownLike,
    LabelsLike,
    RulesLike,
    SequencesLike,
    Transformer,
)
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import check_typed, part_of
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import Ending, FitResult
from rulefield.learning.rule_weights.lists import costs_of
from rulefield.learning.rule_weights.path import PathSettings
from rulefield.rules.finding.observed import Parts
from rulefield.rules.rule import Rule
from rulefield.scikit import check_is_fitted, seed_of_fit

INNER = "inner."
"""What stands before the names of the inner model's arrays in a file."""


class RuledMetadata(TypedDict):
    """What a file holds of a RuledCRF beside arrays: the kind of the model inside, its metadata, whether it was given."""

    kind: str
    inner: dict[str, Any]
    given: bool


@dataclass(kw_only=True, eq=False, repr=False)
class RuledCRF(SequenceEstimator):
    """Finds out, on held-out data, which rules a chain or segments should follow and what breaking them costs.

    Parameters
    ----------
    estimator : ChainCRF or SegmentCRF, or what :func:`cross_fit` made of one and the data that ``fit`` gets
        Fitted (``cv="prefit"``) or not. Rules of segments speak of the segments themselves.
    rules : list of rules, "find", "propose" or "mine", default "find"
        Rules with ``.soft("learn")`` get their weight learned, if they earn one; rules with ``.soft("auto")`` their residual
        price, from which the likelihood may move them, or none if gold labels contradict them; the others keep theirs.
        ``"propose"`` makes candidates by template, ``"mine"`` finds them in the labeled data, ``"find"`` does both.
    method : {"soft", "two-stage"}, default "soft"
        Pay learned weights; or, among labelings nearly as probable as the best (``tau``, chosen on held-out data), take the
        one whose broken rules cost least ([Fersini14]; chains only).
    max_rules : int, optional, default 20
        Rules to find at most, beside those that have a price: what fits on a screen. None: as many as are worth it.
    cv : int or "prefit", optional
        Folds: weights are learned on potentials of models that have not seen the sequence, and the chain is then
        fitted on everything. ``"prefit"`` takes a fitted chain, and ``fit`` gets held-out data. By default 5 (3
        from a thousand sequences on), also if the chain is fitted already: as everywhere in
        scikit-learn, it is cloned.
    l2 : float, default 3.0
        Draws weights toward residual prices.
    tau : float, optional
        Fixes tau instead of choosing it (the one nearest to 1 that is within one standard error of the best).
    random_state : int, optional
        Order of sequences, and their folds.
    on_infeasible, n_jobs, verbose : as in :class:`ChainCRF`

    Attributes
    ----------
    estimator_ : ChainCRF or SegmentCRF
    rules_ : list of rules
        With learned weights; rules that would cost less than 0.1 are left out.
    report_ : list of RuleReport
        How each candidate fared; of found ones, those that are kept.
    gains_ : list of Gain
        What the rules bring on held-out sequences in token accuracy, whole sequences and span F1, with standard errors:
        on each fifth (a third if sequences are many), by rules and weights of the others. Empty if nothing was learned.
    vetoed_ : bool
        Whether learned weights are not used: tokens lost more than one standard error there (what a single sequence
        says never counts); or rules that were found gained less than two in tokens and likelihood together, or would
        fix, two standard errors above what was seen, less than 1 % of the chain's mistakes in every measure.
    tau_ : float or None
        How near to the best a labeling must be, two-stage only.
    n_candidates_, n_kept_ : int
        Rules at the beginning, and those that the model breaks more often than people do.
    log_ : list of FitRecord
        One record for each number of rules, from none to those that are kept.
    n_iter_ : int
        Records.
    converged_ : bool
        Whether the fit of the chain and the learning of weights ended by themselves.
    stopped_because_ : str
        How it ended, in words.
    """

    estimator: Inner | CrossFitted | None = field(default=None, kw_only=False)
    rules: RulesLike | str = "find"  # type: ignore[assignment]
    method: str = "soft"
    cv: int | str | None = None
    max_rules: int | None = 20
    l2: float = 3.0
    tau: float | None = None

    estimator_: Inner = field(init=False)
    rules_: list[Rule] = field(init=False)
    report_: list[RuleReport] = field(init=False)
    gains_: list[Gain] = field(init=False)
    vetoed_: bool = field(init=False)
    tau_: float | None = field(init=False)
    n_candidates_: int = field(init=False)
    n_kept_: int = field(init=False)

    _kind = "ruled"
    _parameters: ClassVar[Table] = {
        "estimator": optional(instance_of("a ChainCRF or a SegmentCRF", ChainCRF, SegmentCRF, CrossFitted)),
        "rules": either(SOME_RULES, one_of("find", "propose", "mine")),
        "method": one_of("soft", "two-stage"),
        "cv": optional(either(one_of("prefit"), Requirement("a number of folds >= 2", whole(2).holds))),
        "max_rules": optional(whole(1)),
        "l2": number(0.0, above=True),
        "tau": optional(number(0.0, 1.0)),
        "on_infeasible": ON_INFEASIBLE,
        "random_state": RANDOM_STATE,
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
    }
    _saved = (
        "rules_",
        "report_",
        "gains_",
        "vetoed_",
        "tau_",
        "n_candidates_",
        "n_kept_",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
    )

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(
        self,
        X: SequencesLike,
        y: LabelsLike,
        sample_weight: ArrayLike | None = None,
    ) -> "RuledCRF":
        """Learn weights of rules from labeled sequences (held out from the chain where it is ``prefit``)."""
        check_parameters(self)
        if sample_weight is not None:
            raise InputError(
                "RuledCRF takes no sample_weight: rules are weighed by counting sequences; leave it out."
            )
        X = as_list(X)
        gold = [list(row) for row in y]
        done = self._cross_fitted(X, gold)
        base = done.crf
        if done.interrupted:
            return self._without_learning(base)
        folds = divide(len(done.examples), seed_of_fit(self.random_state))
        if isinstance(self.rules, str):
            candidates = find_candidates(done, self.rules, folds)
        else:
            candidates = Candidates.written(rule_list(self.rules), folds)
        weighed = weigh(candidates, done, folds, PathSettings(l2=self.l2, most=self.max_rules))
        self.estimator_, self.rules_, self.report_ = base, weighed.rules, weighed.report
        self.n_candidates_, self.n_kept_ = int(candidates.groups[0].sum()), weighed.n_kept
        self.gains_, self.vetoed_ = weighed.gains, weighed.vetoed
        report_fit(self, weighed.result)
        self.converged_ = self.converged_ and base.converged_
        self.tau_ = None
        warn_of_wrong_rules(weighed.report, len(done.examples))
        if self.method == "two-stage":
            self._choose_tau(done, candidates, weighed, folds)
        return self

    def _without_learning(self, base: Inner) -> "RuledCRF":
        """Keep the chain, and the rules that have a weight already: Ctrl-C came before there was more."""
        self.estimator_, self.report_ = base, []
        self.gains_, self.vetoed_ = [], False
        self.rules_ = (
            [] if isinstance(self.rules, str) else [rule for rule in rule_list(self.rules) if not rule.is_open]
        )
        self.n_candidates_ = self.n_kept_ = len(self.rules_)
        self.tau_ = None if self.method == "soft" else 1.0 if self.tau is None else float(self.tau)
        message = "Interrupted while the chain was fitted: no rule was learned."
        report_fit(self, FitResult(np.zeros(0), 0.0, Ending.interrupted, message, ()))
        return self

    def _cross_fitted(self, X: SequencesLike, y: list[list[Any]]) -> CrossFitted:
        crf = ChainCRF() if self.estimator is None else self.estimator
        inner = crf.crf if isinstance(crf, CrossFitted) else crf
        if self.method == "two-stage" and isinstance(inner, SegmentCRF):
            raise InputError("method='two-stage' decodes chains only; use method='soft', or give a ChainCRF.")
        if isinstance(crf, CrossFitted):
            return crf
        cv = default_folds(len(y)) if self.cv is None else self.cv
        if cv == "prefit":
            check_is_fitted(
                crf, msg="the estimator of a RuledCRF must be fitted if cv='prefit'; fit it first, or give cv=5."
            )
            done = CrossFitted(copy.deepcopy(crf), held_out_examples(crf, X, y))
            warn_of_training_data(done)
            return done
        with ProgressLine(f"fitting {cv} folds", bool(self.verbose)):
            return cross_fit(crf, X, y, int(cv), seed_of_fit(self.random_state))

    def _choose_tau(self, done: CrossFitted, candidates: Candidates, weighed: Weighed, folds: Parts) -> None:
        """Choose tau, and judge what the second stage brings, on lists of likely labelings."""
        kept = np.flatnonzero(weighed.weights)
        measured = done.measured([candidates.rules[i] for i in kept], done.lists)
        costs = costs_of(measured.units, weighed.weights[kept])
        choice = TauChoice(done.lists, costs, TAUS if self.tau is None else (1.0, self.tau))
        self.tau_ = float(choice.taus[choice.best()] if self.tau is None else self.tau)
        is_judged = self.tau is None and folds.n_parts > 1
        self.gains_ = choice.gains(done.family.segments, folds) if is_judged else []

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
        chain = decoder, self.classes_.tolist(), self.estimator_.scheme, rules, on_infeasible == "relax", n_jobs
        return TwoStageAnswers(*chain, tau=tau)

    def _explain_weights(self, top: int) -> ModelExplanation:
        return self.estimator_._explain_weights(top)

    def _explain_labels(self, batch: Batch, ids: np.ndarray, labeling: Labeling, marginals: Any, top: int) -> Any:
        return self.estimator_._explain_labels(batch, ids, labeling, marginals, top)

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

    @property  # type: ignore[misc]
    def _encoder(self) -> InputEncoder:  # type: ignore[override]
        return self.estimator_._encoder

    @property  # type: ignore[misc]
    def classes_(self) -> np.ndarray:
        """Labels, sorted."""
        return self.estimator_.classes_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rules_")

    # --- files and scikit-learn -------------------------------------------------------------------

    def _state(self) -> State:
        """Return the fitted model inside; rules and what is known of them are attributes."""
        arrays, inner = self.estimator_._whole_state()
        return {f"{INNER}{name}": array for name, array in arrays.items()}, {
            "kind": self.estimator_._kind,
            "inner": inner,
            "given": self.estimator is not None,
        }

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        check_typed(metadata, RuledMetadata, "the model")
        kinds = {kind._kind: kind for kind in (ChainCRF, SegmentCRF)}
        if metadata["kind"] not in kinds:
            raise ModelFileError(
                f"the file holds rules of a {metadata['kind']!r} model; known are {', '.join(kinds)}."
            )
        self.estimator_ = kinds[metadata["kind"]]._from_state(part_of(arrays, INNER), metadata["inner"], **given)
        self.estimator = self.estimator_ if metadata["given"] else None

    def _params_to_save(self) -> dict[str, Any]:
        return {"estimator": None}  # a chain that was given comes back as the fitted one
