"""Decoding joint chains under rules: the factored maximum first, and a small exact problem only if rules are broken.

The best labeling without rules is best with them if it breaks none. Otherwise rules that are sums over single tokens
go into the scores, and the maximum is taken again; then rules that count tokens are tried at their full price, which proves
a labeling that pays it. What is still broken is decided in small chains that are sure to hold all
good labelings (:mod:`rulefield.inference.sequences.windows`), by the walk of stages that all sequences share.
The factored maximum and the amounts of rules are found for many chains at once.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.checker import breaches, mismatch
from rulefield.inference.engines import Engine, Engines
from rulefield.inference.limits import deadline
from rulefield.inference.result import TOLERANCE, Breach, Result, Status, judge, rounding_error
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.decode import ENGINES as CHAIN_ENGINES
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.joint.exact import best_through, joint_viterbi
from rulefield.inference.sequences.joint.rules import (
    about_tokens,
    counts_tokens,
    folded,
    full_price,
    joint_amounts,
    token_costs,
)
from rulefield.inference.sequences.windows import WindowChain, WindowSearch
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule
from rulefield.problem.joint import JointPotentials, JointProblem

Run = Callable[[JointProblem, int, float | None], list[Result]]
"""(problem, node_limit, seconds) -> a Result per chain."""

MOST_STATES = 1_000
"""Joint states that a chain over some of them may have: its transition matrix is dense."""


def decode_joint(
    problem: JointProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> list[Result]:
    """Best joint states of every chain under its rules, each with a certificate.

    Arguments are those of :func:`rulefield.inference.sequences.decode.decode`; ``engine`` of a result is ``viterbi`` if the
    factored maximum, with rules about single tokens inside, settled it.
    """
    return ENGINES.find(engine).run(problem, node_limit, seconds)


def decode_auto(problem: JointProblem, node_limit: int, seconds: float | None) -> list[Result]:
    """``auto``: the factored maximum, and small chains where rules are broken.

    Constants are taken out of the scores first where they are so large that sums would lose digits to them.
    """
    p = problem.potentials
    longest = int(np.diff(p.offsets).max(initial=0))
    size = longest * (float(np.abs(p.best).max(initial=0.0)) + sum(map(abs, p.tops)))
    if rounding_error(longest * (len(p.sizes) + 2), size) <= TOLERANCE / 100.0:
        return _decode(problem, node_limit, seconds)
    flat = _decode(replace(problem, potentials=p.centered()), node_limit, seconds)
    return [_restored(p, i, result) for i, result in enumerate(flat)]


def _restored(p: JointPotentials, i: int, flat: Result) -> Result:
    """Return a result under the centered scores as one under the scores themselves."""
    n = int(p.offsets[i + 1] - p.offsets[i])
    if len(flat.labels) < n:
        constant = float(p.best[p.offsets[i] : p.offsets[i + 1]].sum()) + (n - 1) * sum(p.tops)
        return replace(flat, upper_bound=flat.upper_bound + constant)
    score = p.score(i, flat.labels) if n else flat.score
    objective = score - sum(b.cost for b in flat.broken)
    return replace(flat, score=score, objective=objective, upper_bound=objective + flat.gap)


def _decode(problem: JointProblem, node_limit: int, seconds: float | None) -> list[Result]:
    p = problem.potentials
    states, scores = joint_viterbi(p)
    _confirm(p, states, scores)
    broken = joint_amounts(problem, states)
    results: list[Result] = []
    searches: list[JointSearch] = []
    bounds, guilty = np.asarray(p.offsets).tolist(), (broken.sum(axis=1) > 0).tolist()
    for i, score in enumerate(scores.tolist()):
        own = states[bounds[i] : bounds[i + 1]]
        if not len(own):
            results.append(decode(problem.over(i, np.zeros(1, np.int64))))  # any joint state will do
        elif score == -np.inf:
            results.append(_nothing(-np.inf, 1))
        else:
            results.append(Result(own, score, score, score, Status.optimal, "viterbi", 1))
            if guilty[i]:
                searches.append(JointSearch(problem, i))
                searches[-1].judge(own, broken[i])
                searches[-1].conclude(score)
    _maximize([search for search in searches if search.fold()])
    _maximize([search for search in searches if search.price()])
    for search in searches:
        search.search(node_limit, seconds)
        results[search.chain] = search.result()
    return results


def _confirm(p: JointPotentials, states: np.ndarray, claimed: np.ndarray) -> None:
    """Raise where the factored maximum claims another score for a labeling than the definition gives it."""
    found, sizes = p.defined_scores(states)
    reached = np.flatnonzero(claimed > -np.inf)
    error = rounding_error(4 * (len(p.sizes) + 2) * int(np.diff(p.offsets).max(initial=0)), 1.0) * sizes
    wrong = reached[~(np.abs(found[reached] - claimed[reached]) <= error[reached])]
    if len(wrong):
        raise mismatch(float(claimed[wrong[0]]), float(found[wrong[0]]))


def _maximize(searches: "list[JointSearch]") -> None:
    """Take the factored maximum of some searches' scores, for all at once, and judge what it finds."""
    if not searches:
        return
    offsets = np.concatenate([[0], np.cumsum([len(search.scores) for search in searches])])
    problem, rows = searches[0].problem, [search.scores for search in searches]
    potentials = replace(problem.potentials, psi=np.concatenate(rows), offsets=offsets)
    states, scores = joint_viterbi(potentials)
    rules = tuple(problem.rules[search.chain] for search in searches)
    amounts = joint_amounts(JointProblem(potentials, rules, problem.letters), states)
    for search, own, score, broken in zip(searches, np.split(states, offsets[1:-1]), scores.tolist(), amounts):
        search.steps += 1
        if score > -np.inf:
            search.judge(own, broken)
        search.conclude(score + search.constant)


