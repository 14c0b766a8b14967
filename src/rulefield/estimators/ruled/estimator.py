"""A chain CRF with rules whose weights are learned on held-out data."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from rulefield.encode.spans import SegmentTable
from rulefield.estimators.base import SequenceEstimator, State
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.progress import ProgressLine
from rulefield.estimators.ruled.files import FITTED_CHAIN, restore_ruled, ruled_state
from rulefield.estimators.ruled.two_stage import TwoStageDecoder
from rulefield.estimators.sequences import object_array
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import Ending, FitResult
from rulefield.learning.rule_weights.learners import Example, Examples, learn_margin, learn_perceptron
from rulefield.learning.rule_weights.likelihood import WrongSpans, learn_likelihood
from rulefield.metrics import span_f1
from rulefield.parallel import n_threads
from rulefield.rules import RuleCompiler, mine, propose
from rulefield.rules.finding.importance import CUTOFF, importance_of
from rulefield.rules.rule import LEARN, Rule

DEFAULTS = {
    "perceptron": {"cutoff": CUTOFF, "l1": 0.0, "l2": 1.0},
    "ssvm": {"cutoff": CUTOFF, "l1": 0.0, "l2": 1.0},
    "likelihood": {"cutoff": 1.0, "l1": 1.0, "l2": 0.3},
}

TAUS = (1.0, 0.995, 0.99, 0.98, 0.97, 0.95, 0.93, 0.9, 0.85, 0.8)


@dataclass(frozen=True)
class RuleReport:
    """How a rule fared on the held-out data.

    ``importance`` counts sequences that the plain model breaks over those that gold labels break; ``acted`` sequences
    whose labels this rule alone changes; ``helped`` tokens that became right by it minus tokens that became wrong.
    """

    rule: str
    weight: float
    importance: float
    broken_by_model: int
    broken_by_gold: int
    acted: int
    helped: int

    def __str__(self) -> str:
        return (
            f"{self.weight:8.3f}  importance {self.importance:6.2f}  broken by model/gold "
            f"{self.broken_by_model}/{self.broken_by_gold}  acted {self.acted}  helped {self.helped:+d}  {self.rule}"
        )


@dataclass(frozen=True)
class CrossFitted:
    """A chain fitted on some sequences, and each one's potentials by a chain that has not seen it."""

    crf: ChainCRF
    examples: list[Example]


def cross_fit(
    crf: ChainCRF,
    X: Any,
    y: Sequence[Sequence[Any]],
    cv: int = 5,
    random_state: int = 0,
    held_out: tuple[Any, Sequence[Sequence[Any]]] | None = None,
) -> CrossFitted:
    """Fit a chain on everything and on ``cv`` folds, once; several :class:`RuledCRF` can then share the work.

    ``held_out`` (X, y) are further sequences to learn rules from: the chain is not fitted on them.
    """
    X, gold = as_list(X), [list(row) for row in y]
    base = clone(crf).fit(X, gold)
    rows: list[Example] = []
    for train, test in KFold(cv, shuffle=True, random_state=random_state).split(np.arange(len(gold))):
        fold = clone(crf).fit(_pick(X, train), [gold[i] for i in train])
        rows += _examples(fold, _pick(X, test), [gold[i] for i in test], base.classes_)
    if held_out is not None:
        rows += _examples(base, as_list(held_out[0]), [list(row) for row in held_out[1]])
    return CrossFitted(base, rows)


