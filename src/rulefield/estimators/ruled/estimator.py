"""A chain CRF with rules whose weights are learned on held-out data."""

import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rulefield.encode.spans import SegmentTable
from rulefield.estimators.base import State
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.inputs import as_list, tokens_of
from rulefield.estimators.parameters import (
    FLAG,
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
from rulefield.estimators.progress import ProgressLine
from rulefield.estimators.ruled.files import restore_ruled, ruled_state
from rulefield.estimators.ruled.fitted import FittedRuled
from rulefield.estimators.ruled.held_out import (
    CrossFitted,
    cross_fit,
    default_folds,
    held_out_examples,
    warn_of_training_data,
)
from rulefield.estimators.ruled.prices import at_prices
from rulefield.estimators.ruled.two_stage import TAUS, TauChoice
from rulefield.estimators.ruled.weighing import Learner, Weighed, folds_of, weigh
from rulefield.estimators.types import (
    ArrayLike,
    Client,
    LabelsLike,
    RulesLike,
    SequencesLike,
    Transformer,
)
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import Ending, FitResult
from rulefield.learning.rule_weights.learners import costs_of
from rulefield.parallel import executor_of, n_threads
from rulefield.rules import mine, propose
from rulefield.rules.finding.mine import ASKED_FOR, FAMILIES
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import have_texts
from rulefield.scikit import check_is_fitted, seed_of_fit

DEFAULT_PASSES = 10
DEFAULTS = {
    "perceptron": {"l1": 0.0, "l2": 1.0},
    "ssvm": {"l1": 0.0, "l2": 1.0},
    "likelihood": {"l1": 1.0, "l2": 1.0},
}


class RuledCRF(FittedRuled):
    """Finds out, on held-out data, which rules a chain should follow and what breaking them should cost.

    Parameters
    ----------
    estimator : ChainCRF, or what :func:`cross_fit` made of one and the data that ``fit`` gets
        Fitted (``cv="prefit"``) or not.
    rules : list of rules, "find", "propose" or "mine", default "find"
        Rules with ``.soft("learn")`` get their weight learned; rules with ``.soft("auto")`` their residual price, from which
        the likelihood may move them; the others keep theirs. ``"propose"`` makes candidates by template, ``"mine"`` finds
        them in the labeled data (the likelihood then begins from their residual prices), ``"find"`` does both.
    method : {"soft", "two-stage"}, default "soft"
        Pay learned weights; or, among labelings nearly as probable as the best (``tau``, chosen on held-out data), the
        one whose broken rules cost least ([Fersini14]). Found rules then have residual prices, each beyond the others'.
    algorithm : {"perceptron", "ssvm", "likelihood"}, default "likelihood"
        That of [Anzaroot14]; the convex margin, with a duality gap; penalized likelihood, which needs fewer examples,
        keeps fewer of the rules that say nearly the same, and is the quickest.
    cv : int or "prefit", optional
        Folds: weights are learned on potentials of models that have not seen the sequence, and the chain is then
        fitted on everything. ``"prefit"`` takes a fitted chain, and ``fit`` gets held-out data. By default 5 (10
        below a hundred sequences, 3 from a thousand on), also where the chain is fitted already: as everywhere in
        scikit-learn, it is cloned.
    cutoff : float, default 1.0
        Rules to be learned whose importance is lower are dropped before learning: by default those that gold labels break
        more often than the model does. The paper's 2.75 throws most of the gain away.
    max_iter : int, optional
        None: 10. Passes over the held-out sequences; for the likelihood, rounds of decoding at most (two or three are usually
        enough).
    rate : float, default 0.1
        Step of the perceptron, in nats.
    l1, l2 : float, optional
        Penalties (``l2`` plays no part in the perceptron): 0 and 1; for the likelihood 1 and 1.
    tau : float, optional
        Fixes tau instead of choosing it (the one nearest to 1 that is within one standard error of the best).
    only_helpful : bool, default False
        Drop learned rules that, each by itself, do not mend more held-out tokens than they spoil: for few examples.
    on_infeasible : {"raise", "relax"}, default "raise"
        What predictions do where hard rules contradict each other, as in :class:`ChainCRF`.
    random_state : int, optional
        Order of sequences, and their folds.
    n_jobs : int, optional
        Threads (-1: one per core). The result is the same for any number.
    verbose : int, default 0
        1 shows a progress bar.

    Attributes
    ----------
    estimator_ : ChainCRF
        The fitted chain.
    rules_ : list of rules
        With learned weights; rules of weight 0 are gone.
    report_ : list of RuleReport
        How each candidate fared.
    gains_ : list of Gain
        What the rules bring on held-out sequences in token accuracy, whole sequences and span F1, with standard errors:
        on each fifth (a third where sequences are many, half for the slower learners), by rules and weights of the
        others. Empty where nothing was learned.
    vetoed_ : bool
        Whether learned weights are not used: tokens lost more than one standard error there (what a single sequence
        says never counts); or rules that were found gained less than one in tokens and likelihood together, or would
        mend, two standard errors above what was seen, less than 1 % of the chain's mistakes in every measure.
    tau_ : float or None
        How near to the best a labeling must be, two-stage only.
    n_candidates_, n_kept_ : int
        Rules at the beginning, and those important enough to be learned.
    log_ : list of FitRecord
        One record per pass over the held-out sequences.
    n_iter_ : int
        Passes done.
    converged_ : bool
        Whether learning ended by itself.
    stopped_because_ : str
        How it ended, in words.
    gap_ : float or None
        Duality gap (``ssvm``).
    """

    _kind = "ruled"
    _parameters: ClassVar[Table] = {
        "estimator": optional(instance_of("a ChainCRF", ChainCRF, CrossFitted)),
        "rules": either(SOME_RULES, one_of("find", "propose", "mine")),
        "method": one_of("soft", "two-stage"),
        "algorithm": one_of("perceptron", "ssvm", "likelihood"),
        "cv": optional(either(one_of("prefit"), Requirement("a number of folds >= 2", whole(2).holds))),
        "cutoff": number(),
        "max_iter": optional(whole(1)),
        "rate": number(0.0, above=True),
        "l1": optional(number()),
        "l2": optional(number()),
        "tau": optional(number(0.0, 1.0)),
        "only_helpful": FLAG,
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
        "gap_",
    )

    def __init__(
        self,
        estimator: ChainCRF | CrossFitted | None = None,
        *,
        rules: RulesLike | str = "find",
        method: str = "soft",
        algorithm: str = "likelihood",
        cv: int | str | None = None,
        cutoff: float = 1.0,
        max_iter: int | None = None,
        rate: float = 0.1,
        l1: float | None = None,
        l2: float | None = None,
        tau: float | None = None,
        only_helpful: bool = False,
        on_infeasible: str = "raise",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.rules = rules
        self.method = method
        self.algorithm = algorithm
        self.cv = cv
        self.cutoff = cutoff
        self.max_iter = max_iter
        self.rate = rate
        self.l1 = l1
        self.l2 = l2
        self.tau = tau
        self.only_helpful = only_helpful
        self.on_infeasible = on_infeasible
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(
        self,
        X: SequencesLike,
        y: LabelsLike,
        sample_weight: ArrayLike | None = None,
        *,
        client: Client | None = None,
    ) -> "RuledCRF":
        """Learn weights of rules from labeled sequences (held out from the chain where it is ``prefit``).

        With a ``client`` (``distributed.Client``), its workers fit the chains of the folds and decode what is held out.
        """
        check_parameters(self)
        if sample_weight is not None:
            raise InputError(
                "RuledCRF takes no sample_weight: rules are weighed by counting sequences; leave it out."
            )
        X = as_list(
            X,
            "rules look at tokens, which a corpus on disk does not keep; fit the chain on the corpus, and give "
            'RuledCRF(chain, cv="prefit") lists that it has not seen.',
        )
        gold = [list(row) for row in y]
        done = self._held_out(X, gold, client)
        base = done.crf
        if done.interrupted:
            return self._without_learning(base)
        candidates, find = self._candidates(X, gold, base), None
        if isinstance(self.rules, str) and self.method == "soft":
            find = partial(self._found_in, done)
        elif isinstance(self.rules, str):
            candidates = at_prices(candidates, done.prices_together(candidates))
        weighed = weigh(candidates, done, self._learner(), find)
        self.estimator_, self.rules_, self.report_ = base, weighed.rules, weighed.report
        self.n_candidates_, self.n_kept_ = len(weighed.report), weighed.n_kept
        self.gains_, self.vetoed_, self.gap_ = weighed.gains, weighed.vetoed, weighed.result.gap
        report_fit(self, weighed.result)
        self.tau_ = None
        if self.method == "two-stage":
            self._choose_tau(done, weighed)
        return self

    def _learner(self) -> Learner:
        return Learner(
            algorithm=self.algorithm,
            learns=self.method == "soft",
            cutoff=self.cutoff,
            max_iter=self.max_iter or DEFAULT_PASSES,
            rate=self.rate,
            l1=self._setting("l1"),
            l2=self._setting("l2"),
            only_helpful=self.only_helpful,
            seed=seed_of_fit(self.random_state),
            n_jobs=n_threads(self.n_jobs),
        )

    def _setting(self, name: str) -> float:
        """Return an option of the learner, or its default."""
        given = getattr(self, name)
        return float(DEFAULTS[self.algorithm][name] if given is None else given)

    def _without_learning(self, base: ChainCRF) -> "RuledCRF":
        """Keep the chain, and the rules that have a weight already: Ctrl-C came before there was more."""
        self.estimator_, self.report_, self.gap_ = base, [], None
        self.gains_, self.vetoed_ = [], False
        self.rules_ = (
            [] if isinstance(self.rules, str) else [rule for rule in rule_list(self.rules) if not rule.is_open]
        )
        self.n_candidates_ = self.n_kept_ = len(self.rules_)
        self.tau_ = None if self.method == "soft" else 1.0 if self.tau is None else float(self.tau)
        message = "Interrupted while the chain was fitted: no rule was learned."
        report_fit(self, FitResult(np.zeros(0), 0.0, Ending.interrupted, message, ()))
        return self

    def _held_out(self, X: SequencesLike, y: list[list[Any]], client: Client | None) -> CrossFitted:
        done = self._cross_fitted(X, y, client)
        return done if client is None else replace(done, executor=executor_of(1, client))

    def _cross_fitted(self, X: SequencesLike, y: list[list[Any]], client: Client | None) -> CrossFitted:
        crf = ChainCRF() if self.estimator is None else self.estimator
        if isinstance(crf, CrossFitted):
            return crf
        cv = default_folds(len(y)) if self.cv is None else self.cv
        if cv == "prefit":
            check_is_fitted(
                crf, msg="the chain of a RuledCRF must be fitted where cv='prefit'; fit it first, or give cv=5."
            )
            done = CrossFitted(copy.deepcopy(crf), held_out_examples(crf, X, y))
            warn_of_training_data(done)
            return done
        with ProgressLine(f"fitting {cv} folds", bool(self.verbose)):
            return cross_fit(crf, X, y, int(cv), seed_of_fit(self.random_state), client=client)

    def _candidates(self, X: SequencesLike, y: list[list[Any]], base: ChainCRF) -> list[Rule]:
        if not isinstance(self.rules, str):
            return rule_list(self.rules)
        rows = [i for i, gold in enumerate(y) if set(gold) <= set(base.classes_)]
        return self._found([tokens_of(X, i) for i in rows], [y[i] for i in rows], base)

    def _found_in(self, held: CrossFitted, members: np.ndarray) -> list[Rule]:
        """Candidates that some of the held-out sequences show."""
        classes, some = held.crf.classes_, [held.examples[i] for i in members]
        return self._found([e.tokens for e in some], [[classes[k] for k in e.gold] for e in some], held.crf)

    def _found(self, tokens: list[Any], y: list[list[Any]], base: ChainCRF) -> list[Rule]:
        labels = [str(c) for c in base.classes_]
        proposed = propose(y, scheme=base.scheme, labels=labels) if self.rules in ("find", "propose") else []
        if self.rules == "propose":
            return proposed
        seen = tokens if have_texts(tokens) else None
        families = None if seen is None else (*FAMILIES, *ASKED_FOR)
        price = "auto" if self.algorithm == "likelihood" else "learn"
        return [*proposed, *mine(seen, y, scheme=base.scheme, price=price, families=families)]

    def _choose_tau(self, done: CrossFitted, weighed: Weighed) -> None:
        """Choose tau, and judge what the second stage brings, on lists of likely labelings."""
        lists = done.lists
        units = weighed.data.units(lists.labelings, lists.owner)
        choice = TauChoice(lists, costs_of(units, weighed.weights), TAUS if self.tau is None else (1.0, self.tau))
        self.tau_ = float(choice.taus[choice.best()] if self.tau is None else self.tau)
        table = SegmentTable([str(c) for c in self.classes_], self.estimator_.scheme)
        self.gains_ = (
            choice.gains(table, folds_of(len(lists.examples), seed_of_fit(self.random_state)))
            if self.tau is None
            else []
        )

    # --- files and scikit-learn -------------------------------------------------------------------

    def _state(self) -> State:
        return ruled_state(self)

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        restore_ruled(self, arrays, metadata, **given)

    def _params_to_save(self) -> dict[str, Any]:
        return {"estimator": None}  # a chain that was given comes back as the fitted one
