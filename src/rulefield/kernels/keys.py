"""Integer keys to numbers, and lists of numbers by group: what remains of feature extraction per token.

The table of keys is flat: slot s holds ``table[2 s]``, a key plus one (0: the slot is free), and its number. Linear
probing; the number of slots is a power of two, and at least half of them are free.
"""

import numpy as np

from rulefield.kernels.jit import kernel

MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def find_keys(keys, table, numbers):
    """Fill the number of each key, -1 where it is not in the table; return how many are not."""
    mask = np.uint64(len(table) // 2 - 1)
    missing = 0
    for i in range(np.uint64(keys.size)):
        wanted = keys[i] + np.uint64(1)
        h = wanted * MIX
        s = (h ^ (h >> np.uint64(32))) & mask
        numbers[i] = -1
        while table[s + s] != 0:
            if table[s + s] == wanted:
                numbers[i] = np.int32(table[s + s + np.uint64(1)])
                break
            s = (s + np.uint64(1)) & mask
        if numbers[i] < 0:
            missing += 1
    return missing


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
