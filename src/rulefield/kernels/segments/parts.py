"""Parts of segmentations: their scores, and how often a given segmentation has them.

Sequences lie one after the other; sequence i has tokens ``offsets[i] : offsets[i + 1]``. ``-inf`` forbids.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel


class SegmentParts(NamedTuple):
    """Scores of the parts of segmentations or, in the same shapes, how often parts are expected.

    token, first, last (n_tokens, m); length (max_length, m); pairwise (m, m); span (n_spans, m), where the spans that
    end at token e are ``span_ptr[e] : span_ptr[e + 1]`` and have ``span_length`` tokens.
    """

    token: np.ndarray
    first: np.ndarray
    last: np.ndarray
    length: np.ndarray
    pairwise: np.ndarray
    span: np.ndarray
    span_ptr: np.ndarray
    span_length: np.ndarray


COUNTED = ("token", "first", "last", "length", "pairwise", "span")


@kernel
def ending_parts(parts, begin, e, run, inside):
    """Fill inside[d, y] with the score of the segment of d + 1 tokens with label y that ends at token e.

    ``begin`` is the sequence's first token, ``run`` (m,) scratch. Returns the number of rows filled.
    """
    m = np.uint64(run.shape[0])
    rows = min(parts.length.shape[0], e - begin + 1)
    for y in range(m):
        run[y] = parts.last[e, y]
    for d in range(rows):
        s = e - d
        for y in range(m):
            run[y] += parts.token[s, y]
            inside[d, y] = run[y] + parts.first[s, y] + parts.length[d, y]
    for k in range(parts.span_ptr[e], parts.span_ptr[e + 1]):
        d = parts.span_length[k] - 1
        if d < rows:
            for y in range(m):
                inside[d, y] += parts.span[k, y]
    return rows


@kernel
def gold_parts_batch(parts, offsets, opens, labels, weight, counts, scores):
    """Fill scores (n_sequences,) of given segmentations and subtract ``weight`` x their parts from ``counts``."""
    for i in range(scores.shape[0]):
        begin, stop = offsets[i], offsets[i + 1]
        scores[i] = 0.0
        length = 0
        for t in range(begin, stop):
            y = labels[t]
            length = 1 if opens[t] else length + 1
            scores[i] += parts.token[t, y]
            counts.token[t, y] -= weight[i]
            if opens[t]:
                scores[i] += parts.first[t, y]
                counts.first[t, y] -= weight[i]
                if t > begin:
                    scores[i] += parts.pairwise[labels[t - 1], y]
                    counts.pairwise[labels[t - 1], y] -= weight[i]
            if t == stop - 1 or opens[t + 1]:
                scores[i] += parts.last[t, y]
                counts.last[t, y] -= weight[i]
                if length > parts.length.shape[0]:
                    scores[i] = -np.inf
                    continue
                scores[i] += parts.length[length - 1, y]
                counts.length[length - 1, y] -= weight[i]
                for k in range(parts.span_ptr[t], parts.span_ptr[t + 1]):
                    if parts.span_length[k] == length:
                        scores[i] += parts.span[k, y]
                        counts.span[k, y] -= weight[i]
