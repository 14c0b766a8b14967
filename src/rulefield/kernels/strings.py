"""Numbers for strings: a hash table that lives in one flat array.

Slot s of the table is the two words ``table[2 s]`` and ``table[2 s + 1]``. The first holds the upper half of the
name's 64-bit FNV-1a hash and its number plus one (0: the slot is free), the second where the name begins in
``blob`` (36 bits) and its length (28 bits): what a lookup needs lies side by side, for two cache misses in all.
Linear probing; the number of slots is a power of two, and some are always free.
"""

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lanes import prefetch

LENGTH_BITS = 28
FAR, NEAR = np.uint64(16), np.uint64(8)  # strings ahead whose slots, and whose names, are fetched


@kernel
def hash_strings(text, separator, hashes, ends):
    """Fill the hash and the end of each part of ``text`` (bytes) between separators; return their number.

    Where there are more parts than ``hashes`` has room for, the rest is only counted.
    """
    one = np.uint64(1)
    count, h = np.uint64(0), np.uint64(14695981039346656037)
    room = np.uint64(len(hashes))
    for p in range(np.uint64(len(text))):
        if text[p] != separator:
            h = (h ^ np.uint64(text[p])) * np.uint64(1099511628211)
        else:
            if count < room:
                hashes[count], ends[count] = h, p
            count += one
            h = np.uint64(14695981039346656037)
    if count < room:
        hashes[count], ends[count] = h, np.uint64(len(text))
    return count + one


@kernel
def number_strings(text, hashes, ends, grow, table, blob, stop, used, ids):
    """Fill ``ids`` with the numbers of hashed strings; -1 where a string is unknown and ``grow`` is false.

    Bytes are compared, so that equal hashes do no harm. Name j is ``blob[stop[j] : stop[j + 1]]``. With ``grow``, new
    names are appended; there must be room. ``used[0]`` is the number of names, and is updated.
    """
    one, high = np.uint64(1), np.uint64(0xFFFFFFFF00000000)
    mask, sizes = np.uint64(len(table) // 2 - 1), np.uint64((1 << LENGTH_BITS) - 1)
    n_names, begin, n = np.uint64(used[0]), np.uint64(0), np.uint64(len(ids))
    for i in range(n):
        if i + FAR < n:
            h = hashes[i + FAR]
            s = (h ^ (h >> np.uint64(29))) & mask
            prefetch(table, s + s)
        if i + NEAR < n:
            h = hashes[i + NEAR]
            s = (h ^ (h >> np.uint64(29))) & mask
            prefetch(blob, table[s + s + one] >> np.uint64(LENGTH_BITS))
        length, h = ends[i] - begin, hashes[i]
        s = (h ^ (h >> np.uint64(29))) & mask
        number = np.uint64(0)
        while table[s + s] != 0:
            place = table[s + s + one]
            if (table[s + s] ^ h) >> np.uint64(32) == 0 and place & sizes == length:
                at = place >> np.uint64(LENGTH_BITS)
                different = np.uint8(0)
                for q in range(length):
                    different |= blob[at + q] ^ text[begin + q]
                if different == 0:
                    number = table[s + s] & ~high
                    break
            s = (s + one) & mask
        if number == 0 and grow:
            at = stop[n_names]
            for q in range(length):
                blob[at + q] = text[begin + q]
            stop[n_names + one] = at + length
            n_names += one
            number = n_names
            table[s + s] = (h & high) | number
            table[s + s + one] = (at << np.uint64(LENGTH_BITS)) | length
        ids[i] = np.int32(np.int64(number) - 1)
        begin = ends[i] + one
    used[0] = n_names


@kernel
def fill_table(blob, stop, n_names, table):
    """Put all names, which are distinct, into an empty table."""
    one, high = np.uint64(1), np.uint64(0xFFFFFFFF00000000)
    mask = np.uint64(len(table) // 2 - 1)
    for j in range(np.uint64(n_names)):
        h = np.uint64(14695981039346656037)
        for p in range(stop[j], stop[j + one]):
            h = (h ^ np.uint64(blob[p])) * np.uint64(1099511628211)
        s = (h ^ (h >> np.uint64(29))) & mask
        while table[s + s] != 0:
            s = (s + one) & mask
        table[s + s] = (h & high) | (j + one)
        table[s + s + one] = (stop[j] << np.uint64(LENGTH_BITS)) | (stop[j + one] - stop[j])
