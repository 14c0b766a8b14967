"""Two-stage decoding ([Fersini14], eqs. 22-29): the least cost of broken rules among high-scoring labelings."""

from dataclasses import dataclass, replace

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.flatten import flatten
from rulefield.inference.limits import deadline
from rulefield.inference.result import Result, Status, judge, rounding_error
from rulefield.inference.sequences.auto import NODE_LIMIT, run_auto
from rulefield.inference.sequences.check import judge_labeling
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials
from rulefield.inference.sequences.stages.product import chain_relaxation
from rulefield.kernels.lattice.dual import completions
from rulefield.kernels.lattice.lattice import chain_lattice
from rulefield.kernels.lattice.pareto import cheapest_path
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

MOST_RATES, RISING_RATES = 6, 2
"""Exchange rates between score and cost that are tried before the exact search, and how many of them may be ever higher
ones, while even cheap labelings reach the floor."""


@dataclass(frozen=True)
class TwoStageResult(Result):
    """A result of two-stage decoding; ``optimal`` means that no allowed labeling costs less."""

    cost: float = np.inf  # what the rules that the labeling breaks cost
    cost_lower_bound: float = 0.0  # no labeling that reaches ``score_floor`` and obeys the hard rules costs less
    best_score: float = -np.inf  # Z*: the best score of the first stage
    score_floor: float = -np.inf  # the least score that the second stage allows


@dataclass
class _Search:
    """The second stage while it runs. Scores have each token's and step's maximum taken out."""

    problem: ChainProblem
    best_score: float
    floor: float
    labels: np.ndarray
    score: float
    cost: float
    lower: float = 0.0
    iterations: int = 0

    def __post_init__(self) -> None:
        self.flat = flatten(self.problem.rules, self.problem.potentials.n_states)

    @property
    def slack(self) -> float:
        """Rounding error of a score near the floor: labelings that miss it by less reach it."""
        return rounding_error(2 * len(self.labels) + 2, self.floor)

    def offer(self, labels: np.ndarray, score: float, cost: float) -> None:
        """Keep a labeling that reaches the floor and costs less, or as much with a higher score."""
        if score < self.floor - self.slack:
            return
        if cost < self.cost - _TIE or (cost <= self.cost + _TIE and score > self.score):
            self.labels, self.score, self.cost = labels.copy(), score, min(cost, self.cost)

    @property
    def proved(self) -> bool:
        return self.status is Status.optimal

    @property
    def status(self) -> Status:
        error = rounding_error(len(self.problem.rules), self.cost)
        return judge(-self.cost, -self.lower, error)


_TIE = 1e-9


def decode_two_stage(
    problem: ChainProblem,
    tau: float | None = None,
    delta: float | None = None,
    log_partition: float = 0.0,
    engine: str = "auto",
    node_limit: int = NODE_LIMIT,
    seconds: float | None = None,
) -> TwoStageResult:
    """Least total cost of broken soft rules among labelings whose score is near the best; ties go to the score.

    Stage 1 finds Z*, the best log p(y | x) under the hard rules. Stage 2 minimizes sum of weight x amount subject to
    log p(y | x) >= Z* - (1 - tau) |Z*| (ratio form) or >= Z* - delta (difference form). The paper's own bound,
    tau Z*, is unattainable for Z* < 0.

    Parameters
    ----------
    tau, delta : float
        Give one: tau in [0, 1], or delta >= 0.
    log_partition : float
        Subtracted from scores to make them log-probabilities; 0 uses raw scores. Only the ratio form depends on it.
    engine : str
        "auto", the only one: Lagrangian bound, then dynamic programming over pairs (score, cost).
    node_limit, seconds : int, float
        As in ``decode``; the limit in seconds is for each of its calls.
    """
    for rule in problem.rules:
        rule.refuse_rows_only("two-stage decoding")
    if (tau is None) == (delta is None):
        raise InputError(f"two-stage decoding needs either tau or delta; got tau={tau} and delta={delta}.")
    if tau is not None and not 0 <= tau <= 1:
        raise InputError(f"tau must lie in [0, 1]; got {tau}.")
    if delta is not None and not delta >= 0:
        raise InputError(f"delta must be at least 0; got {delta}.")
    if engine != "auto":
        raise InputError(f"two-stage decoding has one engine, 'auto'; got engine={engine!r}.")
    centered, offset = _centered(problem.potentials)
    first = Progress.start(prepare(ChainProblem(centered, tuple(r for r in problem.rules if r.weight == np.inf))))
    with deadline(seconds) as first.deadline:
        run_auto(first, node_limit)
    if first.best == -np.inf:
        status = Status.infeasible if first.bound == -np.inf else Status.bounded
        none = np.zeros(0, np.int64)
        return TwoStageResult(none, -np.inf, -np.inf, first.objective_bound + offset, status, engine)
    best = first.objective
    allowed = (1 - tau) * abs(best + offset - log_partition) if tau is not None else float(delta or 0.0)
    floor = best - allowed
    within = ChainProblem(_reaching(centered, floor), problem.rules)
    search = _Search(within, best, floor, first.labels, -np.inf, np.inf)
    _offer(search, first.labels)
    _minimize_cost(search, node_limit, seconds)
    return _result(problem, search, first, offset)


