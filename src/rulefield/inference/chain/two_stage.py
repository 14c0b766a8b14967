"""Two-stage decoding ([Fersini14], eqs. 22-29): the least cost of broken rules among high-scoring labellings."""

from dataclasses import dataclass, replace

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.chain.auto import NODE_LIMIT, run_auto
from rulefield.inference.chain.dual import Progress, dual_potentials
from rulefield.inference.chain.enumerate import labellings
from rulefield.inference.chain.exhaustive import amounts_of, costs_of, scores_of
from rulefield.inference.chain.milp import Parts, Programme, all_parts, build, run_highs
from rulefield.inference.chain.prepare import Prepared, prepare
from rulefield.inference.chain.product import chain_relaxation
from rulefield.inference.result import TOLERANCE, Result, Status
from rulefield.kernels.lattice.dual import completions
from rulefield.kernels.lattice.lattice import chain_lattice
from rulefield.kernels.lattice.pareto import cheapest_path
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule

MOST_RATES = 6
"""Exchange rates between score and cost that are tried before the exact search."""

RISING_RATES = 2
"""How many of them may be ever higher ones, while even cheap labellings reach the floor."""


@dataclass(frozen=True)
class TwoStageResult(Result):
    """A result of two-stage decoding; ``optimal`` means that no allowed labelling costs less.

    Parameters
    ----------
    cost : float
        What the rules that the labelling breaks cost.
    cost_lower_bound : float
        No labelling that reaches ``score_floor`` and obeys the hard rules costs less.
    best_score : float
        Z*: the best score of the first stage.
    score_floor : float
        The least score that the second stage allows.
    """

    cost: float = np.inf
    cost_lower_bound: float = 0.0
    best_score: float = -np.inf
    score_floor: float = -np.inf


@dataclass
class _Search:
    """The second stage while it runs."""

    problem: ChainProblem
    best_score: float
    floor: float
    labels: np.ndarray
    score: float
    cost: float
    lower: float = 0.0
    iterations: int = 0

    def offer(self, labels: np.ndarray, score: float, cost: float) -> None:
        """Keep a labelling that reaches the floor and costs less, or as much with a higher score."""
        if score < self.floor - 1e-3 * TOLERANCE * max(1.0, abs(self.floor)):
            return
        if cost < self.cost - _TIE or (cost <= self.cost + _TIE and score > self.score):
            self.labels, self.score, self.cost = labels.copy(), score, min(cost, self.cost)

    @property
    def proved(self) -> bool:
        return self.cost - self.lower <= TOLERANCE * max(1.0, self.cost)


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
    """Least total cost of broken soft rules among labellings whose score is near the best; ties go to the score.

    Stage 1 finds Z*, the best log p(y | x) under the hard rules. Stage 2 minimises sum of weight x amount subject to
    log p(y | x) >= Z* - (1 - tau) |Z*| (ratio form) or >= Z* - delta (difference form). The paper's own bound,
    tau Z*, is unattainable for Z* < 0.

    Parameters
    ----------
    problem : ChainProblem
    tau, delta : float
        Give one: tau in [0, 1], or delta >= 0.
    log_partition : float
        Subtracted from scores to make them log-probabilities; 0 uses raw scores. Only the ratio form depends on it.
    engine : str
        "auto": Lagrangian bound, then dynamic programming over pairs (score, cost). "milp": HiGHS. "enumerate".
    node_limit, seconds : int, float
        As in ``decode``; with "auto" the limit in seconds is for each of its calls.

    Returns
    -------
    TwoStageResult
        ``upper_bound`` bounds score - cost over the labellings that stage 2 allows.
    """
    if (tau is None) == (delta is None):
        raise InputError(f"two-stage decoding needs either tau or delta; got tau={tau} and delta={delta}.")
    if tau is not None and not 0 <= tau <= 1:
        raise InputError(f"tau must lie in [0, 1]; got {tau}.")
    if delta is not None and not delta >= 0:
        raise InputError(f"delta must be at least 0; got {delta}.")
    hard = ChainProblem(problem.potentials, tuple(r for r in problem.rules if r.weight == np.inf))
    first = Progress.start(prepare(hard))
    run_auto(first, node_limit, seconds)
    if first.best == -np.inf:
        status = Status.infeasible if first.bound == -np.inf else Status.bounded
        return TwoStageResult(np.zeros(0, np.int64), -np.inf, -np.inf, first.bound, status, engine)
    best = first.best - log_partition
    allowed = (1 - tau) * abs(best) if tau is not None else float(delta or 0.0)
    floor = first.best - allowed
    problem = ChainProblem(_reaching(problem.potentials, floor), problem.rules)
    search = _Search(problem, first.best, floor, first.labels, -np.inf, np.inf)
    prepared = prepare(problem)
    _offer(search, prepared, first.labels)
    run = {"auto": _by_programme, "milp": _by_highs, "enumerate": _by_listing}
    if engine not in run:
        raise InputError(f"two-stage engine {engine!r} is unknown; choose one of {', '.join(run)}.")
    run[engine](search, prepared, node_limit, seconds)
    return _result(search, prepared, engine, first.settled)


