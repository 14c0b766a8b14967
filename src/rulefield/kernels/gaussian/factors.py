"""Factors of symmetric positive definite matrices: inverses of many small dense ones, sparse L D L' and its inverse.

The upper triangle of a sparse matrix (diagonal included) comes column by column: rows of column k are
``rows[pointer[k] : pointer[k + 1]]``, in any order, all <= k. Indices are int64.
"""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def invert(matrices, logdets):
    """Put inverses in the place of matrices (n_matrices, n, n), by Gauss-Jordan steps; fill their log-determinants."""
    n = matrices.shape[1]
    for m in range(len(matrices)):
        a = matrices[m]
        for k in range(n):
            scale = 1.0 / a[k, k]
            logdets[m] -= np.log(scale)
            a[k, k] = 1.0
            for j in range(n):
                a[k, j] *= scale
            for i in range(n):
                if i != k:
                    factor = a[i, k]
                    a[i, k] = 0.0
                    for j in range(n):
                        a[i, j] -= factor * a[k, j]


@kernel
def ldl_symbolic(pointer, rows, limit, parent, counts):
    """Fill the elimination tree ``parent`` (n,; -1 at roots) and the number of entries below each diagonal of L.

    Returns the number of entries; gives up beyond ``limit``. O(entries of L).

    T. A. Davis, Algorithm 849: a concise sparse Cholesky factorization package, 2005.
    """
    n = parent.shape[0]
    flag = np.empty(n, np.int64)
    counts[:] = 0
    fill = 0
    for k in range(n):
        parent[k] = -1
        flag[k] = k
        for p in range(pointer[k], pointer[k + 1]):
            i = rows[p]
            while i < k and flag[i] != k:
                if parent[i] == -1:
                    parent[i] = k
                counts[i] += 1
                fill += 1
                flag[i] = k
                i = parent[i]
        if fill > limit:
            break
    return fill


@kernel
def ldl_numeric(pointer, rows, values, parent, l_pointer, l_rows, l_values, diagonal):
    """Fill L (strictly lower, by columns) and D; return 0, or the first bad pivot, counted from 1."""
    n = parent.shape[0]
    flag = np.empty(n, np.int64)
    pattern = np.empty(n, np.int64)
    filled = np.zeros(n, np.int64)
    y = np.zeros(n)
    for k in range(n):
        y[k] = 0.0
        top = n
        flag[k] = k
        for p in range(pointer[k], pointer[k + 1]):
            i = rows[p]
            y[i] += values[p]
            length = 0
            while flag[i] != k:
                pattern[length] = i
                length += 1
                flag[i] = k
                i = parent[i]
            while length > 0:
                length -= 1
                top -= 1
                pattern[top] = pattern[length]
        d = y[k]
        y[k] = 0.0
        for s in range(top, n):
            i = pattern[s]
            x = y[i]
            y[i] = 0.0
            end = l_pointer[i] + filled[i]
            for p in range(l_pointer[i], end):
                y[l_rows[p]] -= l_values[p] * x
            ratio = x / diagonal[i]
            d -= ratio * x
            l_rows[end] = k
            l_values[end] = ratio
            filled[i] += 1
        if not d > 0.0:
            return k + 1
        diagonal[k] = d
    return 0


@kernel
def selected_inverse_kernel(l_pointer, l_rows, l_values, diagonal, z_values, z_diagonal):
    """Fill the entries of (L D L')^-1 on the pattern of L: ``z_values`` beside ``l_values``, and the diagonal.

    K. Takahashi, J. Fagan and M. Chin, 1973: Z_ij = -sum_k Z_ik L_kj, from the last column to the first.
    """
    n = diagonal.shape[0]
    weight = np.zeros(n)
    inside = np.zeros(n, np.uint8)
    total = np.zeros(n)
    for j in range(n - 1, -1, -1):
        first, last = l_pointer[j], l_pointer[j + 1]
        for p in range(first, last):
            weight[l_rows[p]] = l_values[p]
            inside[l_rows[p]] = 1
            total[l_rows[p]] = 0.0
        for p in range(first, last):
            k = l_rows[p]
            factor = l_values[p]
            own = z_diagonal[k] * factor
            for q in range(l_pointer[k], l_pointer[k + 1]):
                i = l_rows[q]
                if inside[i]:
                    total[i] += z_values[q] * factor
                    own += z_values[q] * weight[i]
            total[k] += own
        corner = 1.0 / diagonal[j]
        for p in range(first, last):
            i = l_rows[p]
            z_values[p] = -total[i]
            corner += l_values[p] * total[i]
            inside[i] = 0
        z_diagonal[j] = corner


@kernel
def solve_upper(l_pointer, l_rows, l_values, x):
    """Solve L' x = x in place, x (n, n_columns)."""
    for j in range(x.shape[0] - 1, -1, -1):
        for p in range(l_pointer[j], l_pointer[j + 1]):
            for c in range(x.shape[1]):
                x[j, c] -= l_values[p] * x[l_rows[p], c]


@kernel
def solve_lower(l_pointer, l_rows, l_values, x):
    """Solve L x = x in place, x (n, n_columns)."""
    for j in range(x.shape[0]):
        for p in range(l_pointer[j], l_pointer[j + 1]):
            for c in range(x.shape[1]):
                x[l_rows[p], c] -= l_values[p] * x[j, c]