def _centered(potentials: ChainPotentials) -> tuple[ChainPotentials, float]:
    """Potentials with each token's and step's maximum taken out, and the sum of these."""
    plain = prepare(ChainProblem(potentials))
    pairwise = plain.arriving.transpose(0, 2, 1)
    n, m = plain.unary.shape
    pairwise = np.broadcast_to(pairwise, (max(n - 1, 0), m, m)) if potentials.pairwise.ndim == 3 else pairwise[0]
    return ChainPotentials(plain.unary, np.ascontiguousarray(pairwise)), plain.offset


def _reaching(potentials: ChainPotentials, floor: float) -> ChainPotentials:
    """Forbid every label and step that no labeling with a score of ``floor`` has."""
    plain = prepare(ChainProblem(potentials))
    ahead = np.empty_like(plain.unary)
    completions(plain.unary, plain.arriving, ahead)
    n, m = plain.unary.shape
    threshold = floor - plain.offset - 2 * rounding_error(2 * n + 2, floor)
    lattice = chain_lattice(plain.unary, plain.arriving, ahead, 0.0, np.nextafter(threshold, -np.inf))
    step = np.repeat(np.arange(n), np.diff(lattice.layer))
    source = np.repeat(np.arange(len(step)), np.diff(lattice.arc_ptr))
    before, here, t = lattice.label[source], lattice.label[lattice.arc_to], step[source]
    stack = potentials.pairwise_stack
    unary = np.full((n, m), -np.inf)
    unary[step, lattice.label] = potentials.unary[step, lattice.label]
    pairwise = np.full((n - 1, m, m), -np.inf)
    pairwise[t, before, here] = stack[np.minimum(t, len(stack) - 1), before, here]
    return ChainPotentials(unary, pairwise)


def _offer(search: _Search, labels: np.ndarray) -> None:
    found = judge_labeling(search.problem, labels, search.flat)
    if found.objective > -np.inf:
        search.offer(labels, found.score, sum(broken.cost for broken in found.broken))


def _result(problem: ChainProblem, search: _Search, first: Progress, offset: float) -> TwoStageResult:
    found = judge_labeling(problem, search.labels, search.flat)
    cost = sum(broken.cost for broken in found.broken)
    search.cost = cost
    search.lower = lower = min(search.lower, cost)
    bound = max(search.best_score + offset - lower, found.objective)
    return TwoStageResult(
        search.labels,
        found.score,
        found.objective,
        bound,
        search.status if first.settled else Status.bounded,
        "auto",
        search.iterations,
        found.broken,
        cost=cost,
        cost_lower_bound=lower,
        best_score=search.best_score + offset,
        score_floor=search.floor + offset,
    )


def _scaled(problem: ChainProblem, rate: float) -> tuple[ChainProblem, float]:
    """Score - rate x cost as a problem, times what makes a unit of cost at least one; and that factor.

    Engines prove to within a fixed number of nats: scores that are small against the costs are enlarged.
    """
    factor = max(1.0, 1.0 / rate)
    potentials = problem.potentials
    larger = ChainPotentials(potentials.unary * factor, potentials.pairwise * factor)
    rules = tuple(r if r.weight == np.inf else replace(r, weight=r.weight * (rate * factor)) for r in problem.rules)
    return ChainProblem(larger, rules), factor


