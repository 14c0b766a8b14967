"""The walk on graphs from cheap to exact: a list of steps, each of which goes on from what the ones before it learned."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph.budget import EASY_ENTRIES, TABLE_ENTRIES_PER_NODE, Budget
from rulefield.inference.graph.condition import Cases, cases_of
from rulefield.inference.graph.evaluate import Answer, evaluate, no_answer
from rulefield.inference.graph.exact.eliminate import Elimination, plan_elimination, propose
from rulefield.inference.graph.exact.milp import milp_graph
from rulefield.inference.graph.exact.soft import SoftSearch, begin_soft
from rulefield.inference.graph.maxflow import flow_graph, is_submodular
from rulefield.inference.graph.network import build_network
from rulefield.inference.graph.parts import GraphParts, extend, parts_of
from rulefield.inference.graph.pieces import (
    ROOT_PROGRESS,
    adopt,
    branch_on_open_labels,
    finish_pieces,
    improve_around_clear_nodes,
    solve_pieces,
)
from rulefield.inference.graph.trws import MANY_NODES, ROUNDS, Search, begin, begin_network, descend
from rulefield.kernels.graph.sweep import Messages
from rulefield.problem.graph import GraphProblem

CLOSED_NATS = 2e-7
"""A smaller gap is within the tolerance of a certificate."""
CASE_ROUNDS = 5
"""Rounds of sweeps with which every case of the hubs' labels begins."""
LARGE_ROUNDS = (100, 2_000)
"""Fewest and most rounds of sweeps on a large graph."""
LARGE_ENTRIES = 200_000_000
"""Message entries in all these rounds together: they decide how many rounds there are."""
SPARE_LABELS = 1.5
"""Labels per node beyond one: with more, elimination is not easy, and no plan is made."""
MANY_LABELS = 12
"""Labels of a node: a sweep costs the square."""
SEARCH_ENTRIES = 40_000_000
"""Entries of tables with which elimination costs about what the first searches do."""
LONG_SEARCH_ENTRIES = 2**29
"""Entries of tables with which it costs about what long searches do."""
FIRST_NODES = 512
"""Search nodes of the first search."""
FIRST_RULED_NODES = 4_096
"""The same under rules, for which there is no soft arc consistency to take turns with."""
TURN_NODES = 4_000
"""Search nodes of both searches in their first turn, twice as many in each further one."""
TURN_SHARE = 0.8
"""Share of all search nodes for these turns; the rest is for pieces."""
USE_TOULBAR2 = True
"""Whether toulbar2 is asked, if it is installed and elimination has no plan."""


@dataclass
class GraphState:
    """Where the walk stands.

    Parameters
    ----------
    parts : GraphParts
    search : Search
        The best labeling and the bound so far.
    budget : Budget
    is_tight : bool
        Whether forbidden pairs or many labels rule: sweeps then are expensive and see little.
    plan : Elimination, optional
        How to eliminate what the root leaves open.
    soft : SoftSearch, optional
        The search under soft arc consistency.
    """

    parts: GraphParts
    search: Search
    budget: Budget
    is_tight: bool = False
    plan: Elimination | None = None
    soft: SoftSearch | None = None

    @classmethod
    def start(cls, parts: GraphParts, search: Search, budget: Budget) -> "GraphState":
        """Nothing tried yet."""
        p = parts.potentials
        forbids = p.n_nodes <= MANY_NODES and bool((p.pairwise == -np.inf).any())
        return cls(parts, search, budget, forbids or (p.n_nodes <= MANY_NODES and _has_many_labels(parts)))

    @property
    def is_small(self) -> bool:
        """Whether the network may be planned and branched on as a whole."""
        return self.search.network.n_nodes <= MANY_NODES

    @property
    def may_ask_toulbar2(self) -> bool:
        """Whether toulbar2 has a part in this walk."""
        return self.plan is None and USE_TOULBAR2


def _has_many_labels(parts: GraphParts) -> bool:
    return int(parts.potentials.n_labels.max(initial=0)) >= MANY_LABELS


# --- when a step pays ----------------------------------------------------------------------------


def always(state: GraphState) -> bool:
    """Run in any case."""
    return True


def is_small(state: GraphState) -> bool:
    """Run on networks that are not large."""
    return state.is_small


def is_loose(state: GraphState) -> bool:
    """Run if sweeps are cheap and see much."""
    return state.is_small and not state.is_tight


def is_tight(state: GraphState) -> bool:
    """Run if forbidden pairs or many labels rule."""
    return state.is_tight


def has_many_labels(state: GraphState) -> bool:
    """Run if a node has many labels."""
    return state.is_tight and _has_many_labels(state.parts)


