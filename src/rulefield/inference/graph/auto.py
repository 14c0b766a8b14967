"""The walk on graphs from cheap to exact: a list of steps, each of which goes on from what the ones before it learned."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph.evaluate import Answer, evaluate, no_answer
from rulefield.inference.graph.exact.eliminate import plan_elimination, propose
from rulefield.inference.graph.exact.milp import milp_graph
from rulefield.inference.graph.exact.soft import begin_soft
from rulefield.inference.graph.parts import GraphParts, parts_of
from rulefield.inference.graph.pieces import (
    PIECE_ENTRIES,
    finish_pieces,
    improve_around_clear_nodes,
    solve_pieces,
)
from rulefield.inference.graph.state import EASY_ENTRIES, TABLE_ENTRIES_PER_NODE, Budget, GraphState
from rulefield.inference.graph.trws import GAP_PROGRESS, ROUNDS, Search, begin, descend
from rulefield.inference.result import SLACK
from rulefield.kernels.graph.sweep import Messages
from rulefield.problem.graph import GraphProblem

LARGE_ROUNDS = (100, 2_000)
"""Fewest and most rounds of sweeps on a large graph."""
LARGE_ENTRIES = 200_000_000
"""Message entries in all these rounds together: they decide how many rounds there are."""
TURN_NODES = 4_000
"""Search nodes of both searches in their first turn, twice as many in each further one."""


# --- when a step pays ----------------------------------------------------------------------------


def is_small(state: GraphState) -> bool:
    """Run on networks that are not large."""
    return state.is_small


def is_tight(state: GraphState) -> bool:
    """Run if forbidden pairs or many labels rule."""
    return state.is_tight


def has_turns(state: GraphState) -> bool:
    """Run if soft arc consistency takes part, and more than a fifth of the work is left, which is for pieces."""
    return 5 * state.budget.nodes > state.budget.total_nodes and has_time(state) and state.soft is not None


def has_time(state: GraphState) -> bool:
    """Run if time is left: making smaller problems takes seconds, too."""
    return state.budget.seconds != 0.0


# --- what a step does ----------------------------------------------------------------------------


def sweep(state: GraphState, rounds: int = ROUNDS, progress: float = GAP_PROGRESS) -> None:
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
    propose(state.parts, state.search, entries)


def improve_large(state: GraphState) -> None:
    """Improve the labeling of a large graph: among the likeliest labels, and around nodes that are clear."""
    propose_labels(state, 4 * EASY_ENTRIES)
    improve_around_clear_nodes(state)


def eliminate_at_once(state: GraphState, entries: float) -> None:
    """Eliminate what is left if a plan for it is cheap ([Dechter99])."""
    state.eliminate(plan_elimination(state.parts, state.search, entries))


def plan_searches(state: GraphState) -> None:
    """Plan elimination from the root, and begin the search under soft arc consistency there."""
    state.plan, state.soft = plan_elimination(state.parts, state.search), begin_soft(state.search)


def eliminate_as_planned(state: GraphState, entries: float = np.inf) -> None:
    """Eliminate by the root's plan if it looks at no more than so many entries."""
    state.eliminate(state.plan, entries)


def search_softly_first(state: GraphState) -> None:
    """Search for a short time under soft arc consistency."""
    state.soft = begin_soft(state.search)
    state.search_softly(1_000 if state.has_many_labels else 200)


def branch_briefly(state: GraphState, nodes: int = 64) -> None:
    """Branch a little; if that does not close the gap, go on from the root as it was, with the labeling it found."""
    search = state.search
    unary, dual = search.network.scores.unary.copy(), search.dual
    messages = Messages(*(a.copy() for a in search.messages))
    state.branch(nodes)
    if search.is_open:
        search.network.scores.unary[:] = unary
        search.messages, search.dual, search.stack, search.depth = messages, dual, None, 0


# --- the walk ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphStep:
    """One entry of the walk: the engine that an answer names, what it does, and when it pays."""

    engine: str
    run: Callable[[GraphState], Any]
    pays: Callable[[GraphState], bool] = lambda state: True


FIRST_STEPS = (
    GraphStep("trws", partial(sweep, rounds=12)),
    GraphStep("elimination", partial(eliminate_at_once, entries=EASY_ENTRIES), is_small),
)
"""What every graph begins with."""

