"""Sequential tree-reweighted message passing (TRW-S) over edges and over rules read by small automata.

The dual bound is that of [Kolmogorov06]: the graph is covered
by chains that are monotone in the order of the nodes; a node shares its reparametrized scores equally among its
chains; each message keeps the best completion of a chain constant. A rule is one more chain, whose
message is indexed by the state of its automaton, so that the bound knows the whole convex hull of each rule.

A sweep visits nodes 0 .. n-1 (ahead) or n-1 .. 0 (back). Minus infinity forbids. Helpers take few plain arrays:
a tuple of thirty arrays is copied at each call that the compiler does not inline.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.certificate import SLACK, rounding_error_kernel
from rulefield.kernels.jit import kernel

ONE = np.uint64(1)
ZERO = np.uint64(0)


class Net(NamedTuple):
    """Index arrays of one network, all uint32.

    Labels of node v are ``node_at[v] : node_at[v + 1]``. Its neighbors are entries ``inc_ptr[v] : inc_ptr[v + 1]``,
    those before ``inc_mid[v]`` come earlier in the order. Entry k: message to v at ``inc_recv[k]``, from v at
    ``inc_send[k]``, score matrix at ``inc_pair[k]`` (rows: the earlier node).

    Automaton f has ``n_states[f]`` states (0 is the initial one) and reads one letter at each of its positions;
    ``delta[delta_at[f] + letter * n_states[f] + state]`` is the next state. Position p belongs to node
    ``pos_node[p]``, whose label y is read as ``letter[letter_at[p] + y]``. State messages of position p (before
    reading it) start at ``state_at[p]``, those after it at ``state_at[p] + n_states``. Positions of node v:
    ``at_pos[at_ptr[v] : at_ptr[v + 1]]``.
    """

    node_at: np.ndarray
    inc_ptr: np.ndarray
    inc_mid: np.ndarray
    inc_other: np.ndarray
    inc_recv: np.ndarray
    inc_send: np.ndarray
    inc_pair: np.ndarray
    n_states: np.ndarray
    n_letters: np.ndarray
    delta_at: np.ndarray
    delta: np.ndarray
    final_at: np.ndarray
    automaton_ptr: np.ndarray
    pos_node: np.ndarray
    pos_automaton: np.ndarray
    letter_at: np.ndarray
    letter: np.ndarray
    state_at: np.ndarray
    read_at: np.ndarray
    at_ptr: np.ndarray
    at_pos: np.ndarray


class Scores(NamedTuple):
    """Log-scores: nodes, edges, final states of the automata; ``share`` is 1 / (number of chains) of each node."""

    unary: np.ndarray
    pairwise: np.ndarray
    final: np.ndarray
    share: np.ndarray


class Messages(NamedTuple):
    """Messages along edges, of automata' states before and after a position, and of automata to nodes (``read``)."""

    edge: np.ndarray
    prefix: np.ndarray
    suffix: np.ndarray
    read: np.ndarray


@kernel
def start_messages(net, scores, messages):
    """Zero messages along edges; automata' states get what their letters allow (0, or -inf where impossible)."""
    messages.edge[:] = 0.0
    messages.read[:] = 0.0
    messages.prefix[:] = -np.inf
    messages.suffix[:] = -np.inf
    for f in range(len(net.n_states)):
        size = np.uint64(net.n_states[f])
        letters = np.uint64(net.n_letters[f])
        gain = np.zeros(letters)
        begin, end = np.int64(net.automaton_ptr[f]), np.int64(net.automaton_ptr[f + 1])
        row = np.uint64(net.delta_at[f])
        messages.prefix[net.state_at[begin]] = 0.0
        for p in range(begin, end):
            step_prefix(messages.prefix, np.uint64(net.state_at[p]), net.delta, row, size, letters, gain)
        last = net.state_at[end - 1] + size
        for s in range(size):
            messages.suffix[last + s] = scores.final[net.final_at[f] + s]
        for p in range(end - 1, begin - 1, -1):
            step_suffix(messages.suffix, np.uint64(net.state_at[p]), net.delta, row, size, letters, gain)


@kernel
def step_prefix(prefix, here, delta, row, size, letters, gain):
    """Read one position: prefix after it from prefix before it; returns the constant taken out."""
    there = here + size
    best = -np.inf
    for s in range(size):
        prefix[there + s] = -np.inf
    for c in range(letters):
        if gain[c] == -np.inf:
            continue
        for s in range(size):
            value = prefix[here + s] + gain[c]
            to = there + delta[row + c * size + s]
            if value > prefix[to]:
                prefix[to] = value
                best = max(best, value)
    if best > -np.inf:
        for s in range(size):
            prefix[there + s] -= best
    return best


@kernel
def step_suffix(suffix, here, delta, row, size, letters, gain):
    """Read one position backwards: suffix before it from suffix after it; returns the constant taken out."""
    there = here + size
    best = -np.inf
    for s in range(size):
        value = -np.inf
        for c in range(letters):
            value = max(value, gain[c] + suffix[there + delta[row + c * size + s]])
        suffix[here + s] = value
        best = max(best, value)
    if best > -np.inf:
        for s in range(size):
            suffix[here + s] -= best
    return best


