"""Tokens of many texts in one pass over their UTF-8 bytes.

Every sign has a set of kinds (bits, by code point), which say what it may do in a token. The rules are those of
:mod:`rulefield.encode.tokenizers`, whose regular expressions define them.
"""

import numpy as np

from rulefield.kernels.jit import kernel, piece

WORD, DIGIT, SPACE, LETTER, MARK, CAPITAL, SMALL, JOINS, JOINS_DIGITS, STOP, COMMA, DASH, KNOWN = (
    1 << k for k in range(13)
)
WORDS, FINE, WHITESPACE = range(3)
LONGEST_SHORT = 4
"""Letters of the longest abbreviation that keeps its full stop."""


@piece
def sign_at(text, p):
    """Return the code point of the sign that begins at byte p, and the number of its bytes."""
    lead = np.uint32(text[p])
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        return ((lead & np.uint32(0x1F)) << np.uint32(6)) | (np.uint32(text[p + 1]) & np.uint32(0x3F)), 2
    if lead < 0xF0:
        high = ((lead & np.uint32(0x0F)) << np.uint32(12)) | (
            (np.uint32(text[p + 1]) & np.uint32(0x3F)) << np.uint32(6)
        )
        return high | (np.uint32(text[p + 2]) & np.uint32(0x3F)), 3
    high = ((lead & np.uint32(0x07)) << np.uint32(18)) | ((np.uint32(text[p + 1]) & np.uint32(0x3F)) << np.uint32(12))
    low = ((np.uint32(text[p + 2]) & np.uint32(0x3F)) << np.uint32(6)) | (np.uint32(text[p + 3]) & np.uint32(0x3F))
    return high | low, 4


@kernel
def read_signs(text, begin, end, kinds, kind, place, folded):
    """Fill the kinds of each sign of ``text[begin : end]``, its first byte, and what it is without case; return how many.

    ``place`` gets ``end`` behind the last sign. Kind 0 stands behind it too, so that looking ahead needs no test.
    """
    p, n = begin, 0
    while p < end:
        point, width = sign_at(text, p)
        kind[n], place[n] = kinds[point], p
        folded[n] = fold(point)
        p += width
        n += 1
    place[n] = end
    for k in range(n, n + 2):
        kind[k] = 0
    return n


@piece
def fold(point):
    """Return a letter of ASCII for what a pattern without case takes for it, else 0; other signs do not matter here."""
    if point < 128:
        return np.uint64(point + 32) if 65 <= point <= 90 else np.uint64(point)
    if point == 0x17F:
        return np.uint64(115)
    return np.uint64(107) if point == 0x212A else np.uint64(0)


@piece
def is_short(kind, folded, first, stop, short):
    """Whether signs ``first`` to ``stop`` are an abbreviation: a letter, a capital and small letters, or a listed word."""
    if stop == first + 1:
        return kind[first] & LETTER != 0
    code, small = np.uint64(0), kind[first] & CAPITAL != 0
    for c in range(first, stop):
        code = (code << np.uint64(8)) | folded[c]
        small = small and (c == first or kind[c] & SMALL != 0)
        if folded[c] == 0:
            return False
    listed = small
    for k in range(short.size):
        listed |= short[k] == code
    return listed


@piece
def abbreviation_end(kind, folded, c, last, short):
    """Return where the abbreviation that begins at sign c ends; c if there is none. Sign ``last`` is the last but blanks."""
    q = c
    while kind[q] & LETTER != 0 and kind[q + 1] & STOP != 0:
        q += 2
    if q >= c + 4:
        return q
    q = c
    while q - c <= LONGEST_SHORT and kind[q] & LETTER != 0:
        q += 1
    if q == c or q - c > LONGEST_SHORT or kind[q] & STOP == 0 or q >= last:
        return c
    return q + 1 if is_short(kind, folded, c, q, short) else c


@piece
def joins_thousands(kind, q):
    """Whether sign q is a comma with exactly three digits, and no dash, behind it."""
    return (
        kind[q] & COMMA != 0
        and kind[q + 1] & DIGIT != 0
        and kind[q + 2] & DIGIT != 0
        and kind[q + 3] & DIGIT != 0
        and kind[q + 4] & (DIGIT | DASH) == 0
    )


@piece
def word_end(kind, c):
    """Return where the word that begins at sign c ends."""
    q = c + 1
    while kind[q] & (WORD | MARK) != 0:
        q += 1
    while True:
        joins = kind[q] & JOINS != 0 and kind[q + 1] & WORD != 0
        if not joins and kind[q - 1] & DIGIT != 0:
            joins = (kind[q] & JOINS_DIGITS != 0 and kind[q + 1] & DIGIT != 0) or joins_thousands(kind, q)
        if not joins:
            return q
        q += 1
        while kind[q] & WORD != 0:
            q += 1


@piece
def is_cut(before, kind):
    """Whether fine tokens end between two signs."""
    return (
        (before & LETTER != 0 and kind & DIGIT != 0)
        or (before & DIGIT != 0 and kind & LETTER != 0)
        or (before & SMALL != 0 and kind & CAPITAL != 0)
    )


@kernel
def cut_texts(text, ends, kinds, mode, short, begin, end, start, stop, counts):
    """Cut texts that lie one behind the other (text i ends at byte ``ends[i]``); return the number of tokens.

    Token k is the bytes ``begin[k] : end[k]`` of all texts, and the signs ``start[k] : stop[k]`` of its own. ``counts`` gets
    the number of tokens of each text. There must be room for as many tokens as there are bytes.
    """
    longest, first_byte = 0, 0
    for i in range(ends.size):
        longest = max(longest, ends[i] - first_byte)
        first_byte = ends[i]
    kind, place = np.empty(longest + 2, np.uint16), np.empty(longest + 1, np.int64)
    folded = np.empty(longest + 1, np.uint64)
    n_tokens, first_byte = 0, 0
    for i in range(ends.size):
        n = read_signs(text, first_byte, ends[i], kinds, kind, place, folded)
        first_byte, before = ends[i], n_tokens
        last = n - 1
        while last >= 0 and kind[last] & SPACE != 0:
            last -= 1
        c = 0
        while c <= last:
            if kind[c] & SPACE != 0:
                c += 1
                continue
            q = c + 1
            if mode == WHITESPACE:
                while q <= last and kind[q] & SPACE == 0:
                    q += 1
            elif kind[c] & WORD != 0:
                q = abbreviation_end(kind, folded, c, last, short)
                if q == c:
                    q = word_end(kind, c)
            for k in range(c + 1, q + 1):
                if k == q or (mode == FINE and is_cut(kind[k - 1], kind[k])):
                    begin[n_tokens], end[n_tokens] = place[c], place[k]
                    start[n_tokens], stop[n_tokens] = c, k
                    n_tokens += 1
                    c = k
        counts[i] = n_tokens - before
    return n_tokens