def _reaching(potentials: ChainPotentials, floor: float) -> ChainPotentials:
    """Forbid every label and step that no labelling with a score of ``floor`` has."""
    plain = prepare(ChainProblem(potentials))
    ahead = np.empty_like(plain.unary)
    completions(plain.unary, plain.arriving, ahead)
    threshold = floor - 1e-3 * TOLERANCE * max(1.0, abs(floor))
    lattice = chain_lattice(plain.unary, plain.arriving, ahead, 0.0, threshold)
    n, m = plain.unary.shape
    step = np.repeat(np.arange(n), np.diff(lattice.layer))
    source = np.repeat(np.arange(len(step)), np.diff(lattice.arc_ptr))
    before, here, t = lattice.label[source], lattice.label[lattice.arc_to], step[source]
    unary = np.full((n, m), -np.inf)
    unary[step, lattice.label] = plain.unary[step, lattice.label]
    pairwise = np.full((n - 1, m, m), -np.inf)
    pairwise[t, before, here] = plain.arriving[np.minimum(t, len(plain.arriving) - 1), here, before]
    return ChainPotentials(unary, pairwise)


def _offer(search: _Search, prepared: Prepared, labels: np.ndarray) -> None:
    result = prepared.result(labels, np.inf, "", 0)
    if result.objective > -np.inf:
        search.offer(result.labels, result.score, result.score - result.objective)


def _result(search: _Search, prepared: Prepared, engine: str, stage_one_settled: bool) -> TwoStageResult:
    plain = prepared.result(search.labels, np.inf, engine, search.iterations)
    cost = plain.score - plain.objective
    lower = min(search.lower, cost)
    bound = max(search.best_score - lower, plain.objective)
    close = cost - lower <= TOLERANCE * max(1.0, cost) and stage_one_settled
    return TwoStageResult(
        plain.labels,
        plain.score,
        plain.objective,
        bound,
        Status.optimal if close else Status.bounded,
        engine,
        search.iterations,
        plain.broken,
        cost=cost,
        cost_lower_bound=lower,
        best_score=search.best_score,
        score_floor=search.floor,
    )


def _scaled(rules: tuple[CompiledRule, ...], rate: float) -> tuple[CompiledRule, ...]:
    return tuple(rule if rule.weight == np.inf else replace(rule, weight=rule.weight * rate) for rule in rules)


def _by_programme(search: _Search, prepared: Prepared, node_limit: int, seconds: float | None) -> None:
    """Lagrangian bound over exchange rates, then the exact search in the lattice of the best rate."""
    if search.cost <= _TIE:
        search.lower = search.cost
        return
    inside = (search.score, search.cost)
    outside: tuple[float, float] | None = None
    best: tuple[float, Progress] | None = None
    room = search.score - search.floor
    rate, highest = (16.0 * room / search.cost if room > TOLERANCE else 1.0), -np.inf
    for tried in range(1, MOST_RATES + 1):
        scaled = ChainProblem(search.problem.potentials, _scaled(search.problem.rules, rate))
        progress = Progress.start(prepare(scaled))
        run_auto(progress, node_limit, seconds)
        search.iterations += progress.iterations + progress.nodes
        lower = (search.floor - progress.bound) / rate
        if lower > highest:
            highest, best = lower, (rate, progress)
        if progress.best == -np.inf:
            break
        result = prepared.result(progress.labels, np.inf, "", 0)
        score, cost = result.score, result.score - result.objective
        search.offer(result.labels, score, cost)
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
        _close(search, best[1], best[0], node_limit)


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