def _dense(engine: str) -> Run:
    """Return an engine of chains as it runs on the dense product of all label sets."""

    def run(problem: JointProblem, node_limit: int, seconds: float | None) -> list[Result]:
        chains = range(len(problem.potentials.offsets) - 1)
        return [decode(problem.over(i), engine, node_limit, seconds) for i in chains]

    return run


ENGINES: Engines[Run] = Engines(
    "joint chains",
    [
        Engine("auto", decode_auto, True, CHAIN_ENGINES["auto"].reads),
        *(Engine(e.name, _dense(e.name), e.exact, e.reads) for e in CHAIN_ENGINES.values() if e.name != "auto"),
    ],
)
"""``auto``, and the engines of chains, which run on the dense product of all label sets."""


def whole(problem: JointProblem) -> tuple[ChainProblem, np.ndarray]:
    """Return the first chain over all joint states that are open at some token, and these; refused if they are too many."""
    scores = problem.potentials.scores(0)
    states = np.flatnonzero((scores > -np.inf).any(axis=0)) if len(scores) else np.zeros(1, np.int64)
    if len(states) > MOST_STATES:
        raise InputError(
            f"sums under rules that look beyond single tokens take at most {MOST_STATES} joint labels, and {len(states)} are "
            "open here; give known labels, fewer tasks, or rules about single tokens."
        )
    return problem.over(0, states), states


def _nothing(bound: float, steps: int) -> Result:
    status = Status.infeasible if bound == -np.inf else Status.bounded
    return Result(np.zeros(0, np.int64), -np.inf, -np.inf, bound, status, "auto", steps)