class RuledCRF(SequenceEstimator):
    """Finds out, on held-out data, which rules a chain should follow and what breaking them should cost.

    Parameters
    ----------
    crf : ChainCRF, or what :func:`cross_fit` made of one and the data that ``fit`` gets
        Fitted (``cv="prefit"``) or not.
    rules : list of rules, "propose" or "mine"
        Rules with ``.soft("learn")`` get their weight learned; the others keep theirs. ``"propose"`` makes candidates
        by template, ``"mine"`` finds them in the labelled data.
    method : {"soft", "two-stage"}
        Pay learned weights; or, among labellings nearly as probable as the best (``tau``, chosen on held-out data),
        the one that breaks least (costs then come from how often rules fail in the labels).
    learner : {"perceptron", "ssvm", "likelihood"}
        The paper's; the convex margin, with a duality gap; penalised likelihood, which needs fewer examples, keeps
        fewer of the rules that say nearly the same and did best on held-out citations.
    cv : int or "prefit"
        Folds: weights are learned on potentials of models that have not seen the sequence, and the chain is then
        fitted on everything. ``"prefit"`` takes a fitted chain, and ``fit`` gets held-out data.
    cutoff : float, optional
        Rules to be learned whose importance is lower are dropped before learning. 2.75, as in the paper; for the
        likelihood, which drops rules well by itself, 1.
    epochs : int
        For the likelihood, rounds of decoding at most; two or three are usually enough.
    rate : float
        Of the perceptron.
    l1, l2 : float, optional
        Penalties (``l2`` plays no part in the perceptron): 0 and 1; for the likelihood 1 and 0.3.
    tau : float, optional
        Fixes tau instead of choosing it.
    only_helpful : bool
        Drop learned rules that, each by itself, do not mend more held-out tokens than they spoil: for few examples.
    random_state : int
    n_jobs : int, optional
    verbose : int

    Attributes
    ----------
    crf_ : ChainCRF
    rules_ : list of rules
        With learned weights; rules of weight 0 are gone.
    report_ : list of RuleReport
    tau_ : float or None
    """

    _kind = "ruled"
    _saved = (
        "rules_",
        "report_",
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
        crf: Any = None,
        rules: Sequence[Rule] | str = "propose",
        *,
        method: str = "soft",
        learner: str = "perceptron",
        cv: int | str = "prefit",
        cutoff: float | None = None,
        epochs: int = 10,
        rate: float = 0.1,
        l1: float | None = None,
        l2: float | None = None,
        tau: float | None = None,
        only_helpful: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.crf = crf
        self.rules = rules
        self.method = method
        self.learner = learner
        self.cv = cv
        self.cutoff = cutoff
        self.epochs = epochs
        self.rate = rate
        self.l1 = l1
        self.l2 = l2
        self.tau = tau
        self.only_helpful = only_helpful
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(self, X: Any, y: Sequence[Sequence[Any]]) -> "RuledCRF":
        """Learn weights of rules from labelled sequences (held out from the chain where it is ``prefit``)."""
        self._check_options()
        X, gold = as_list(X), [list(row) for row in y]
        base, examples = self._held_out(X, gold)
        rules = self._candidates(X, gold, base)
        compiler = RuleCompiler(rules, [str(c) for c in base.classes_], base.scheme)
        fixed = np.array([np.nan if rule.weight == LEARN else float(rule.weight) for rule in rules])
        once = np.array([rule.per == "once" for rule in rules], dtype=bool)
        data = Examples(examples, compiler, fixed, once, n_threads(self.n_jobs))
        plain = data.decode(range(len(data)), np.zeros(len(rules)))
        broken = np.array([units for _, units in plain]).T.reshape(len(rules), len(data))
        score = importance_of(broken, data.gold.T)
        keep = np.flatnonzero(~data.learned | (score >= self._setting("cutoff")))
        self.crf_ = base
        self.n_candidates_, self.n_kept_ = len(rules), len(keep)
        learned = self._learn(examples, [rules[i] for i in keep], base)
        self.gap_ = learned.gap
        report_fit(self, learned, "epochs")
        weights = np.zeros(len(rules))
        weights[keep] = learned.theta
        weights = np.where(data.learned, weights, fixed)
        self.rules_ = [_priced(rule, w) for rule, w in zip(rules, weights) if w > 0]
        effects = self._effects(examples, base, [labels for labels, _ in plain])
        if self.only_helpful:
            weights, effects = _helpful(weights, data.learned, effects)
            self.rules_ = [_priced(rule, w) for rule, w in zip(rules, weights) if w > 0]
        self.tau_ = self._choose_tau(data, weights) if self.method == "two-stage" else None
        self.report_ = _reports(rules, weights, score, broken, data.gold.T, effects)
        return self

    def _effects(self, examples: list[Example], base: ChainCRF, plain: list[np.ndarray]) -> list[tuple[int, int]]:
        """For each kept rule, the sequences it changes by itself, and the tokens it mends minus those it spoils."""
        compiler = RuleCompiler(self.rules_, [str(c) for c in base.classes_], base.scheme)
        none = np.full(len(self.rules_), np.nan)
        data = Examples(examples, compiler, none, none == none, n_threads(self.n_jobs))
        broken = np.array([data.paid(e.tokens, labels) for e, labels in zip(examples, plain)])
        return [
            _effect(data, r, float(rule.weight), np.flatnonzero(broken[:, r]).tolist(), plain)
            for r, rule in enumerate(self.rules_)
        ]

    def _setting(self, name: str) -> float:
        """Return an option of the learner, or its default."""
        given = getattr(self, name)
        return float(DEFAULTS[self.learner][name] if given is None else given)

    def _check_options(self) -> None:
        choices = {"method": ("soft", "two-stage"), "learner": ("perceptron", "ssvm", "likelihood")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        if self.cv != "prefit" and (not isinstance(self.cv, int) or self.cv < 2):
            raise InputError(f"cv must be 'prefit' or a number of folds >= 2; got {self.cv!r}.")
        if self.crf is not None and not isinstance(self.crf, ChainCRF | CrossFitted):
            raise InputError(f"crf must be a ChainCRF; got {type(self.crf).__name__}.")

    def _held_out(self, X: Any, y: list[list[Any]]) -> tuple[ChainCRF, list[Example]]:
        crf = ChainCRF() if self.crf is None else self.crf
        if isinstance(crf, CrossFitted):
            return crf.crf, crf.examples
        if self.cv == "prefit":
            check_is_fitted(
                crf, msg="the chain of a RuledCRF must be fitted where cv='prefit'; fit it first, or give cv=5."
            )
            return copy.deepcopy(crf), _examples(crf, X, y)
        with ProgressLine(f"fitting {self.cv} folds", bool(self.verbose)):
            done = cross_fit(crf, X, y, int(self.cv), self.random_state)
        return done.crf, done.examples

    def _candidates(self, X: Any, y: list[list[Any]], base: ChainCRF) -> list[Rule]:
        labels = [str(c) for c in base.classes_]
        if isinstance(self.rules, str):
            rows = np.array([i for i, gold in enumerate(y) if set(gold) <= set(base.classes_)], dtype=np.int64)
            X, y = _pick(X, rows), [y[i] for i in rows]
            if self.rules == "propose":
                return propose(y, scheme=base.scheme, labels=labels)
            if self.rules == "mine":
                return mine(X, y, scheme=base.scheme, learn=self.method == "soft")
            raise InputError(f"rules must be a list of rules, 'propose' or 'mine'; got {self.rules!r}.")
        return list(self.rules)

    def _learn(self, examples: list[Example], rules: list[Rule], base: ChainCRF) -> FitResult:
        fixed = np.array([np.nan if rule.weight == LEARN else float(rule.weight) for rule in rules])
        if not np.isnan(fixed).any():
            return FitResult(fixed, 0.0, Ending.converged, "No rule has a weight to learn.", ())
        once = np.array([rule.per == "once" for rule in rules], dtype=bool)
        compiler = RuleCompiler(rules, [str(c) for c in base.classes_], base.scheme)
        data = Examples(examples, compiler, fixed, once, n_threads(self.n_jobs))
        if self.learner == "likelihood":
            table = SegmentTable([str(c) for c in base.classes_], base.scheme)
            return learn_likelihood(
                data,
                rounds=self.epochs,
                l1=self._setting("l1"),
                l2=self._setting("l2"),
                distance=WrongSpans(table),
            )
        common = {"epochs": self.epochs, "l1": self._setting("l1"), "seed": self.random_state}
        if self.learner == "perceptron":
            return learn_perceptron(data, rate=self.rate, **common)  # type: ignore[arg-type]
        return learn_margin(data, l2=self._setting("l2"), **common)  # type: ignore[arg-type]

    def _choose_tau(self, data: Examples, weights: np.ndarray) -> float:
        if self.tau is not None:
            return float(self.tau)
        compiler = data.compiler.with_weights(weights)
        right = {}
        for tau in TAUS:
            found = [TwoStageDecoder.best(e.potentials, compiler(e.tokens), tau) for e in data.examples]
            right[tau] = sum(int((a == e.gold).sum()) for a, e in zip(found, data.examples))
        return max(TAUS, key=lambda tau: (right[tau], tau))

    # --- prediction -------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the best labels of each sequence under the learned rules: a 1-D object array of lists."""
        return object_array([labelling.labels for labelling in self.decode(X)])

    def decode(self, X: Any, **how: Any) -> list[Labeling]:
        """Return the best labelling of each sequence with its score, bound, status and broken rules."""
        check_is_fitted(self)
        if self.method == "soft":
            return self.crf_.decode(X, rules=self.rules_, **how)
        return TwoStageDecoder(self.crf_, self.rules_, float(self.tau_ or 1.0)).decode(as_list(X))

    def score(self, X: Any, y: Any) -> float:
        """Span F1, as :meth:`ChainCRF.score`."""
        return span_f1(list(y), list(self.predict(X)), scheme=self.crf_.scheme)

    def report(self) -> str:
        """Return the kept rules in words, the dearest first."""
        check_is_fitted(self)
        rows = sorted((r for r in self.report_ if r.weight > 0), key=lambda r: -r.weight)
        head = f"{self.n_candidates_} candidates, {self.n_kept_} tried, {len(self.rules_)} kept"
        if self.tau_ is not None:
            head += f"; tau {self.tau_:g}"
        return "\n".join([head, *map(str, rows)])

    # --- files and scikit-learn -------------------------------------------------------------------

    def _state(self) -> State:
        return ruled_state(self)

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        restore_ruled(self, arrays, metadata, **given)

    def _params_to_save(self) -> dict[str, Any]:
        return {"crf": None if self.crf is None else FITTED_CHAIN}

    @property
    def _encoder(self) -> InputEncoder:  # type: ignore[override]
        return self.crf_._encoder

    @property
    def classes_(self) -> list[Any]:
        """Labels, sorted."""
        return self.crf_.classes_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rules_")


def _priced(rule: Rule, weight: float) -> Rule:
    return rule.hard() if np.isinf(weight) else rule.soft(float(weight), per=rule.per)


def _pick(X: Any, rows: np.ndarray) -> Any:
    return [X[i] for i in rows] if isinstance(X, (list, tuple)) else X[rows]


def _examples(crf: ChainCRF, X: Any, y: list[list[Any]], classes: list[Any] | None = None) -> list[Example]:
    """Held-out potentials; over the labels ``classes`` where a fold has not seen them all."""
    data = crf._encoder.transform(X)
    decoder = crf._decoder()
    index = {label: i for i, label in enumerate(crf.classes_ if classes is None else classes)}
    column = np.array([index[label] for label in crf.classes_])
    out, impossible = [], []
    strange = [i for i, gold in enumerate(y) if not set(gold) <= set(index)]
    if strange:
        label = next(label for label in y[strange[0]] if label not in index)
        warnings.warn(
            f"{len(strange)} held-out sequences have labels that the chain was not trained on, such as {label!r}; they are "
            "left out.",
            UserWarning,
            stacklevel=3,
        )
    for i, gold in enumerate(y):
        if i in strange:
            continue
        potentials = decoder.potentials(data, i)
        if len(index) > len(column):
            potentials = _widened(potentials, column, len(index))
        labels = np.array([index[label] for label in gold], dtype=np.int64)
        if potentials.score(labels) == -np.inf:  # no weight of a rule could make it the best
            impossible.append(i)
            continue
        out.append(Example(tokens_of(X, i), potentials, labels))
    if impossible:
        warnings.warn(
            f"{len(impossible)} held-out sequences have labels that the scheme forbids, the first is {impossible[0]}; they "
            "are left out (rulefield.encode.spans.convert mends labels).",
            UserWarning,
            stacklevel=3,
        )
    return out


def _widened(potentials: Any, column: np.ndarray, m: int) -> Any:
    """Potentials over ``m`` labels from those over ``column``; labels that a fold never saw score as its worst."""
    unary = np.full((potentials.n_steps, m), potentials.unary[np.isfinite(potentials.unary)].min())
    unary[:, column] = potentials.unary
    stack = potentials.pairwise_stack
    pairwise = np.zeros((len(stack), m, m))
    pairwise[np.ix_(np.arange(len(stack)), column, column)] = stack
    return type(potentials)(unary, pairwise[0] if potentials.pairwise.ndim == 2 else pairwise)


def _helpful(
    weights: np.ndarray, learned: np.ndarray, effects: list[tuple[int, int]]
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Take the weight from learned rules that mend no more than they spoil; ``effects`` are those of rules with weight."""
    helped = np.zeros(len(weights))
    helped[weights > 0] = [tokens for _, tokens in effects]
    kept = ~learned | (helped > 0)
    return np.where(kept, weights, 0.0), [e for e, keep in zip(effects, kept[weights > 0]) if keep]


def _reports(
    rules: list[Rule],
    weights: np.ndarray,
    importance: np.ndarray,
    broken: np.ndarray,
    gold: np.ndarray,
    effects: list[tuple[int, int]],
) -> list[RuleReport]:
    kept = iter(effects)
    return [
        RuleReport(
            rule.label,
            float(weights[r]),
            float(importance[r]),
            int((broken[r] > 0).sum()),
            int((gold[r] > 0).sum()),
            *(next(kept) if weights[r] > 0 else (0, 0)),
        )
        for r, rule in enumerate(rules)
    ]


def _effect(data: Examples, r: int, weight: float, members: list[int], plain: list[np.ndarray]) -> tuple[int, int]:
    alone = np.zeros(len(data.learned))
    alone[r] = weight
    acted = helped = 0
    for i, (labels, _) in zip(members, data.decode(members, alone)):
        gold, before = data.examples[i].gold, plain[i]
        acted += int((labels != before).any())
        helped += int((labels == gold).sum() - (before == gold).sum())
    return acted, helped
