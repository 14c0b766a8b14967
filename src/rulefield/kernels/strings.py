"""Numbers for strings: a hash table that lives in one flat array.

Slot s of the table is the two words ``table[2 s]`` and ``table[2 s + 1]``. The first holds the upper half of the
name's 64-bit hash and its number plus one (0: the slot is free), the second where the name begins in
``blob`` (36 bits) and its length (28 bits): what a lookup needs lies side by side, for two cache misses in all.
Linear probing; the number of slots is a power of two, and some are always free.

Strings are read eight bytes at a time: a multiplication per byte, as in FNV, took as long as the look-ups.
"""

import numpy as np

from rulefield.kernels.jit import kernel, piece
from rulefield.kernels.lanes import prefetch, word_at

LENGTH_BITS = 28
FAR, NEAR = np.uint64(16), np.uint64(8)  # strings ahead whose slots, and whose names, are fetched
ZERO, ONE, EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
SEED, FACTOR = np.uint64(14695981039346656037), np.uint64(0x9E3779B97F4A7C15)
EACH_BYTE, HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
WHICH_BYTE = np.uint64(0x0001020304050607)  # (1 << 8 k) times this has k in its highest byte
HIGH = np.uint64(0xFFFFFFFF00000000)


@piece
def read_word(text, p, filler):
    """Bytes ``text[p : p + 8]`` as one number; beyond the end stands the filler (a byte in each of eight)."""
    if p + EIGHT <= np.uint64(len(text)):
        return word_at(text, p)
    word, shift = ZERO, ZERO
    for q in range(p, p + EIGHT):
        byte = np.uint64(text[q]) if q < np.uint64(len(text)) else filler & np.uint64(255)
        word |= byte << shift
        shift += EIGHT
    return word


@piece
def mixed(h, word):
    """Take the next word into a hash."""
    h = (h ^ word) * FACTOR
    return h ^ (h >> np.uint64(32))


@kernel
def hash_strings(text, separator, hashes, ends):
    """Fill the hash and the end of each part of ``text`` (bytes) between separators; return their number.

    Where there are more parts than ``hashes`` has room for, the rest is only counted. The first byte of a word that is a
    separator is found without a loop over bytes (the lowest high bit of ``x - 1 & ~x``, x the difference).
    """
    everywhere = np.uint64(separator) * EACH_BYTE
    room, size = np.uint64(len(hashes)), np.uint64(len(text))
    count, p, begin, h = ZERO, ZERO, ZERO, SEED
    while p <= size:
        word = read_word(text, p, everywhere)
        x = word ^ everywhere
        found = (x - EACH_BYTE) & ~x & HIGH_BITS
        if found == ZERO:
            h = mixed(h, word)
            p += EIGHT
            continue
        bit = (found & (~found + ONE)) >> np.uint64(7)  # 1 << 8 k, for k bytes before the separator
        k = (bit * WHICH_BYTE) >> np.uint64(56)
        if k > ZERO:
            h = mixed(h, word & (bit - ONE))
        if count < room:
            hashes[count], ends[count] = mixed(h, p + k - begin), p + k
        count += ONE
        p += k + ONE
        begin, h = p, SEED
    return count


@piece
def hash_bytes(blob, begin, end):
    """Hash of ``blob[begin : end]``, as :func:`hash_strings` gives it."""
    h, p = SEED, begin
    while p + EIGHT <= end:
        h = mixed(h, read_word(blob, p, ZERO))
        p += EIGHT
    if p < end:
        h = mixed(h, read_word(blob, p, ZERO) & ((ONE << (EIGHT * (end - p))) - ONE))
    return mixed(h, end - begin)


@piece
def same_bytes(a, at, b, begin, length):
    """Whether ``a[at : at + length]`` and ``b[begin : begin + length]`` are the same."""
    different, q = ZERO, ZERO
    while q + EIGHT <= length:
        different |= read_word(a, at + q, ZERO) ^ read_word(b, begin + q, ZERO)
        q += EIGHT
    if q < length:
        last = read_word(a, at + q, ZERO) ^ read_word(b, begin + q, ZERO)
        different |= last & ((ONE << (EIGHT * (length - q))) - ONE)
    return different == ZERO


@kernel
def hash_spans(text, begins, ends, hashes):
    """Fill the hash of each string ``text[begins[i] : ends[i]]``."""
    for i in range(np.uint64(len(ends))):
        hashes[i] = hash_bytes(text, begins[i], ends[i])


@kernel
def number_strings(text, hashes, begins, ends, grow, table, blob, stop, used, ids):
    """Fill ``ids`` with the numbers of hashed strings; -1 where a string is unknown and ``grow`` is false.

    String i is ``text[begins[i] : ends[i]]``. Bytes are compared, so that equal hashes do no harm. Name j is
    ``blob[stop[j] : stop[j + 1]]``. With ``grow``, new names are appended; there must be room. ``used[0]`` is the number of
    names, and is updated.
    """
    mask, sizes = np.uint64(len(table) // 2 - 1), np.uint64((1 << LENGTH_BITS) - 1)
    n_names, n = np.uint64(used[0]), np.uint64(len(ids))
    for i in range(n):
        if i + FAR < n:
            s = hashes[i + FAR] & mask
            prefetch(table, s + s)
        if i + NEAR < n:
            s = hashes[i + NEAR] & mask
            prefetch(blob, table[s + s + ONE] >> np.uint64(LENGTH_BITS))
        begin, h = begins[i], hashes[i]
        length = ends[i] - begin
        s = h & mask
        number = ZERO
        while table[s + s] != 0:
            place = table[s + s + ONE]
            alike = (table[s + s] ^ h) >> np.uint64(32) == 0 and place & sizes == length
            if alike and same_bytes(blob, place >> np.uint64(LENGTH_BITS), text, begin, length):
                number = table[s + s] & ~HIGH
                break
            s = (s + ONE) & mask
        if number == 0 and grow:
            at = stop[n_names]
            for q in range(length):
                blob[at + q] = text[begin + q]
            stop[n_names + ONE] = at + length
            n_names += ONE
            number = n_names
            table[s + s] = (h & HIGH) | number
            table[s + s + ONE] = (at << np.uint64(LENGTH_BITS)) | length
        ids[i] = np.int32(np.int64(number) - 1)
    used[0] = n_names


@kernel
def keep_known(ids, counts):
    """Move ids that are not negative to the front, in order, and return how many; ``counts`` of each group are reduced."""
    i, kept = ZERO, ZERO
    for g in range(np.uint64(len(counts))):
        before = kept
        for _ in range(counts[g]):
            ids[kept] = ids[i]
            kept += np.uint64(ids[i] >= 0)
            i += ONE
        counts[g] = kept - before
    return kept


@kernel
def fill_table(blob, stop, n_names, table):
    """Put all names, which are distinct, into an empty table."""
    mask = np.uint64(len(table) // 2 - 1)
    for j in range(np.uint64(n_names)):
        h = hash_bytes(blob, stop[j], stop[j + ONE])
        s = h & mask
        while table[s + s] != 0:
            s = (s + ONE) & mask
        table[s + s] = (h & HIGH) | (j + ONE)
        table[s + s + ONE] = (stop[j] << np.uint64(LENGTH_BITS)) | (stop[j + ONE] - stop[j])