class JointSearch(WindowSearch):
    """What is known of one chain so far.

    ``scores`` (n, S) have rules inside, at their full price if ``priced``; their maximum plus ``constant`` bounds all. The
    best labeling breaks the rules ``broken``.
    """

    def __init__(self, problem: JointProblem, chain: int):
        super().__init__()
        self.problem, self.chain, self.rules = problem, chain, problem.rules[chain]
        self.scores = problem.potentials.scores(chain)
        self.constant, self.priced = 0.0, False
        self.broken: tuple[Breach, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the bound proves the best labeling, or that there is none."""
        return judge(self.best, self.bound, self._rounding(self.bound)) is not Status.bounded

    def offer(self, labels: np.ndarray) -> None:
        """Judge joint states by all rules; keep them if they are the best so far."""
        potentials = self.problem.potentials.alone(self.scores)
        self.judge(labels, joint_amounts(JointProblem(potentials, (self.rules,), self.problem.letters), labels)[0])

    def judge(self, states: np.ndarray, amounts: np.ndarray) -> None:
        """Take note of the rules that joint states break by ``amounts``; keep the states if they are the best so far."""
        self.known.update(np.flatnonzero(amounts).tolist())
        broken = breaches(self.rules, amounts) if amounts.any() else ()
        objective = self._score(states) - sum(b.cost for b in broken)
        if objective > self.best:
            self.best, self.labels, self.broken = objective, states, broken

    def conclude(self, bound: float) -> None:
        """Take over a bound; raise if the best labeling is worth more."""
        if self.best > bound + TOLERANCE + self._rounding(bound):
            raise mismatch(bound, self.best)
        self.bound = min(self.bound, max(bound, self.best))

    def fold(self) -> bool:
        """Take rules about single tokens that are broken into the scores; False if there are none."""
        single = [self.rules[r] for r in sorted(self.known) if about_tokens(self.rules[r])]
        if not single:
            return False
        self.scores = self.scores - sum(token_costs(self.problem, rule) for rule in single)
        return True

    def price(self) -> bool:
        """Charge rules that count tokens and are broken their full price in the scores; False if there are none."""
        counted = [self.rules[r] for r in sorted(self.known) if counts_tokens(self.rules[r])]
        if self.settled or not counted:
            return False
        charged = [full_price(self.problem, rule) for rule in counted]
        self.priced, self.scores = True, self.scores - sum(table for table, _ in charged)
        self.constant = sum(back for _, back in charged)
        return True

    def search(self, node_limit: int, seconds: float | None) -> None:
        """Search windows of the chain, all rules about single tokens inside its scores."""
        if self.settled:
            return
        self.conclude(float(self.through.max()) + self._margin)
        with deadline(seconds) as clock:
            self.run(node_limit, clock)

    @cached_property
    def inside(self) -> JointProblem:
        """The chain alone, rules about single tokens taken into its scores."""
        return folded(self.problem, self.chain)

    @cached_property
    def through(self) -> np.ndarray:
        """No labeling through a joint state at a token is worth more than this, (n, S)."""
        potentials = self.inside.potentials
        through = best_through(potentials, 0)
        if self.priced:
            through = np.minimum(through, best_through(potentials.alone(self.scores), 0) + self.constant)
        return through

    @cached_property
    def _margin(self) -> float:
        """Far more than sums are rounded by."""
        return 1e-9 * (1.0 + float(np.abs(self.through).max(initial=0.0, where=self.through > -np.inf)))

    def window(self, floor: float, room: int) -> WindowChain:
        """Return the chain over the joint states that some labeling above the floor may pass, or over the best of them."""
        lowest, peaks = self.through.min(initial=np.inf, where=self.through > -np.inf), self.through.max(axis=0)
        floor = min(floor, float(peaks.max())) - self._margin
        floor = floor if floor > lowest else -np.inf
        states = np.flatnonzero((peaks >= floor) & (peaks > -np.inf))
        cut = len(states) > MOST_STATES
        if cut:
            states = np.sort(np.argsort(-peaks, kind="stable")[:MOST_STATES])
            floor = float(np.delete(peaks, states).max()) + self._margin
        chain = self.inside.potentials.chain(0, states)
        unary = np.where(self.through[:, states] >= floor, chain.unary, -np.inf)
        return WindowChain(ChainPotentials(unary, chain.pairwise), states, floor, cut)

    def rule_of(self, place: int, stands: np.ndarray) -> CompiledRule | None:
        """Return a rule over joint states (slots,); None if it is about single tokens."""
        rule = self.rules[place]
        return None if about_tokens(rule) else rule.relabeled(self.problem.letters[rule.rule][stands])

    def result(self) -> Result:
        """Return the answer as it stands."""
        if not len(self.labels):
            return _nothing(self.bound, self.steps)
        score = self._score(self.labels)
        objective = score - sum(b.cost for b in self.broken)
        bound = max(self.bound, objective)
        status = judge(objective, bound, self._rounding(bound))
        return Result(self.labels, score, objective, bound, status, self.engine, self.steps, self.broken)

    def _rounding(self, value: float) -> float:
        """Bound on what sums of this chain may differ by."""
        if not len(self.labels) or value == np.inf:
            return 0.0
        scores = self.problem.potentials.terms(self.chain, self.labels)
        size = sum(float(np.abs(terms).sum()) for terms in scores) + sum(b.cost for b in self.broken) + abs(value)
        terms = 8 * (len(self.labels) * (len(self.problem.potentials.sizes) + 2) + len(self.rules))
        return rounding_error(terms, size)

    def _score(self, states: np.ndarray) -> float:
        return self.problem.potentials.score(self.chain, states)