@kernel
def meet(prefix, suffix, here, delta, row, size, letters, read, read_at):
    """Message of an automaton to one position: the best prefix and suffix around each letter."""
    for c in range(letters):
        best = -np.inf
        for s in range(size):
            best = max(best, prefix[here + s] + suffix[here + size + delta[row + c * size + s]])
        read[read_at + c] = best


@kernel
def spell(theta, size, share, read, read_at, letter, letter_at, gain, letters):
    """Put in ``gain`` what a node gives an automaton for each letter: its share less the automaton's own message."""
    for c in range(letters):
        gain[c] = -np.inf
    for y in range(size):
        if theta[y] > -np.inf:
            c = np.uint64(letter[letter_at + y])
            gain[c] = max(gain[c], share * theta[y] - read[read_at + c])


@kernel
def prune(unary, begin, size, theta, bound, goal):
    """Forbid the labels whose bound is below ``goal``, and center ``theta`` at 0; returns its maximum."""
    top = -np.inf
    for y in range(size):
        top = max(top, theta[y])
    for y in range(size):
        if bound - top + theta[y] < goal:
            theta[y] = -np.inf
            unary[begin + y] = -np.inf
        elif top > -np.inf:
            theta[y] -= top
    return top


@kernel
def send_rows(own, size, pairwise, at, out, to, out_size):
    """Message over an edge to the later node: max over rows; returns the constant taken out."""
    for z in range(out_size):
        out[to + z] = -np.inf
    for y in range(size):
        if own[y] == -np.inf:
            continue
        row = at + y * out_size
        for z in range(out_size):
            out[to + z] = max(out[to + z], own[y] + pairwise[row + z])
    best = -np.inf
    for z in range(out_size):
        best = max(best, out[to + z])
    if best > -np.inf:
        for z in range(out_size):
            out[to + z] -= best
    return best


@kernel
def send_columns(own, size, pairwise, at, out, to, out_size):
    """Message over an edge to the earlier node: max over columns; returns the constant taken out."""
    best = -np.inf
    for z in range(out_size):
        value = -np.inf
        row = at + z * size
        for y in range(size):
            value = max(value, own[y] + pairwise[row + y])
        out[to + z] = value
        best = max(best, value)
    if best > -np.inf:
        for z in range(out_size):
            out[to + z] -= best
    return best


