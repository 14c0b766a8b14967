"""The exact graph engine: TRW-S, then branch and bound on its bound, then on the pieces that bounds leave open."""

from dataclasses import dataclass, replace
from time import monotonic

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph.condition import Cases, cases_of
from rulefield.inference.graph.evaluate import Answer, evaluate, no_answer
from rulefield.inference.graph.exact.eliminate import Elimination, plan_elimination, propose
from rulefield.inference.graph.exact.soft import SoftSearch, begin_soft
from rulefield.inference.graph.maxflow import flow_graph, is_submodular
from rulefield.inference.graph.milp import milp_graph, milp_parts
from rulefield.inference.graph.network import build_network
from rulefield.inference.graph.parts import Connected, GraphParts, extend, parts_of, split
from rulefield.inference.graph.toulbar2 import finish_with_toulbar2
from rulefield.inference.graph.trws import (
    MANY_NODES,
    MOVES,
    ROUNDS,
    Search,
    begin,
    begin_network,
    branch_and_bound,
    descend,
)
from rulefield.inference.limits import deadline
from rulefield.kernels.graph.exact.branch import margins
from rulefield.kernels.graph.sweep import Messages
from rulefield.problem.graph import GraphProblem

CLOSED = 2e-7  # of a gap, in nats: well within the tolerance of a certificate
BRIEFLY = 64  # search nodes, where the best labeling was found already these are most often enough
FIRST_NODES = 512
RULED_NODES = 8 * FIRST_NODES  # under rules, where there is no soft arc consistency to take turns with
LARGE_NODES = 5_000  # for branch and bound on a network of MANY_NODES, whatever the limit
MOST_NODES = 5_000  # of a network that is branched on as a whole
NODE_ENTRIES = 3_000  # message entries that a search node may have to count as one
MILP_COLUMNS = 20_000
MILP_NODES = 2_000
MILP_SECONDS = 10.0
ROOT_PROGRESS = 0.003  # stop sweeping and branch when a round closes less of the gap
SURE = 0.05  # of the mean lead: a label that leads by more is not doubted when a labeling is made
CASE_ROUNDS = 5
LAST_ROUNDS, MOST_ROUNDS = 100, 2_000  # of sweeps on a large graph, and what decides between them:
ENTRIES = 200_000_000  # of messages, in all rounds together
MOST_PIECES = 1_000
MOST_SPARE = 1.5  # labels per node beyond one: with more, elimination is not easy, and no plan is made
FIRST_ROUNDS = (12, 20)  # after each, what is left is looked at as a smaller problem
FEW_LEFT = 0.5  # of the labels beyond one per node: with fewer left a smaller problem is worth building
NODE_WORK = 30_000  # entries looked at under soft arc consistency that count as one search node
TABLE_WORK = 6 * NODE_WORK  # entries of tables in elimination that do: six times as fast
EASY = 4_000_000  # entries of tables: with fewer, elimination is tried before any search
LIKE_A_SEARCH = 40_000_000  # with fewer, it costs about what the first search would
FAIR = 2**29  # with fewer, before long searches
FIRST_WORK = 5_000_000  # of such entries, where labels are many, before anything else is tried
MOST_WORK = 80_000_000  # in one turn: what is open after this is left to pieces and HiGHS
MOST_WORK_NODES = 100_000  # of the budget that this is for; a larger one has larger turns
WORTH = 20  # entries of tables, in elimination, that cost what one entry does in a turn of both searches
USE_TOULBAR2 = True  # where it is installed, elimination has no way, and the first searches did not end
FIRST_BACKTRACKS = 1_000  # of toulbar2, which begins anew whenever it is asked: four times as many in each turn
TIMED_BACKTRACKS = 30_000  # where time is limited anyway: so many at first,
FIRST_SECONDS = 4.0  # and so long, four times as much of both in each turn,
MOST_OF_TIME = 0.4  # but no more of the time left
MANY_LABELS = 12  # of a node: a sweep costs the square
ONE_PIECE = 0.8  # of the open nodes in one piece: splitting would not pay