def has_labeling(state: GraphState) -> bool:
    """Run if a labeling is known: labels can only be excluded by one."""
    return state.search.value > -np.inf


def lacks_labeling(state: GraphState) -> bool:
    """Run if no labeling is known."""
    return not has_labeling(state)


def has_turns(state: GraphState) -> bool:
    """Run if the searches that take turns have work left, and a search beside branch and bound takes part."""
    rest = (1.0 - TURN_SHARE) * state.budget.total_nodes
    return state.budget.nodes > rest and has_time(state) and (state.soft is not None or state.may_ask_toulbar2)


def has_time(state: GraphState) -> bool:
    """Run if time is left: making smaller problems takes seconds, too."""
    return state.budget.seconds != 0.0


# --- what a step does ----------------------------------------------------------------------------


def sweep(state: GraphState, rounds: int = ROUNDS, progress: float = ROOT_PROGRESS) -> None:
    """Improve bound and labeling by TRW-S and local search ([Kolmogorov06])."""
    descend(state.search, rounds, progress=progress, deadline=state.budget.deadline)


def sweep_large(state: GraphState, share: float = 1.0) -> None:
    """Sweep a large graph, in time linear in its size."""
    messages = state.search.messages
    entries = 1 + len(messages.edge) + len(messages.prefix) + len(messages.suffix)
    fewest, most = LARGE_ROUNDS
    sweep(state, int(share * min(most, max(fewest, LARGE_ENTRIES // entries))), 0.0)


def propose_labels(state: GraphState, entries: float = EASY_ENTRIES // 4) -> None:
    """Improve the labeling among the likeliest labels, by elimination."""
    propose(state.search, entries)


def improve_large(state: GraphState) -> None:
    """Improve the labeling of a large graph."""
    propose_labels(state, 4 * EASY_ENTRIES)
    improve_around_clear_nodes(state.parts, state.search, state.budget)


def eliminate_at_once(state: GraphState, entries: float) -> None:
    """Eliminate what is left if a plan for it is cheap ([Dechter99])."""
    state.budget.eliminate(state.search, plan_elimination(state.search, entries))


def eliminate_few_labels(state: GraphState) -> None:
    """Eliminate what is left if few labels are left and a plan is easy."""
    network = state.search.network
    spare = np.count_nonzero(network.scores.unary > -np.inf) - network.n_nodes
    if spare <= SPARE_LABELS * network.n_nodes:
        eliminate_at_once(state, EASY_ENTRIES)


def plan_searches(state: GraphState) -> None:
    """Plan elimination from the root, and begin the search under soft arc consistency there."""
    state.plan, state.soft = plan_elimination(state.search), begin_soft(state.search)


def eliminate_as_planned(state: GraphState, entries: float = np.inf) -> None:
    """Eliminate by the root's plan if it looks at no more than so many entries."""
    state.budget.eliminate(state.search, state.plan, entries)


def search_softly_first(state: GraphState) -> None:
    """Search for a short time under soft arc consistency ([deGivry05])."""
    nodes = 1_000 if _has_many_labels(state.parts) else 200
    state.budget.search_softly(state.search, begin_soft(state.search), nodes)


def search_softly(state: GraphState, nodes: float) -> None:
    """Go on with the search under soft arc consistency."""
    state.budget.search_softly(state.search, state.soft, nodes)


def branch_briefly(state: GraphState, nodes: int = 64) -> None:
    """Branch a little; if that does not close the gap, go on from the root as it was, with the labeling it found."""
    search = state.search
    unary, dual = search.network.scores.unary.copy(), search.dual
    messages = Messages(*(a.copy() for a in search.messages))
    state.budget.branch(search, nodes)
    if search.is_open:
        search.network.scores.unary[:] = unary
        search.messages, search.dual, search.stack, search.depth = messages, dual, None, 0


def branch(state: GraphState, nodes: float = np.inf) -> None:
    """Branch on the bound of sweeps."""
    state.budget.branch(state.search, nodes)


def branch_first(state: GraphState) -> None:
    """Branch on what bounds leave open, then on the whole."""
    branch_on_open_labels(state.parts, state.search, state.budget, FIRST_NODES)
    branch(state, FIRST_RULED_NODES if state.soft is None else FIRST_NODES)


def branch_before_elimination(state: GraphState) -> None:
    """Branch for as long as the planned elimination would take."""
    if state.plan is not None:
        branch(state, int(state.plan.work) // TABLE_ENTRIES_PER_NODE)


def ask_toulbar2(state: GraphState, turn: int) -> None:
    """Let toulbar2 go on."""
    if state.may_ask_toulbar2:
        state.budget.ask_toulbar2(state.search, state.parts, turn)


def solve_large_pieces(state: GraphState) -> None:
    """Solve what the bounds of a large graph leave open, piece by piece."""
    solve_pieces(state.parts, state.search, state.search, state.budget)


def finish(state: GraphState) -> None:
    """Solve what the root's bounds leave open, piece by piece."""
    finish_pieces(state.parts, state.search, state.budget)


# --- the walk ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphStep:
    """One entry of the walk: the engine that an answer names, what it does, and when it pays."""

    engine: str
    run: Callable[[GraphState], Any]
    pays: Callable[[GraphState], bool] = always


FIRST_STEPS = (
    GraphStep("trws", partial(sweep, rounds=12)),
    GraphStep("elimination", eliminate_few_labels, is_small),
    GraphStep("trws", propose_labels, is_small),
    GraphStep("trws", partial(sweep, rounds=20), is_loose),
    GraphStep("elimination", eliminate_few_labels, is_loose),
    GraphStep("trws", propose_labels, is_loose),
)
"""What every graph begins with."""

LARGE_STEPS = (
    GraphStep("trws", sweep_large),
    GraphStep("trws", improve_large, has_time),
    GraphStep("trws", partial(sweep_large, share=0.5), has_time),
    GraphStep("branch", solve_large_pieces, has_time),
)
"""Large graphs of which a labeling is known: bound and labeling first, search only in what they leave open."""

TURNS = tuple(
    step
    for turn, nodes in enumerate(TURN_NODES * 2**k for k in range(10))
    for step in (
        GraphStep("toulbar2", partial(ask_toulbar2, turn=turn), has_turns),
        GraphStep(
            "elimination", partial(eliminate_as_planned, entries=4 * nodes * TABLE_ENTRIES_PER_NODE), has_turns
        ),
        GraphStep("soft", partial(search_softly, nodes=nodes), has_turns),
        GraphStep("branch", partial(branch, nodes=nodes // 5), has_turns),
    )
)
"""Searches take turns, each twice as long as the one before; elimination follows when it costs little beside them."""

STEPS = (
    GraphStep("soft", search_softly_first, is_tight),
    GraphStep("elimination", partial(eliminate_at_once, entries=LONG_SEARCH_ENTRIES), is_tight),
    GraphStep("branch", branch_briefly, lambda state: not state.is_tight),
    GraphStep("trws", sweep),
    GraphStep("trws", propose_labels),
    GraphStep("trws", plan_searches),
    GraphStep("elimination", partial(eliminate_as_planned, entries=SEARCH_ENTRIES)),
    GraphStep("soft", partial(search_softly, nodes=2_000), has_many_labels),
    GraphStep("toulbar2", partial(ask_toulbar2, turn=0), is_tight),
    GraphStep("branch", branch_first),
    GraphStep("elimination", partial(eliminate_as_planned, entries=LONG_SEARCH_ENTRIES)),
    *TURNS,
    GraphStep("branch", branch_before_elimination),
    GraphStep("elimination", eliminate_as_planned),
    GraphStep("branch", branch, lacks_labeling),
    GraphStep("branch", finish, has_labeling),
)
"""All others."""


def solve(parts: GraphParts, search: Search, budget: Budget) -> str:
    """Close the gap of a search as far as the budget allows; return the engine that learned something last."""
    state = GraphState.start(parts, search, budget)
    engine = _run(FIRST_STEPS, state, "trws")
    large = not state.is_small and has_labeling(state)
    engine = _run(LARGE_STEPS if large else STEPS, state, engine)
    return "tree" if engine == "trws" and search.network.is_forest else engine


def _run(steps: tuple[GraphStep, ...], state: GraphState, engine: str) -> str:
    search = state.search
    for step in steps:
        if not search.is_open:
            break
        if step.pays(state):
            before = search.value, search.bound
            step.run(state)
            engine = engine if before == (search.value, search.bound) else step.engine
    return engine


# --- engines -------------------------------------------------------------------------------------


def trws_graph(problem: GraphProblem, rounds: int, warm_start: np.ndarray | None = None) -> Answer:
    """TRW-S with rounding and local search: fast, a true bound, no search."""
    parts, rest = parts_of(problem)
    search = _start(parts, warm_start)
    descend(search, rounds)
    return search_answer(problem, search, rest, "trws")


def branch_graph(
    problem: GraphProblem, node_limit: int, seconds: float | None, warm_start: np.ndarray | None = None
) -> Answer:
    """TRW-S and branch and bound on the whole problem."""
    parts, rest = parts_of(problem)
    budget = Budget.start(node_limit, seconds)
    search = _start(parts, warm_start)
    descend(search, deadline=budget.deadline)
    budget.branch(search)
    return search_answer(problem, search, rest, "branch")


def elimination_graph(problem: GraphProblem, seconds: float | None) -> Answer:
    """Sweep a little, then eliminate what bounds leave open.

    Raises
    ------
    InputError
        If its tables would be too large.
    """
    parts, rest = parts_of(problem)
    budget = Budget.start(10**9, seconds)
    search = _start(parts, None)
    descend(search, 12, deadline=budget.deadline)
    plan = plan_elimination(search)
    if search.is_open and plan is None:
        raise InputError('engine="elimination" would need too large tables for this graph; use "auto".')
    budget.eliminate(search, plan)
    return search_answer(problem, search, rest, "elimination")


def auto_graph(
    problem: GraphProblem, node_limit: int, seconds: float | None, warm_start: np.ndarray | None = None
) -> Answer:
    """Walk from cheap to exact and stop at the first certificate; see ``decode_graph``."""
    if len(problem.potentials.edges) >= problem.potentials.n_nodes and is_submodular(problem):
        cut = flow_graph(problem)
        if is_closed(cut):
            return cut
    parts, rest = parts_of(problem)
    budget = Budget.start(node_limit, seconds)
    cases = None if len(rest) else cases_of(problem.potentials)
    if cases is not None:
        return _best_case(problem, cases, parts, budget, warm_start)
    search = _start(parts, warm_start)
    engine = solve(parts, search, budget)
    answer = search_answer(problem, search, rest, engine)
    if not len(rest) or is_closed(answer):
        return answer
    return _better(answer, milp_graph(problem, node_limit, budget.seconds))


def _best_case(
    problem: GraphProblem, cases: Cases, parts: GraphParts, budget: Budget, warm_start: np.ndarray | None
) -> Answer:
    """Solve every case of the hubs' labels; one whose bound falls below the best labeling so far is left."""
    pieces = [replace(parts, potentials=extend(cases.problem(problem, k))) for k in range(len(cases.labels))]
    structure = build_network(pieces[0])
    searches = [begin_network(structure.with_scores(piece.potentials)) for piece in pieces]
    for search in searches:
        if warm_start is not None:
            _offer(search, warm_start)
        descend(search, CASE_ROUNDS, deadline=budget.deadline)
    order = sorted(range(len(pieces)), key=lambda k: -searches[k].value)
    best = searches[order[0]]
    for k in order:
        least = best.value
        adopt(searches[k], least, searches[k].labels)
        if searches[k].is_open:
            solve(pieces[k], searches[k], budget)
        if searches[k].value > least:
            best = searches[k]
    best.bound = max(search.bound for search in searches)
    best.rounds, best.nodes = sum(s.rounds for s in searches), sum(s.nodes for s in searches)
    return search_answer(problem, best, np.zeros(0, dtype=np.int64), "cases")


def reduced_graph(problem: GraphProblem, node_limit: int, seconds: float | None) -> Answer:
    """TRW-S, then HiGHS on the labels and nodes that its bounds leave open, piece by piece."""
    parts, rest = parts_of(problem)
    if len(rest):
        return milp_graph(problem, node_limit, seconds)
    budget = Budget.start(node_limit, seconds)
    search = _start(parts, None)
    descend(search, deadline=budget.deadline)
    if search.is_open:
        finish_pieces(parts, search, budget, use_milp=True)
    return search_answer(problem, search, rest, "reduced_milp")


def _start(parts: GraphParts, warm_start: np.ndarray | None) -> Search:
    search = begin(parts)
    if warm_start is not None:
        _offer(search, warm_start)
    return search


def _offer(search: Search, warm_start: np.ndarray) -> None:
    labels = np.zeros(search.network.n_nodes, np.int64)
    labels[: len(warm_start)] = warm_start
    search.offer(labels[search.network.order])


def search_answer(problem: GraphProblem, search: Search, rest: np.ndarray, engine: str) -> Answer:
    """Wrap a search; rows that are not in the network only count in the value."""
    steps = search.rounds + search.nodes
    labels = search.answer()
    if labels is None:
        return no_answer(search.bound, engine, steps)
    value = evaluate(problem, labels).objective if len(rest) else search.value
    if value == -np.inf:
        return no_answer(search.bound, engine, steps)
    return Answer(labels, value, search.bound, engine, steps)


def is_closed(answer: Answer) -> bool:
    """Whether an answer needs no more work: proved, or proved impossible."""
    return answer.bound <= answer.value + CLOSED_NATS


def _better(one: Answer, other: Answer) -> Answer:
    """Return the better labeling with the better bound."""
    best = one if one.value >= other.value else other
    return replace(best, bound=max(best.value, min(one.bound, other.bound)), engine=other.engine)