@kernel
def sweep(net, scores, messages, ahead, bound, goal, labels, states, theta, own, gain):
    """One sweep; ahead, it also labels the nodes, each given earlier labels and messages from later nodes.

    Labels y of node v with bound - max theta + theta[y] < goal are forbidden in ``scores.unary``; ``bound`` must be
    the bound after the sweep before, in the other direction, or inf. One long function on purpose: parts that took
    the tuple of index arrays were measured four times slower.

    Returns
    -------
    tuple of float
        The new bound (-inf: nothing is left) and, ahead, the value of ``labels``.
    """
    unary, pairwise, final, share = scores
    edge, prefix, suffix, read = messages
    n = len(net.node_at) - 1
    total, value = 0.0, 0.0
    if ahead:
        states[:] = 0
    for step in range(n):
        v = np.uint64(step if ahead else n - 1 - step)
        begin = np.uint64(net.node_at[v])
        size = np.uint64(net.node_at[v + ONE]) - begin
        inc, mid, inc_end = net.inc_ptr[v], net.inc_mid[v], net.inc_ptr[v + ONE]
        at, at_end = net.at_ptr[v], net.at_ptr[v + ONE]
        for y in range(size):
            theta[y] = unary[begin + y]
        for k in range(inc, inc_end):
            recv = net.inc_recv[k]
            for y in range(size):
                theta[y] += edge[recv + y]
        for k in range(at, at_end):
            p = net.at_pos[k]
            f = net.pos_automaton[p]
            n_states, letters = np.uint64(net.n_states[f]), np.uint64(net.n_letters[f])
            here, row, read_at = np.uint64(net.state_at[p]), np.uint64(net.delta_at[f]), np.uint64(net.read_at[p])
            meet(prefix, suffix, here, net.delta, row, n_states, letters, read, read_at)
            letter_at = np.uint64(net.letter_at[p])
            for y in range(size):
                theta[y] += read[read_at + net.letter[letter_at + y]]
        top = prune(unary, begin, size, theta, bound, goal)
        if top == -np.inf:
            return -np.inf, -np.inf
        total += top
        if ahead:
            pick, best, added = ZERO, -np.inf, -np.inf
            for y in range(size):
                own[y] = 0.0
            for k in range(mid, inc_end):
                recv = net.inc_recv[k]
                for y in range(size):
                    own[y] += edge[recv + y]
            for k in range(at, at_end):
                p = net.at_pos[k]
                f = net.pos_automaton[p]
                n_states, letters = np.uint64(net.n_states[f]), np.uint64(net.n_letters[f])
                after, row = np.uint64(net.state_at[p]) + n_states, np.uint64(net.delta_at[f]) + states[f]
                for c in range(letters):
                    gain[c] = suffix[after + net.delta[row + c * n_states]]
                letter_at = np.uint64(net.letter_at[p])
                for y in range(size):
                    own[y] += gain[net.letter[letter_at + y]]
            for y in range(size):
                if theta[y] == -np.inf:
                    continue
                fixed = unary[begin + y]
                for k in range(inc, mid):
                    fixed += pairwise[net.inc_pair[k] + labels[net.inc_other[k]] * size + y]
                hope = fixed + own[y]
                if hope > best or added == -np.inf:
                    pick, best, added = y, hope, fixed
            labels[v] = pick
            for k in range(at, at_end):
                p = net.at_pos[k]
                f = net.pos_automaton[p]
                c = np.uint64(net.letter[net.letter_at[p] + pick])
                states[f] = net.delta[net.delta_at[f] + c * net.n_states[f] + states[f]]
                if p + ONE == net.automaton_ptr[f + ONE]:
                    added += final[net.final_at[f] + states[f]]
            value += added
        part = share[v]
        for k in range(mid if ahead else inc, inc_end if ahead else mid):
            recv = net.inc_recv[k]
            other = net.inc_other[k]
            out_size = np.uint64(net.node_at[other + ONE]) - np.uint64(net.node_at[other])
            for y in range(size):
                own[y] = part * theta[y] - edge[recv + y] if theta[y] > -np.inf else -np.inf
            pair = np.uint64(net.inc_pair[k])
            to = np.uint64(net.inc_send[k])
            if ahead:
                total += send_rows(own, size, pairwise, pair, edge, to, out_size)
            else:
                total += send_columns(own, size, pairwise, pair, edge, to, out_size)
        for k in range(at, at_end):
            p = net.at_pos[k]
            f = net.pos_automaton[p]
            if (p + ONE == net.automaton_ptr[f + ONE]) if ahead else (p == net.automaton_ptr[f]):
                continue
            n_states, letters = np.uint64(net.n_states[f]), np.uint64(net.n_letters[f])
            read_at, letter_at = np.uint64(net.read_at[p]), np.uint64(net.letter_at[p])
            spell(theta, size, part, read, read_at, net.letter, letter_at, gain, letters)
            here, row = np.uint64(net.state_at[p]), np.uint64(net.delta_at[f])
            if ahead:
                total += step_prefix(prefix, here, net.delta, row, n_states, letters, gain)
            else:
                total += step_suffix(suffix, here, net.delta, row, n_states, letters, gain)
    return total, value


@kernel
def trws(net, scores, messages, rounds, patience, progress, bound, value, best_labels, work):
    """Sweep back and ahead until the bound meets the best value, or rounds stop paying.

    ``scores.unary`` loses the labels that cannot beat ``value`` by ``slack``. ``bound`` is inf where the messages
    come from other scores (nothing may be pruned before a full round). A round must improve the bound by ``patience``
    and by ``progress`` x (bound - value) to be followed by another.

    Returns
    -------
    tuple
        Bound (-inf: nothing is left that beats the best value), best value (labels in ``best_labels``), rounds done.
    """
    labels, states, theta, own, gain = work
    done = 0
    while done < rounds:
        done += 1
        before = bound
        for ahead in (False, True):
            level = value + slack(net, value)
            total, found = sweep(net, scores, messages, ahead, bound, level, labels, states, theta, own, gain)
            bound = min(bound, total)
            if ahead and found > value:
                value = found
                overwrite(best_labels, labels)
            if bound <= value + slack(net, value):
                return bound, value, done
        if before - bound < patience or (progress > 0.0 and before - bound < progress * (bound - value)):
            break
    return bound, value, done


@kernel
def slack(net, value):
    """Return what a better labeling must gain to be looked for: far less than the tolerance, and rounding.

    Scores have their constants taken out, so that ``value`` is the sum of what the labeling gives up.
    """
    if value == -np.inf:
        return 0.0
    terms = len(net.node_at) + len(net.inc_other) // 2 + len(net.n_states)
    return SLACK + rounding_error_kernel(terms, value)


@kernel
def workspace(net):
    """Scratch arrays of a sweep: labels, automaton states, scores of one node twice, gains of letters."""
    widest, letters = 1, 1
    for v in range(len(net.node_at) - 1):
        widest = max(widest, np.int64(net.node_at[v + 1]) - np.int64(net.node_at[v]))
    for f in range(len(net.n_letters)):
        letters = max(letters, np.int64(net.n_letters[f]))
    labels = np.zeros(len(net.node_at) - 1, np.uint64)
    states = np.zeros(len(net.n_states), np.uint64)
    return labels, states, np.empty(widest), np.empty(widest), np.empty(letters)
