"""Numbers for strings: a hash table that lives in flat arrays."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def number_strings(text, first, last, grow, hashes, numbers, blob, stop, used, ids):
    """Fill ``ids`` with the numbers of strings; -1 where a string is unknown and ``grow`` is false.

    String i is ``text[first[i] : last[i]]``. The table: slot s holds the name ``numbers[s]`` (-1: free), whose
    64-bit FNV-1a hash is ``hashes[s]``; name j is ``blob[stop[j] : stop[j + 1]]``. Linear probing; the table has a
    power of two of slots and is never full. Names are compared byte by byte, so that equal hashes do no harm. With
    ``grow``, new names are appended; there must be room. ``used`` holds the number of names and is updated.
    """
    mask = np.uint64(len(hashes) - 1)
    one = np.uint64(1)
    n_names = np.uint64(used[0])
    for i in range(np.uint64(len(first))):
        begin, end = first[i], last[i]
        h = np.uint64(14695981039346656037)
        for p in range(begin, end):
            h = (h ^ np.uint64(text[p])) * np.uint64(1099511628211)
        s = (h ^ (h >> np.uint64(29))) & mask
        found = np.int32(-1)
        while numbers[s] >= 0:
            if hashes[s] == h:
                at = stop[np.uint64(numbers[s])]
                size = stop[np.uint64(numbers[s]) + one] - at
                same = size == end - begin
                if same:
                    for q in range(size):
                        if blob[at + q] != text[begin + q]:
                            same = False
                            break
                if same:
                    found = numbers[s]
                    break
            s = (s + one) & mask
        if found < 0 and grow:
            at = stop[n_names]
            for q in range(end - begin):
                blob[at + q] = text[begin + q]
            stop[n_names + one] = at + (end - begin)
            found = np.int32(n_names)
            hashes[s] = h
            numbers[s] = found
            n_names += one
        ids[i] = found
    used[0] = n_names


@kernel
def refill(hashes, numbers, new_hashes, new_numbers):
    """Move all names of a table into a larger, empty one."""
    mask = np.uint64(len(new_hashes) - 1)
    for i in range(np.uint64(len(hashes))):
        if numbers[i] >= 0:
            h = hashes[i]
            s = (h ^ (h >> np.uint64(29))) & mask
            while new_numbers[s] >= 0:
                s = (s + np.uint64(1)) & mask
            new_hashes[s] = h
            new_numbers[s] = numbers[i]
