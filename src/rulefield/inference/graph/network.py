"""A graph problem as flat arrays for kernels: edges merged, rules as automata."""

from dataclasses import dataclass, replace

import numpy as np

from rulefield.inference.graph.automata import GraphAutomaton
from rulefield.inference.graph.parts import GraphParts
from rulefield.kernels.graph.network import PairPlaces, add_pair_scores, breadth_first
from rulefield.kernels.graph.sweep import Messages, Net, Scores
from rulefield.problem.graph import GraphPotentials, starts


@dataclass(frozen=True)
class Network:
    """One problem ready for sweeps: ``net`` depends on edges and rules, not on scores.

    ``order`` is the problem's node at each place of the network, ``unary_from`` the problem's score of each label, ``places``
    where the problem's pair scores go (so that new ones can be put into the same structure). One round of sweeps is exact on
    a forest: no loops, no automata.
    """

    net: Net
    scores: Scores
    order: np.ndarray
    is_forest: bool
    unary_from: np.ndarray
    places: PairPlaces

    @property
    def n_nodes(self) -> int:
        """Number of nodes, auxiliary variables included."""
        return len(self.order)

    def to_problem(self, labels: np.ndarray) -> np.ndarray:
        """Labels in the order of the problem's nodes, auxiliary values last."""
        out = np.empty(self.n_nodes, np.int64)
        out[self.order] = labels
        return out

    def by_label_of_problem(self, values: np.ndarray) -> np.ndarray:
        """Values by node and label, in the problem's order."""
        out = np.empty_like(values)
        out[self.unary_from] = values
        return out

    def new_messages(self) -> Messages:
        """Return room for messages; ``start_messages`` fills it."""
        net = self.net
        sizes, degrees = lengths(net.node_at), lengths(net.inc_ptr)
        states = int(net.state_at[-1]) if len(net.state_at) else 0
        return Messages(
            np.zeros(int((sizes * degrees).sum())),
            np.zeros(states),
            np.zeros(states),
            np.zeros(int(net.read_at[-1])),
        )

    def with_scores(self, p: GraphPotentials) -> "Network":
        """Return the same structure with other scores on the same graph (auxiliary variables are nodes)."""
        pairwise = np.zeros_like(self.scores.pairwise)
        add_pair_scores(self.places, p.pairwise, pairwise)
        return replace(self, scores=self.scores._replace(unary=p.unary[self.unary_from], pairwise=pairwise))


def build_network(parts: GraphParts) -> Network:
    """Compile potentials and automata: O(edges x labels^2) vectorized, and a loop over rules.

    Where the same rules are kept in memory, so is the structure for each graph that they meet.
    """
    if parts.memory is None:
        return _compile(parts).with_scores(parts.potentials)
    key = parts.potentials.edges.tobytes()
    if key not in parts.memory:
        parts.memory[key] = _compile(parts)
    structure: Network = parts.memory[key]
    return structure.with_scores(parts.potentials)


def _compile(parts: GraphParts) -> Network:
    """Structure and rules of a network, still without the potentials' scores."""
    p, large = parts.potentials, parts.automata
    sizes = p.n_labels
    ends = np.sort(p.edges, axis=1)
    keys = np.unique(ends[:, 0] * len(sizes) + ends[:, 1])
    order, is_forest = _order(keys, sizes, large)
    rank = np.empty(len(sizes), np.int64)
    rank[order] = np.arange(len(sizes))
    ends = np.sort(rank[np.stack([keys // len(sizes), keys % len(sizes)], axis=1)], axis=1)
    placed = np.lexsort((ends[:, 1], ends[:, 0]))
    index = np.empty(len(keys), np.int64)
    index[placed] = np.arange(len(keys))
    ends = ends[placed]
    net = _structure(sizes[order], ends, [_ranked(m, rank) for m in large])
    pair_at = starts(np.prod(sizes[order][ends], axis=1))
    final = np.concatenate([np.zeros(0), *(m.final for m in large)])
    scores = Scores(np.zeros(len(p.unary)), np.zeros(pair_at[-1]), final, _shares(net, is_forest))
    places = _pair_places(p, sizes, rank, keys, index, pair_at)
    return Network(net, scores, order, is_forest, _unary_from(sizes, order), places)


def _order(keys: np.ndarray, sizes: np.ndarray, large: list[GraphAutomaton]) -> tuple[np.ndarray, bool]:
    """Root first in forests, so that one round is exact; the problem's own order elsewhere."""
    n = len(sizes)
    if not large:
        low, high = keys // n, keys % n
        source, target = np.concatenate([low, high]), np.concatenate([high, low])
        by_source = np.argsort(source, kind="stable")
        pointer = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))])
        order, n_trees = breadth_first(pointer, target[by_source])
        if len(keys) == n - n_trees:
            return order, True
    return np.arange(n), False