@dataclass
class Budget:
    """Search nodes and time that are left, and whether HiGHS may be asked for a piece that nothing else closes."""

    nodes: int
    deadline: float
    may_ask_highs: bool
    most_work: int

    @classmethod
    def of(cls, node_limit: int, seconds: float | None) -> "Budget":
        """Start the clock."""
        end = np.inf if seconds is None else monotonic() + seconds
        return cls(int(node_limit), end, node_limit >= MILP_NODES, MOST_WORK * max(1, node_limit // MOST_WORK_NODES))

    def search(self, search: Search, most: int | None = None) -> None:
        """Branch and bound within the budget (and ``most`` nodes); a node of a large network counts as several.

        On a large network the gap is the sum of many small ones, which branching on one node does not see: it gets
        a part of the budget, and a very large one none; the rest is left to the pieces.
        """
        price = _price(search)
        limit = self.nodes if most is None else min(self.nodes, most)
        if search.network.n_nodes > MANY_NODES:
            limit = min(limit, LARGE_NODES if search.network.n_nodes <= MOST_NODES else 0)
        before = search.nodes
        branch_and_bound(search, -(-limit // price), self.deadline)
        self.nodes -= (search.nodes - before) * price

    def search_softly(self, search: Search, soft: SoftSearch | None, work: int) -> None:
        """Search under soft arc consistency, looking at ``work`` entries or what the budget allows."""
        if soft is not None and search.is_open and self.nodes > 0:
            work = min(work, self.nodes * NODE_WORK)
            self.nodes -= soft.run(search, work, self.deadline) // NODE_WORK

    def eliminate(self, search: Search, found: Elimination | None, most: float = np.inf) -> bool:
        """Solve what is left by variable elimination where a way was found, of at most so many entries; True: it did."""
        if found is None or not search.is_open or found.work > min(most, max(EASY, self.nodes * TABLE_WORK)):
            return False
        with deadline(self.seconds) as limit:
            found.run(search, limit)
        self.nodes -= int(found.work) // TABLE_WORK
        return not search.is_open

    def ask_highs(self, search: Search, parts: GraphParts) -> None:
        """Let HiGHS go on where a piece is small; it counts its nodes, not what the first one costs, so it has a clock."""
        small = search.network.n_nodes <= MANY_NODES and len(parts.potentials.pairwise) <= MILP_COLUMNS
        if small and self.may_ask_highs:
            milp_parts(parts, search, MILP_NODES, min(MILP_SECONDS, self.deadline - monotonic()))

    def ask_toulbar2(self, search: Search, parts: GraphParts, turn: int) -> None:
        """Let toulbar2 go on where it is installed, four times as long in each turn; two backtracks count as a search node.

        A backtrack may take it long: where time is limited, so is that of a turn.
        """
        price, left, grown = _price(search), self.seconds, 4**turn
        backtracks = grown * (FIRST_BACKTRACKS if left is None else TIMED_BACKTRACKS)
        seconds = None if left is None else min(MOST_OF_TIME * left, grown * FIRST_SECONDS)
        self.nodes -= (
            price * finish_with_toulbar2(parts, search, min(2 * self.nodes // price, backtracks), seconds) // 2
        )

    @property
    def seconds(self) -> float | None:
        """Seconds left, None where time is not limited."""
        return None if np.isinf(self.deadline) else max(0.0, self.deadline - monotonic())


def _price(search: Search) -> int:
    """Return what a search node of a network counts as: one for small networks, more for large ones."""
    return max(1, len(search.messages.edge) // NODE_ENTRIES)


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
    budget = Budget.of(node_limit, seconds)
    search = _start(parts, warm_start)
    descend(search, deadline=budget.deadline)
    budget.search(search)
    return search_answer(problem, search, rest, "branch")


def elimination_graph(problem: GraphProblem, seconds: float | None) -> Answer:
    """Sweep a little, then eliminate what bounds leave open.

    Raises
    ------
    InputError
        Where its tables would be too large.
    """
    parts, rest = parts_of(problem)
    budget = Budget.of(MOST_WORK, seconds)
    search = _start(parts, None)
    descend(search, FIRST_ROUNDS[0], deadline=budget.deadline)
    found = plan_elimination(search)
    if search.is_open and found is None:
        raise InputError('engine="elimination" would need too large tables for this graph; use "auto".')
    budget.eliminate(search, found)
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
    budget = Budget.of(node_limit, seconds)
    cases = None if len(rest) else cases_of(problem.potentials)
    if cases is not None:
        return _best_case(problem, cases, parts, budget, warm_start)
    search = _start(parts, warm_start)
    engine = _solve(parts, search, budget)
    answer = search_answer(problem, search, rest, engine)
    if not len(rest) or is_closed(answer):
        return answer
    return _better(answer, milp_graph(problem, node_limit, budget.seconds))


def _solve(parts: GraphParts, search: Search, budget: Budget) -> str:
    """Close the gap of a search as far as the budget allows; return the engine that came last."""
    tight = _is_tight(parts)
    eliminated = _squeeze(search, budget, FIRST_ROUNDS[:1] if tight else FIRST_ROUNDS)
    if not search.is_open:
        return "tree" if search.network.is_forest else "elimination" if eliminated else "trws"
    if search.network.n_nodes > MANY_NODES and search.value > -np.inf:
        return _solve_large(parts, search, budget)
    many = tight and int(parts.potentials.n_labels.max()) >= MANY_LABELS
    if tight:
        budget.search_softly(search, begin_soft(search), FIRST_WORK if many else FIRST_WORK // 5)
        if not search.is_open:
            return "soft"
        if budget.eliminate(search, plan_elimination(search, FAIR)):
            return "elimination"
    else:
        _search_briefly(search, budget)
    if search.is_open:
        descend(search, progress=ROOT_PROGRESS, deadline=budget.deadline)
        propose(search, EASY // 4)
    engine = "tree" if search.network.is_forest else "branch" if search.nodes else "trws"
    if search.is_open:
        engine = _branch(parts, search, budget, many)
    if search.is_open and search.value == -np.inf:
        budget.search(search)  # labels can only be ruled out by a labeling, so find one first
    if search.is_open and search.value > -np.inf:
        _finish(parts, search, budget)
    return engine


def _squeeze(search: Search, budget: Budget, stages: tuple[int, ...]) -> bool:
    """Sweep, eliminate what is left where that is easy, else look for a better labeling; True where that closed it."""
    for rounds in stages:
        descend(search, rounds, progress=ROOT_PROGRESS, deadline=budget.deadline)
        if not search.is_open or search.network.n_nodes > MANY_NODES:
            return False
        spare = np.count_nonzero(search.network.scores.unary > -np.inf) - search.network.n_nodes
        if spare <= MOST_SPARE * search.network.n_nodes and budget.eliminate(search, plan_elimination(search, EASY)):
            return True
        propose(search, EASY // 4)
    return False


def _search_briefly(search: Search, budget: Budget) -> None:
    """Branch a little; what is not closed goes on from the root as it was, with the labeling that was found."""
    unary, messages, dual = (
        search.network.scores.unary.copy(),
        Messages(*(a.copy() for a in search.messages)),
        search.dual,
    )
    budget.search(search, BRIEFLY)
    if search.is_open:
        search.network.scores.unary[:] = unary
        search.messages, search.dual, search.stack, search.depth = messages, dual, None, 0


def _branch(parts: GraphParts, search: Search, budget: Budget, many: bool) -> str:
    """Search from the root's bound, under soft arc consistency and on sweeps by turns; return who closed the gap.

    The first begins from the root's messages, which the second overwrites. Elimination has its turn as soon as it is
    not much dearer than what was spent.
    """
    found = plan_elimination(search)
    if budget.eliminate(search, found, LIKE_A_SEARCH):
        return "elimination"
    soft = begin_soft(search)
    may_ask = found is None and USE_TOULBAR2
    if many:
        budget.search_softly(search, soft, 2 * FIRST_WORK)
    asked = may_ask and _is_tight(parts)  # where sweeps see little it is asked before them
    if asked:
        budget.ask_toulbar2(search, parts, 0)
        if not search.is_open:
            return "toulbar2"
    if search.is_open:
        _search_what_is_left(parts, search, budget)
        budget.search(search, FIRST_NODES if soft is not None else RULED_NODES)
    if budget.eliminate(search, found, FAIR):
        return "elimination"
    work, turn = 4 * FIRST_WORK, 0
    while search.is_open and budget.nodes > 0 and budget.seconds != 0.0 and work <= budget.most_work:
        if may_ask and not (asked and turn == 0):
            budget.ask_toulbar2(search, parts, turn)
            if not search.is_open:
                return "toulbar2"
        if soft is None and not may_ask:
            break
        if budget.eliminate(search, found, WORTH * work):
            return "elimination"
        budget.search_softly(search, soft, work)
        budget.search(search, work // NODE_WORK)
        work, turn = 2 * work, turn + 1
    if soft is not None and soft.depth == 0:
        return "soft"
    if found is not None:
        budget.search(search, int(found.work) // TABLE_WORK)
    return "elimination" if budget.eliminate(search, found) else "branch"


def _is_tight(parts: GraphParts) -> bool:
    """Whether forbidden pairs or many labels rule: sweeps then are dear, and see little."""
    p = parts.potentials
    return bool(p.n_nodes <= MANY_NODES and (p.n_labels.max() >= MANY_LABELS or (p.pairwise == -np.inf).any()))


def _solve_large(parts: GraphParts, search: Search, budget: Budget) -> str:
    """Make the best of bound and labeling first, in time linear in the graph; search only in what they leave open."""
    messages = search.messages
    entries = 1 + len(messages.edge) + len(messages.prefix) + len(messages.suffix)
    rounds = min(MOST_ROUNDS, max(LAST_ROUNDS, ENTRIES // entries))
    descend(search, rounds, deadline=budget.deadline)
    if search.is_open and budget.seconds != 0.0:
        propose(search, 4 * EASY)
        _mend(parts, search, budget)
        descend(search, rounds // 2, deadline=budget.deadline)
    if not search.is_open or budget.seconds == 0.0:  # making smaller problems takes seconds, too
        return "tree" if search.network.is_forest else "trws"
    _solve_what_is_left(parts, search, search, budget, use_milp=False)
    return "branch" if search.nodes else "trws"


def _search_what_is_left(parts: GraphParts, search: Search, budget: Budget) -> None:
    """Branch on the labels that bounds leave open, as a smaller problem, where they are few (most often they are)."""
    alive = search.network.scores.unary > -np.inf
    spare = int(alive.sum()) - search.network.n_nodes
    if search.value == -np.inf or spare > FEW_LEFT * (len(alive) - search.network.n_nodes):
        return
    components, labels, constant = split(parts, _in_problem_order(search, alive))
    if len(components) != 1:
        return
    piece = begin(components[0].parts)
    piece.value = least = search.value - constant
    descend(piece, progress=ROOT_PROGRESS, deadline=budget.deadline)
    budget.search(piece, FIRST_NODES)
    search.rounds, search.nodes = search.rounds + piece.rounds, search.nodes + piece.nodes
    answer = piece.answer() if piece.value > least else None
    if answer is not None:
        _write(labels, components[0], answer)
        _adopt(search, piece.value + constant, labels[search.network.order].astype(np.uint64))
    search.bound = max(search.value, min(search.bound, piece.bound + constant))


def _best_case(
    problem: GraphProblem, cases: Cases, parts: GraphParts, budget: Budget, warm_start: np.ndarray | None
) -> Answer:
    """Solve every case of the hubs' labels; one whose bound falls below the best labeling so far is given up."""
    pieces = [replace(parts, potentials=extend(cases.problem(problem, k))) for k in range(len(cases.labels))]
    structure = build_network(pieces[0])
    searches = [begin_network(structure.pour(piece.potentials)) for piece in pieces]
    for search in searches:
        if warm_start is not None:
            _offer(search, warm_start)
        descend(search, CASE_ROUNDS, deadline=budget.deadline)
    order = sorted(range(len(pieces)), key=lambda k: -searches[k].value)
    best = searches[order[0]]
    for k in order:
        least = best.value
        _adopt(searches[k], least, searches[k].labels)
        if searches[k].is_open:
            _solve(pieces[k], searches[k], budget)
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
    budget = Budget.of(node_limit, seconds)
    search = _start(parts, None)
    descend(search, deadline=budget.deadline)
    if search.is_open:
        _finish(parts, search, budget, use_milp=True)
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
    return answer.bound <= answer.value + CLOSED


def _better(one: Answer, other: Answer) -> Answer:
    """Return the better labeling with the better bound."""
    best = one if one.value >= other.value else other
    return replace(best, bound=max(best.value, min(one.bound, other.bound)), engine=other.engine)


def _finish(parts: GraphParts, search: Search, budget: Budget, use_milp: bool = False) -> None:
    """Forbid labels by the root's bound and the best labeling, and solve what is left piece by piece."""
    root = begin(parts)
    descend(root, deadline=budget.deadline)
    _adopt(root, search.value, search.labels)
    descend(root, rounds=ROUNDS, deadline=budget.deadline)
    _adopt(search, root.value, root.labels)
    search.bound, search.rounds = min(search.bound, root.bound), search.rounds + root.rounds
    if search.is_open:
        _solve_what_is_left(parts, search, root, budget, use_milp)


def _solve_what_is_left(parts: GraphParts, search: Search, root: Search, budget: Budget, use_milp: bool) -> None:
    """Solve the pieces into which the labels that ``root`` still allows fall; the whole where they hang together."""
    alive = _in_problem_order(root, root.network.scores.unary > -np.inf)
    components, labels, constant = split(parts, alive, MOST_PIECES)
    sizes = [len(piece.nodes) for piece in components]
    if not use_milp and max(sizes, default=0) > ONE_PIECE * sum(sizes):
        budget.search(search)
        if not search.is_open or max(sizes) > MANY_NODES:
            return
    value, bound = _solve_pieces(components, labels, constant, budget, use_milp, search)
    _adopt(search, value, labels[root.network.order].astype(np.uint64))
    search.bound = max(search.value, min(search.bound, bound))


def _adopt(search: Search, value: float, labels: np.ndarray) -> None:
    """Take a labeling (network order) where it is better."""
    if value > search.value:
        search.value, search.labels = value, labels


def _in_problem_order(search: Search, flags: np.ndarray) -> np.ndarray:
    out = np.empty_like(flags)
    out[search.network.unary_from] = flags
    return out


def _mend(parts: GraphParts, search: Search, budget: Budget) -> None:
    """Look for a better labeling around the nodes that the bound's scores decide clearly.

    Fixing these is the idea of CombiLP ([Savchynskyy13]); here it only makes a labeling, and the proof is left to
    bounds.
    """
    network = search.network
    leads, picks = margins(network.net, network.scores.unary, search.messages)
    finite = leads[np.isfinite(leads)]
    if not len(finite):
        return
    sure = leads > SURE * finite.mean()
    start = network.net.node_at.astype(np.int64)
    alive = search.original > -np.inf
    alive[np.repeat(sure, np.diff(start))] = False
    alive[(start[:-1] + picks)[sure]] = True
    components, labels, _ = split(parts, _in_problem_order(search, alive), most=1)
    if not components:
        return
    piece = begin(components[0].parts)
    descend(piece, deadline=budget.deadline)
    search.rounds += piece.rounds
    answer = piece.answer()
    if answer is not None:
        _write(labels, components[0], answer)
        search.offer(labels[network.order], MOVES)


def _solve_pieces(
    components: list[Connected], labels: np.ndarray, constant: float, budget: Budget, use_milp: bool, whole: Search
) -> tuple[float, float]:
    """Solve all pieces, write their labels into ``labels`` (problem order); returns value and bound of the whole."""
    value = bound = constant
    for piece in components:
        found = _solve_piece(piece, budget, use_milp, whole)
        value, bound = value + found[0], bound + found[1]
        if found[2] is not None:
            _write(labels, piece, found[2])
    return value, bound


def _write(labels: np.ndarray, piece: Connected, answer: np.ndarray) -> None:
    """Put the labels of a piece where they belong."""
    sizes = np.array([len(keep) for keep in piece.labels])
    labels[piece.nodes] = np.concatenate(piece.labels)[np.cumsum(sizes) - sizes + answer]


def _solve_piece(
    piece: Connected, budget: Budget, use_milp: bool, whole: Search
) -> tuple[float, float, np.ndarray | None]:
    """Value, bound and labels of one piece."""
    search = begin(piece.parts)
    descend(search, deadline=budget.deadline)
    if not use_milp:
        budget.eliminate(search, plan_elimination(search, FAIR))
        budget.search(search)
    if search.is_open and use_milp:
        milp_parts(piece.parts, search, MILP_NODES, budget.seconds)
    elif search.is_open:
        budget.ask_highs(search, piece.parts)
    whole.rounds, whole.nodes = whole.rounds + search.rounds, whole.nodes + search.nodes
    return search.value, search.bound, search.answer()
