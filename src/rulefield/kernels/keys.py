"""Integer keys to numbers, and lists of numbers by group: what remains of feature extraction per token.

The table of keys is flat: slot s holds ``table[2 s]``, a key plus one (0: the slot is free), and its number. Linear
probing; the number of slots is a power of two, and at least half of them are free.
"""

import numpy as np

from rulefield.kernels.jit import kernel

BIAS, TOKEN, WORD, KIND, WORD_PAIR, SHAPES, PHRASES, POSITION = range(8)
"""What a slot of a key looks at."""
SLOT = 57
"""Bits of a key below the number of its slot."""
FIELD, PAIR = SLOT // 3, SLOT // 2
"""Bits of each of three, and of two, numbers that one key holds."""
BEFORE, BEHIND = 0, 1
"""Numbers of what stands outside of a sequence, among words and shapes that are looked at together."""
MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def fill_token_keys(types, offsets, slot_what, slot_offset, low, short, kind, begins, ends, keys):
    """Fill the keys of all tokens, uint64 (n_tokens, n_slots).

    Tokens ``offsets[i] : offsets[i + 1]`` are a sequence. ``types`` are numbers of distinct tokens; ``low``, ``short`` and
    ``kind`` hold the numbers of their words, short shapes and kinds, ``begins`` and ``ends`` the phrases that they begin and
    end, a bit for each. A slot looks at a token some places away.
    """
    for i in range(offsets.size - 1):
        first, last = offsets[i], offsets[i + 1]
        for t in range(first, last):
            for k in range(slot_what.size):
                what, at = slot_what[k], t + slot_offset[k]
                value = np.int64(0)
                if what == TOKEN:
                    value = types[t]
                elif what == WORD:
                    value = low[types[at]] + 1 if first <= at < last else 0
                elif what == KIND:
                    value = kind[types[at]] + 1 if first <= at < last else 0
                elif what == WORD_PAIR:
                    a = low[types[at]] if at >= first else BEFORE
                    b = low[types[at + 1]] if at + 1 < last else BEHIND
                    value = (a << PAIR) | b
                elif what == SHAPES:
                    a = short[types[t - 1]] if t > first else BEFORE
                    c = short[types[t + 1]] if t + 1 < last else BEHIND
                    value = (a << (2 * FIELD)) | (short[types[t]] << FIELD) | c
                elif what == PHRASES:
                    a = begins[types[t - 1]] & ends[types[t]] if t > first else 0
                    b = begins[types[t]] & ends[types[t + 1]] if t + 1 < last else 0
                    value = (a << PAIR) | b
                elif what == POSITION:
                    third = 3 * (t - first) // (last - first)
                    value = 9 * third + 3 * min(t - first, 2) + min(last - 1 - t, 2)
                keys[t, k] = (np.uint64(k) << np.uint64(SLOT)) | np.uint64(value)


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
