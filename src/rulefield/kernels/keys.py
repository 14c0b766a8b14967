"""Integer keys to numbers, and lists of numbers by group: what remains of feature extraction per token.

The table of keys is flat: slot s holds ``table[2 s]``, a key plus one (0: the slot is free), and its number. Linear
probing; the number of slots is a power of two, and at least half of them are free.
"""

import numpy as np

from rulefield.kernels.jit import kernel

MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def number_keys(keys, begin, table, used, numbers, fresh):
    """Fill the number of each key from position ``begin`` on; new ones get the next numbers and go to ``fresh``.

    Stops where ``fresh`` is full, so that the table keeps its room. Returns the position and the number of fresh keys.
    """
    mask = np.uint64(len(table) // 2 - 1)
    n_fresh = np.uint64(0)
    for i in range(begin, np.uint64(keys.size)):
        wanted = keys[i] + np.uint64(1)
        h = wanted * MIX
        s = (h ^ (h >> np.uint64(32))) & mask
        while table[s + s] != 0 and table[s + s] != wanted:
            s = (s + np.uint64(1)) & mask
        if table[s + s] == 0:
            if n_fresh == np.uint64(fresh.size):
                return i, n_fresh
            table[s + s] = wanted
            table[s + s + np.uint64(1)] = used + n_fresh
            fresh[n_fresh] = keys[i]
            n_fresh += np.uint64(1)
        numbers[i] = np.int32(table[s + s + np.uint64(1)])
    return np.uint64(keys.size), n_fresh


@kernel
def add_keys(keys, first, table):
    """Put new, distinct keys into a table that has room; they get the numbers from ``first`` on."""
    mask = np.uint64(len(table) // 2 - 1)
    for i in range(np.uint64(keys.size)):
        wanted = keys[i] + np.uint64(1)
        h = wanted * MIX
        s = (h ^ (h >> np.uint64(32))) & mask
        while table[s + s] != 0:
            s = (s + np.uint64(1)) & mask
        table[s + s] = wanted
        table[s + s + np.uint64(1)] = first + i


@kernel
def gather_groups(groups, width, stop, members, counts, out):
    """Write the members of each row's groups (rows of ``width``, -1: none) one after the other.

    Group g has ``members[stop[g] : stop[g + 1]]``. ``counts`` gets the number of members of each row.
    """
    at = np.uint64(0)
    for t in range(np.uint64(counts.size)):
        begin = at
        for k in range(t * width, (t + np.uint64(1)) * width):
            g = groups[k]
            if g >= 0:
                for p in range(stop[np.uint64(g)], stop[np.uint64(g) + np.uint64(1)]):
                    out[at] = members[p]
                    at += np.uint64(1)
        counts[t] = at - begin
    return at
