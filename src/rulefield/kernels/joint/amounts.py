"""By how much the labelings of many chains break one rule."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def automaton_amounts(letters, offsets, n_letters, arc_ptr, arc_to, arc_amount, initial, final, amounts):
    """Fill ``amounts`` (n_chains,): the amount of the only accepting run of an automaton over each chain's letters.

    ``letters`` (n_tokens,) are the automaton's own; its arcs are as in ``problem.chain_rules.Automaton``, int64.
    """
    states = len(initial)
    now, then = np.empty(states, np.int64), np.empty(states, np.int64)
    for i in range(len(offsets) - 1):
        for s in range(states):
            now[s] = initial[s]
        for t in range(offsets[i], offsets[i + 1]):
            for s in range(states):
                then[s] = -1
            for s in range(states):
                if now[s] < 0:
                    continue
                cell = s * n_letters + letters[t]
                for a in range(arc_ptr[cell], arc_ptr[cell + 1]):
                    then[arc_to[a]] = now[s] + arc_amount[a]
            now, then = then, now
        for s in range(states):
            if now[s] >= 0 and final[s] >= 0:
                amounts[i] = now[s] + final[s]
