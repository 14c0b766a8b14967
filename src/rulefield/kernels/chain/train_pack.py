"""Lay out weights and features for training: what many tokens touch together, what one shard touches alone apart."""

import numpy as np

from rulefield.kernels.chain.train_rows import ONE, ZERO
from rulefield.kernels.jit import kernel

UNSEEN = np.int32(-1)
SHARED = np.int32(-2)
NOWHERE = np.uint32(0xFFFFFFFF)
LEAST_USES = (2, 1)


@kernel
def place_features(indptr, indices, ptr, shard_tokens, row_from, often, width, home, address):
    """Give every feature with weights an address in the work space; return (is_row, n_shared, own_from).

    Features that occur ``often`` and have at least ``row_from`` labels take a padded row, others one place per label. Rows
    come first, then features that several shards touch, then each shard's own. Within each, those that occur once come last,
    so that others share their cache lines with their like; all by first use, so that a pass over the data walks through
    memory.
    ``home`` (features,) is scratch full of UNSEEN, ``address`` is filled and full of NOWHERE.
    ``own_from[s]`` is the first place of shard s's own, its last entry the size of the work space.
    """
    n_features = ptr.size - 1
    uses = np.zeros(n_features, np.uint32)
    for s in range(shard_tokens.size - 1):
        for k in range(indptr[shard_tokens[s]], indptr[shard_tokens[s + 1]]):
            f = np.uint64(indices[k])
            uses[f] += np.uint32(1)
            if home[f] == UNSEEN:
                home[f] = s
            elif home[f] != s:
                home[f] = SHARED
    is_row = np.zeros(n_features, np.uint8)
    size = np.zeros(3, np.uint64)
    for f in range(n_features):
        n = ptr[f + 1] - ptr[f]
        if home[f] == UNSEEN or n == ZERO:
            continue
        if n >= row_from and uses[f] >= often:
            is_row[f] = 1
            size[0] += np.uint64(width)
        elif home[f] == SHARED:
            size[1] += n
        else:
            size[2] += n
    free, own_from = np.zeros(3, np.uint64), np.zeros(shard_tokens.size, np.uint64)
    free[1], free[2] = size[0], size[0] + size[1]
    own_from[shard_tokens.size - 1] = size[0] + size[1] + size[2]
    for s in range(shard_tokens.size - 1):
        own_from[s] = free[2]
        for least in LEAST_USES:
            for k in range(indptr[shard_tokens[s]], indptr[shard_tokens[s + 1]]):
                f = np.uint64(indices[k])
                n = ptr[f + ONE] - ptr[f]
                if address[f] != NOWHERE or n == ZERO or uses[f] < least:
                    continue
                part = 0 if is_row[f] else (1 if home[f] == SHARED else 2)
                address[f] = free[part]
                free[part] += np.uint64(width) if is_row[f] else n
    return is_row, size[0] + size[1], own_from


@kernel
def count_entries(indptr, indices, ptr, is_row):
    """Pointers of the packed lists: rows and pairs of each token."""
    n_tokens = indptr.size - 1
    row_ptr, pair_ptr = np.zeros(n_tokens + 1, np.uint64), np.zeros(n_tokens + 1, np.uint64)
    for t in range(n_tokens):
        rows = pairs = ZERO
        for k in range(indptr[t], indptr[t + 1]):
            f = np.uint64(indices[k])
            if is_row[f]:
                rows += ONE
            else:
                pairs += ptr[f + ONE] - ptr[f]
        row_ptr[t + 1] = row_ptr[t] + rows
        pair_ptr[t + 1] = pair_ptr[t] + pairs
    return row_ptr, pair_ptr


@kernel
def fill_entries(
    indptr, indices, values, ptr, label, address, is_row, row_ptr, rows, row_values, pair_ptr, pairs, pair_label,
    pair_values,
):  # fmt: skip
    """Fill the packed lists. Value arrays of length 1 are left alone."""
    valued = pair_values.size > 1 or row_values.size > 1
    for t in range(indptr.size - 1):
        r, p = row_ptr[t], pair_ptr[t]
        for k in range(indptr[t], indptr[t + 1]):
            f = np.uint64(indices[k])
            if is_row[f]:
                rows[r] = address[f]
                if valued:
                    row_values[r] = values[k]
                r += ONE
                continue
            for q in range(ptr[f + ONE] - ptr[f]):
                pairs[p] = address[f] + np.uint32(q)
                pair_label[p] = label[ptr[f] + q]
                if valued:
                    pair_values[p] = values[k]
                p += ONE


@kernel
def pair_positions(ptr, label, address, is_row, position):
    """Set position[p] to the place of weight p in the work space, for features that occur; others keep theirs."""
    for f in range(ptr.size - 1):
        if address[f] == NOWHERE:
            continue
        for p in range(ptr[f], ptr[f + 1]):
            offset = np.uint64(label[p]) if is_row[f] else p - ptr[f]
            position[p] = np.uint64(address[f]) + offset