def _close(search: _Search, progress: Progress, rate: float, node_limit: int) -> None:
    """Keep every labelling that could cost less (or as much with a higher score) in a lattice; search it exactly."""
    prepared = progress.prepared
    dual = dual_potentials(progress)
    slack = 1e-3 * TOLERANCE * max(1.0, abs(search.floor))
    lagrangian = search.floor - rate * search.cost - slack
    relaxation = chain_relaxation(progress, dual, lagrangian)
    for term in sorted(prepared.terms, key=lambda term: (term.states, term.rule)):
        if relaxation.bound(lagrangian) == -np.inf:
            break
        if not relaxation.add(term, lagrangian, node_limit):
            return
    if relaxation.bound(lagrangian) == -np.inf:
        search.lower = search.cost
        return
    labels = np.zeros_like(progress.labels)
    potentials = search.problem.potentials
    cost, score, used, done = cheapest_path(
        relaxation.lattice,
        np.ascontiguousarray(potentials.unary, dtype=np.float64),
        np.ascontiguousarray(potentials.pairwise_stack.transpose(0, 2, 1), dtype=np.float64),
        rate,
        search.floor - slack,
        search.cost + _TIE,
        lagrangian - relaxation.constant - slack,
        node_limit,
        _TIE,
        labels,
    )
    search.iterations += used
    if not done:
        return
    if cost < np.inf:
        _offer(search, prepare(search.problem), labels)
    search.lower = search.cost


def _by_highs(search: _Search, prepared: Prepared, node_limit: int, seconds: float | None) -> None:
    """Eqs. 22-29 as two integer programmes: the least cost, then the best score at that cost."""
    labels = least_cost_by_highs(search.problem, prepared, search.floor, node_limit, seconds)
    search.lower = min(max(labels[1], 0.0), search.cost) if labels[0] is None else max(labels[1], 0.0)
    search.iterations += labels[2]
    if labels[0] is None:
        return
    _offer(search, prepared, labels[0])
    plain = prepare(ChainProblem(search.problem.potentials))
    parts = all_parts(prepared)
    programme = build(prepared, parts)
    cost, score = _split(programme.cost, parts, prepared, plain)
    _at_most(programme, cost, search.cost + TOLERANCE)
    _at_most(programme, score, -search.floor)
    programme.cost = [score]
    found, _, nodes = run_highs(programme, parts, len(prepared.unary), node_limit, seconds)
    search.iterations += nodes
    if found is not None:
        _offer(search, prepared, found)


def least_cost_by_highs(
    problem: ChainProblem,
    prepared: Prepared,
    floor: float,
    node_limit: int | None = None,
    seconds: float | None = None,
) -> tuple[np.ndarray | None, float, int]:
    """Eqs. 22-29 as one integer programme: (labels of least cost that reach the floor, lower bound, nodes)."""
    plain = prepare(ChainProblem(problem.potentials))
    parts = all_parts(prepared)
    programme = build(prepared, parts)
    cost, score = _split(programme.cost, parts, prepared, plain)
    _at_most(programme, score, -floor)
    programme.cost = [cost]
    return run_highs(programme, parts, len(prepared.unary), node_limit, seconds)


def _split(
    cost: list[np.ndarray], parts: Parts, prepared: Prepared, plain: Prepared
) -> tuple[np.ndarray, np.ndarray]:
    """Split the columns' objective into (cost of broken rules, minus the model's score)."""
    total = np.concatenate(cost)
    score = np.zeros_like(total)
    score[: len(parts.step) + len(parts.source)] = -parts.scores_in(plain)
    return total - score, score


def _at_most(programme: Programme, row: np.ndarray, bound: float) -> None:
    columns = np.flatnonzero(row)
    programme.add_rows(np.zeros(len(columns)), columns, row[columns], np.full(1, -np.inf), np.full(1, bound))


def _by_listing(search: _Search, prepared: Prepared, node_limit: int, seconds: float | None) -> None:
    """Judge all labellings."""
    paths = labellings(search.problem.potentials)
    scores = scores_of(search.problem.potentials, paths)
    costs = sum((costs_of(rule, amounts_of(rule, paths)) for rule in search.problem.rules), np.zeros(len(paths)))
    search.iterations = len(paths)
    for i in np.flatnonzero((scores > -np.inf) & (costs < np.inf)):
        search.offer(paths[i], float(scores[i]), float(costs[i]))
    search.lower = search.cost