def _ranked(automaton: GraphAutomaton, rank: np.ndarray) -> GraphAutomaton:
    places = rank[automaton.nodes]
    by_place = np.argsort(places)
    return replace(automaton, nodes=places[by_place], letters=[automaton.letters[k] for k in by_place])


def _group(keys: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Pointers and members of each group 0 .. n-1."""
    return starts(np.bincount(keys, minlength=n)), np.argsort(keys, kind="stable").astype(np.int64)


def _structure(sizes: np.ndarray, ends: np.ndarray, large: list[GraphAutomaton]) -> Net:
    n = len(sizes)
    first, second = np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])
    n_states = np.array([m.delta.shape[1] for m in large], dtype=np.int64)
    n_letters = np.array([m.delta.shape[0] for m in large], dtype=np.int64)
    lengths = np.array([len(m.nodes) for m in large], dtype=np.int64)
    pos_node = np.concatenate([np.zeros(0, np.int64), *(m.nodes for m in large)])
    pos_automaton = np.repeat(np.arange(len(large)), lengths).astype(np.int64)
    at_ptr, at_pos = _group(pos_node, n)
    automaton_ptr = starts(lengths)
    state_size = n_states[pos_automaton]
    state_size[automaton_ptr[1:] - 1] *= 2
    fields = dict(
        node_at=starts(sizes),
        **_incidence(sizes, first, second),
        n_states=n_states,
        n_letters=n_letters,
        delta_at=starts(n_states * n_letters),
        delta=_join([m.delta.ravel() for m in large]),
        final_at=starts(n_states),
        automaton_ptr=automaton_ptr,
        pos_node=pos_node,
        pos_automaton=pos_automaton,
        letter_at=starts(sizes[pos_node]),
        letter=_join([c for m in large for c in m.letters]),
        state_at=starts(state_size),
        read_at=starts(n_letters[pos_automaton]),
        at_ptr=at_ptr,
        at_pos=at_pos,
    )
    return Net(**{name: value.astype(np.uint32) for name, value in fields.items()})


def _join(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _incidence(sizes: np.ndarray, first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
    """Neighbors of each node, earlier ones first, with the places of their messages and score matrices."""
    n, m = len(sizes), len(first)
    ahead_at = starts(sizes[second])
    back_at = starts(sizes[first]) + ahead_at[-1]
    pair_at = starts(sizes[first] * sizes[second])[:-1]
    owner, other = np.concatenate([second, first]), np.concatenate([first, second])
    by_owner = np.lexsort((other, owner))
    return {
        "inc_ptr": starts(np.bincount(owner, minlength=n)),
        "inc_mid": starts(np.bincount(owner, minlength=n))[:-1] + np.bincount(second, minlength=n),
        "inc_other": other[by_owner],
        "inc_recv": np.concatenate([ahead_at[:-1], back_at[:-1]])[by_owner],
        "inc_send": np.concatenate([back_at[:-1], ahead_at[:-1]])[by_owner],
        "inc_pair": np.concatenate([pair_at, pair_at])[by_owner] if m else np.zeros(0, np.int64),
    }


def _unary_from(sizes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Place in the problem's unary scores of each of the network's."""
    start = starts(sizes)
    owner = np.repeat(order, sizes[order])
    label = np.arange(start[-1]) - np.repeat(starts(sizes[order])[:-1], sizes[order])
    return start[owner] + label


def _pair_places(
    p: GraphPotentials, sizes: np.ndarray, rank: np.ndarray, keys: np.ndarray, index: np.ndarray, pair_at: np.ndarray
) -> PairPlaces:
    """Find the network's table of each of the problem's edges."""
    i, j = np.ascontiguousarray(p.edges.T)
    found = np.searchsorted(keys, np.minimum(i, j) * len(sizes) + np.maximum(i, j))
    sizes = sizes.astype(np.int64)
    return PairPlaces(sizes[i], sizes[j], rank[i] > rank[j], pair_at[index[found]])


def _shares(net: Net, is_forest: bool) -> np.ndarray:
    """One over the number of monotone chains through each node; 1 in forests, where one tree covers all."""
    n = len(net.node_at) - 1
    if is_forest:
        return np.ones(n)
    at_ptr, earlier, later = _lengths(net)
    starts = np.bincount(net.pos_node[net.automaton_ptr[:-1]], minlength=n)
    ends = np.bincount(net.pos_node[net.automaton_ptr[1:] - 1], minlength=n)
    through = at_ptr - starts - ends
    chains = through + np.maximum(earlier + ends, later + starts)
    return 1.0 / np.maximum(chains, 1)


def _lengths(net: Net) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of automaton positions, earlier and later neighbors of each node."""
    mid, at_ptr = net.inc_mid.astype(np.int64), net.inc_ptr.astype(np.int64)
    return lengths(net.at_ptr), mid - at_ptr[:-1], at_ptr[1:] - mid


def lengths(pointers: np.ndarray) -> np.ndarray:
    """Sizes of the groups that pointers delimit, as int64."""
    wide = pointers.astype(np.int64)
    return wide[1:] - wide[:-1]
