"""Decoding joint chains under rules: the factored maximum first, and a small exact problem only if rules are broken.

The best labeling without rules is best with them if it breaks none. Otherwise rules that are sums over single tokens
go into the scores, and the maximum is taken again; rules that count tokens are tried at their full price, which proves a
labeling that pays it. What is still broken is decided in small chains that are sure to hold all good labelings
(:mod:`rulefield.inference.sequences.joint.windows`), by the engines of chains, with only those rules that a
labeling was seen to break: leaving a rule out can only raise the optimum, so an optimum that breaks no other rule stands.
All chains take their steps together, so that the factored maximum and the amounts of rules are found for many at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np

from rulefield.inference.checker import mismatch
from rulefield.inference.engines import Engine, Engines
from rulefield.inference.result import TOLERANCE, Breach, Result, Status, judge, rounding_error
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.decode import ENGINES as CHAIN_ENGINES
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.joint.amounts import joint_amounts
from rulefield.inference.sequences.joint.exact import joint_viterbi
from rulefield.inference.sequences.joint.folding import about_tokens, counts_tokens, full_price, token_costs
from rulefield.inference.sequences.joint.windows import NO_TOKENS, Part, Windows
from rulefield.problem.chain_rules import CompiledRule
from rulefield.problem.joint import JointPotentials, JointProblem

NONE = np.zeros(0, np.int64)

Run = Callable[[JointProblem, int, float | None], list[Result]]
"""(problem, node_limit, seconds) -> a Result per chain."""


def decode_joint(
    problem: JointProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> list[Result]:
    """Best joint states of every chain under its rules, each with a certificate.

    Parameters
    ----------
    problem : JointProblem
    engine : str
        A name in ``ENGINES``.
    node_limit, seconds : limits of each search, as in :func:`rulefield.inference.sequences.decode.decode`

    Returns
    -------
    list of Result
        ``labels`` are joint states; ``engine`` is ``viterbi`` where the factored maximum, with rules about single tokens
        inside, settled it.
    """
    return ENGINES.find(engine).run(problem, node_limit, seconds)


def decode_auto(problem: JointProblem, node_limit: int, seconds: float | None) -> list[Result]:
    """``auto``: the factored maximum, and small chains where rules are broken.

    Constants are taken out of the scores first where they are so large that sums would lose digits to them.
    """
    p = problem.potentials
    best, steps = p.constants
    longest = int(np.diff(p.offsets).max(initial=0))
    size = longest * (float(np.abs(best).max(initial=0.0)) + sum(map(abs, steps)))
    if rounding_error(longest * (len(p.sizes) + 2), size) <= TOLERANCE / 100.0:
        return _decode(problem, node_limit, seconds)
    flat = _decode(replace(problem, potentials=p.centered()), node_limit, seconds)
    return [_restored(p, i, result) for i, result in enumerate(flat)]


def _restored(p: JointPotentials, i: int, flat: Result) -> Result:
    """Return a result under the centered scores as one under the scores themselves."""
    n = int(p.offsets[i + 1] - p.offsets[i])
    if len(flat.labels) < n:
        best, steps = p.constants
        constant = float(best[p.offsets[i] : p.offsets[i + 1]].sum()) + (n - 1) * sum(steps)
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
            results.append(decode(problem.over(i, NO_TOKENS)))
        elif score == -np.inf:
            results.append(_nothing(-np.inf, 1))
        else:
            results.append(Result(own, score, score, score, Status.optimal, "viterbi", 1))
            if guilty[i]:
                searches.append(JointSearch(problem, i, node_limit, seconds))
                searches[-1].judge(own, broken[i], score)
    _in_step(problem, searches)
    for search in searches:
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


def _in_step(problem: JointProblem, searches: "list[JointSearch]") -> None:
    """Let every search take a step and judge the labelings that they found, until all are settled."""
    while left := [search for search in searches if not search.settled]:
        folded = [search for search in left if search.fold() or search.price()]
        if folded:
            rows = [search.scores for search in folded]
            offsets = np.concatenate([[0], np.cumsum([len(psi) for psi in rows])])
            states, scores = joint_viterbi(replace(problem.potentials, psi=np.concatenate(rows), offsets=offsets))
            for search, own, score in zip(folded, np.split(states, offsets[1:-1]), scores.tolist()):
                search.found = own if score > -np.inf else NONE
                search.relaxed = score + search.constant
        for search in left:
            if search not in folded:
                search.look()
        judged = [search for search in left if len(search.found)]
        if judged:
            amounts = _amounts(problem, judged)
            for search, own in zip(judged, amounts):
                search.judge(search.found, own)
        for search in left:
            search.conclude()


def _amounts(problem: JointProblem, searches: "list[JointSearch]") -> np.ndarray:
    """By how much the labelings just found break all rules of their chains."""
    states = [search.found for search in searches]
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in states])])
    potentials = replace(problem.potentials, psi=problem.potentials.psi[:0], offsets=offsets)
    rules = tuple(problem.rules[search.chain] for search in searches)
    return joint_amounts(JointProblem(potentials, rules, problem.letters), np.concatenate(states))


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


def _nothing(bound: float, steps: int) -> Result:
    status = Status.infeasible if bound == -np.inf else Status.bounded
    return Result(NONE, -np.inf, -np.inf, bound, status, "auto", steps)


@dataclass(eq=False)
class JointSearch:
    """What is known of one chain so far.

    Parameters
    ----------
    psi : ndarray, shape (n, S)
        Scores of joint states with the rules of ``inside`` taken off.
    active : set of int
        Rules (by place) that small chains must have, because a labeling was seen to break them.
    labels, best : the best labeling so far and its objective; ``-inf`` while none that obeys the hard rules is known
    bound : no labeling is worth more
    found, relaxed : the labeling of the last step, and what it was worth under the rules that the step knew
    """

    problem: JointProblem
    chain: int
    node_limit: int
    seconds: float | None
    psi: np.ndarray = field(init=False)
    inside: set[int] = field(default_factory=set)
    active: set[int] = field(default_factory=set)
    labels: np.ndarray = field(default_factory=lambda: NONE)
    broken: np.ndarray = field(default_factory=lambda: NONE)
    best: float = -np.inf
    bound: float = np.inf
    found: np.ndarray = field(default_factory=lambda: NONE)
    relaxed: float = np.inf
    engine: str = "viterbi"
    steps: int = 1
    settled: bool = False

    def __post_init__(self) -> None:
        self.psi = self.problem.potentials.scores(self.chain)
        self._windows: Windows | None = None
        self._part: Part | None = None
        self._stopped = False
        self._fresh: set[int] = set()
        self._dual: np.ndarray | None = None
        self._priced: set[int] = set()
        self.constant = 0.0
        self._begun = monotonic()

    @property
    def rules(self) -> tuple[CompiledRule, ...]:
        """The rules of the chain."""
        return self.problem.rules[self.chain]

    def judge(self, states: np.ndarray, amounts: np.ndarray, score: float | None = None) -> None:
        """Take note of a labeling: what it is worth, and which rules it breaks that no step knew so far."""
        score = self._score(states) if score is None else score
        objective = score - sum(cost for _, _, cost in self._costs(amounts))
        if objective > self.best:
            self.best, self.labels, self.broken = objective, states, amounts
        self._fresh = (set(np.flatnonzero(amounts).tolist()) | self._priced) - self.inside - self.active

    def fold(self) -> bool:
        """Take rules about single tokens that were broken into the scores; False where there are none."""
        if self._windows is not None or self._dual is not None:
            return False
        single = [r for r in self._fresh if about_tokens(self.rules[r])]
        if not single:
            return False
        self.psi = self.psi - sum(token_costs(self.problem, self.rules[r]) for r in single)
        self.inside.update(single)
        self.steps += 1
        return True

    @property
    def scores(self) -> np.ndarray:
        """Scores for the next factored maximum, ``constant`` to be added to it."""
        return self.psi if self._dual is None else self._dual

    def price(self) -> bool:
        """Charge rules that count tokens their full price, once, where they were broken; False where there are none."""
        if self._dual is not None or self._windows is not None:
            return False
        self._priced = {r for r in self._fresh if counts_tokens(self.rules[r])}
        if not self._priced:
            return False
        charged = [full_price(self.problem, self.rules[r]) for r in self._priced]
        self._dual = self.psi - sum(table for table, _ in charged)
        self.constant = sum(back for _, back in charged)
        self.steps += 1
        return True

    def look(self) -> None:
        """Solve a small chain: a wider one, or the last one with the rules that its optimum broke."""
        known = self.active | self._fresh
        if self._windows is None:
            potentials = self.problem.potentials.alone(self.chain, self.psi)
            small = replace(self.problem, potentials=potentials, rules=((),))
            self._windows = Windows(small, self._dual, self.constant)
        if self._part is None or not self._fresh:
            self._part = self._windows.widen(self.best)
        self.active = known
        chain = self._part.under(self.problem, [self.rules[r] for r in sorted(known)])
        result = decode(chain, "auto", self.node_limit, self._seconds_left())
        self.steps += result.iterations
        self.engine, self._stopped = result.engine, result.status is Status.bounded
        self.found = self._part.states[result.labels] if len(result.labels) else NONE
        self.relaxed = result.upper_bound
        self._fresh = set()

    def conclude(self) -> None:
        """Settle the chain where the last step proves the best labeling, proves that there is none, or was the last."""
        floor = -np.inf if self._part is None else self._part.floor
        top = max(self.relaxed, floor)  # every labeling is below the floor, or worth at most what the step found
        if self.best > top + TOLERANCE + self._rounding(top):
            raise mismatch(top, self.best)  # a labeling that is worth more than what bounds all
        if top == -np.inf:
            self.bound, self.settled = -np.inf, True
        elif self._proves(top) or not (self._fresh or self._stopped or self.relaxed < floor):
            self.bound, self.settled = max(top, self.best), True
        else:
            self.bound = min(self.bound, max(top, self.best))
            last = self._stopped or (self._windows is not None and self._windows.exhausted)
            self.settled = last and not self._fresh

    def result(self) -> Result:
        """Return the answer as it stands."""
        if not len(self.labels):
            return _nothing(self.bound, self.steps)
        broken = tuple(Breach(*cost) for cost in self._costs(self.broken))
        score = self._score(self.labels)
        objective = score - sum(b.cost for b in broken)
        status = Status.optimal if self._proves(self.bound) else Status.bounded
        return Result(
            self.labels, score, objective, max(self.bound, objective), status, self.engine, self.steps, broken
        )

    def _costs(self, amounts: np.ndarray) -> list[tuple[int, float, float]]:
        paid = [(self.rules[r], float(amounts[r])) for r in np.flatnonzero(amounts).tolist()]
        return [(rule.rule, amount, rule.weight * (1.0 if rule.once else amount)) for rule, amount in paid]

    def _proves(self, bound: float) -> bool:
        return judge(self.best, bound, self._rounding(bound)) is Status.optimal

    def _rounding(self, value: float) -> float:
        """Bound on what sums of this chain may differ by."""
        if not len(self.labels) or value == np.inf:
            return 0.0
        steps = self.problem.potentials.step_scores(self.labels[:-1], self.labels[1:])
        own = self.problem.potentials.scores(self.chain)[np.arange(len(self.labels)), self.labels]
        cost = sum(cost for _, _, cost in self._costs(self.broken))
        terms = 8 * (len(self.labels) * (len(self.problem.potentials.sizes) + 2) + len(self.rules))
        return rounding_error(terms, float(np.abs(steps).sum() + np.abs(own).sum()) + abs(cost) + abs(value))

    def _score(self, states: np.ndarray) -> float:
        return self.problem.potentials.score(self.chain, states)

    def _seconds_left(self) -> float | None:
        return None if self.seconds is None else max(0.0, self.seconds - (monotonic() - self._begun))