def _minimize_cost(search: _Search, node_limit: int, seconds: float | None) -> None:
    """Lagrangian bound over exchange rates, then the exact search in the lattice of the best rate."""
    if search.cost <= _TIE:
        search.lower = search.cost
        return
    inside = (search.score, search.cost)
    outside: tuple[float, float] | None = None
    best: tuple[float, float, Progress] | None = None
    room = search.score - search.floor
    rate, highest = (16.0 * room / search.cost if room > search.slack else 1.0), -np.inf
    for tried in range(1, MOST_RATES + 1):
        scaled, factor = _scaled(search.problem, rate)
        progress = Progress.start(prepare(scaled, centered=True))
        with deadline(seconds) as progress.deadline:
            run_auto(progress, node_limit)
        search.iterations += progress.iterations + progress.nodes
        lower = ((search.floor - search.slack) * factor - progress.objective_bound) / (rate * factor)
        if lower > highest:
            highest, best = lower, (rate, factor, progress)
        if progress.best == -np.inf:
            break
        found = judge_labeling(search.problem, progress.labels, search.flat)
        score, cost = found.score, sum(broken.cost for broken in found.broken)
        search.offer(progress.labels, score, cost)
        search.lower = max(search.lower, min(highest, search.cost))
        if search.proved or cost <= _TIE:
            break
        following = _next_rate(rate, (score, cost), inside, outside, search.floor)
        if score >= search.floor:
            inside = (score, cost)
        else:
            outside = (score, cost)
        stuck = following is None or abs(following - rate) <= 1e-9 * rate
        if stuck or (outside is None and tried >= RISING_RATES):
            break
        rate = following or rate
    if best is not None and not search.proved:
        _close(search, *best, node_limit)


def _next_rate(
    rate: float,
    found: tuple[float, float],
    inside: tuple[float, float],
    outside: tuple[float, float] | None,
    floor: float,
) -> float | None:
    """Return the rate at which the points on both sides of the floor are worth the same; None: nothing is new."""
    if found[0] >= floor:
        if outside is None:
            return rate * 16
        inside = found
    else:
        outside = found
    saved = inside[1] - outside[1]
    return (inside[0] - outside[0]) / saved if saved > _TIE else None


def _close(search: _Search, rate: float, factor: float, progress: Progress, node_limit: int) -> None:
    """Keep every labeling that could cost less (or as much with a higher score) in a lattice; search it exactly."""
    prepared = progress.prepared
    dual = dual_potentials(progress)
    wanted = factor * (search.floor - search.slack - rate * (search.cost + _TIE)) - prepared.offset
    lagrangian = wanted - dual.error - prepared.error(wanted)
    relaxation = chain_relaxation(progress, dual, lagrangian)
    for term in sorted(prepared.flat.shared.terms, key=lambda term: (term.states, term.rule)):
        if relaxation.bound(lagrangian) == -np.inf:
            break
        if not relaxation.add(term, lagrangian, node_limit):
            return
    if relaxation.bound(lagrangian) == -np.inf:
        search.lower = search.cost
        return
    labels = np.zeros_like(progress.labels)
    scaled = prepare(ChainProblem(prepared.problem.potentials), centered=True)
    cost, _, used, done = cheapest_path(
        relaxation.lattice,
        scaled.unary,
        scaled.arriving,
        rate * factor,
        factor * (search.floor - search.slack),
        search.cost + _TIE + prepared.offset / (rate * factor),  # what all pay alike is not on the arcs
        lagrangian - relaxation.constant,
        node_limit,
        _TIE,
        labels,
    )
    search.iterations += used
    if not done:
        return
    if cost < np.inf:
        _offer(search, labels)
    blurred = rounding_error(4 * len(labels), search.floor / rate)  # costs are read off as differences of scores
    search.lower = max(search.lower, search.cost - blurred)