LARGE_STEPS = (
    GraphStep("trws", sweep_large),
    GraphStep("trws", improve_large, has_time),
    GraphStep("trws", partial(sweep_large, share=0.5), has_time),
    GraphStep("branch", solve_pieces, has_time),
)
"""Large graphs of which a labeling is known: bound and labeling first, search only in what they leave open."""

TURNS = tuple(
    step
    for nodes in (TURN_NODES * 2**k for k in range(10))
    for step in (
        GraphStep(
            "elimination", partial(eliminate_as_planned, entries=4 * nodes * TABLE_ENTRIES_PER_NODE), has_turns
        ),
        GraphStep("soft", partial(GraphState.search_softly, nodes=nodes), has_turns),
        GraphStep("branch", partial(GraphState.branch, nodes=nodes // 5), has_turns),
    )
)
"""Searches take turns, each twice as long as the one before; elimination follows when it costs little beside them."""

STEPS = (
    GraphStep("trws", propose_labels, is_tight),
    GraphStep("soft", search_softly_first, is_tight),
    GraphStep("elimination", partial(eliminate_at_once, entries=PIECE_ENTRIES), is_tight),
    GraphStep("branch", branch_briefly, lambda state: not state.is_tight),
    GraphStep("trws", sweep),
    GraphStep("trws", plan_searches),
    GraphStep("elimination", partial(eliminate_as_planned, entries=PIECE_ENTRIES)),
    GraphStep("branch", partial(GraphState.branch, nodes=TURN_NODES), lambda state: state.soft is None),
    *TURNS,
    GraphStep("elimination", eliminate_as_planned),
    GraphStep("branch", GraphState.branch, lambda state: state.search.value == -np.inf),
    GraphStep("branch", finish_pieces),
)
"""All others."""


def _run(steps: tuple[GraphStep, ...], state: GraphState, engine: str) -> str:
    """Take steps until the gap is closed; return the engine that learned something last."""
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


def eliminate_or_refuse(state: GraphState) -> None:
    """Eliminate what is left whatever it costs; refused (``InputError``) if its tables would be too large."""
    plan = plan_elimination(state.parts, state.search)
    if plan is None:
        raise InputError('engine="elimination" would need too large tables for this graph; use "auto".')
    state.eliminate(plan)


SWEEP_FULLY = GraphStep("trws", partial(sweep, progress=0.0))

ENGINE_STEPS = {
    "trws": (SWEEP_FULLY,),
    "branch": (SWEEP_FULLY, GraphStep("branch", GraphState.branch)),
    "elimination": (GraphStep("trws", partial(sweep, rounds=12)), GraphStep("elimination", eliminate_or_refuse)),
}
"""Engines that are a few steps of the walk."""


def walk_graph(
    engine: str, problem: GraphProblem, node_limit: int, seconds: float | None, warm_start: np.ndarray | None = None
) -> Answer:
    """Take the steps of an engine."""
    parts, rest = parts_of(problem)
    search = _start(parts, warm_start)
    _run(ENGINE_STEPS[engine], GraphState(parts, search, Budget.start(node_limit, seconds)), engine)
    return search_answer(problem, search, rest, engine)


def auto_graph(
    problem: GraphProblem, node_limit: int, seconds: float | None, warm_start: np.ndarray | None = None
) -> Answer:
    """Walk from cheap to exact and stop at the first certificate; see ``decode_graph``."""
    parts, rest = parts_of(problem)
    budget = Budget.start(node_limit, seconds)
    state = GraphState(parts, _start(parts, warm_start), budget)
    engine = _run(FIRST_STEPS, state, "trws")
    engine = _run(STEPS if state.is_small or state.search.value == -np.inf else LARGE_STEPS, state, engine)
    engine = "tree" if engine == "trws" and state.search.network.is_forest else engine
    answer = search_answer(problem, state.search, rest, engine)
    if not len(rest) or is_closed(answer):
        return answer
    return _better(answer, milp_graph(problem, node_limit, budget.seconds))


def _start(parts: GraphParts, warm_start: np.ndarray | None) -> Search:
    search = begin(parts)
    if warm_start is not None:
        labels = np.zeros(search.network.n_nodes, np.int64)
        labels[: len(warm_start)] = warm_start
        search.offer(labels[search.network.order])
    return search


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
    return answer.bound <= answer.value + 2.0 * SLACK


def _better(one: Answer, other: Answer) -> Answer:
    best = one if one.value >= other.value else other
    return replace(best, bound=max(best.value, min(one.bound, other.bound)), engine=other.engine)
