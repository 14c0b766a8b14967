"""Decision trees as flat arrays: which leaf of each tree a row falls into."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def sum_of_leaves(X, root, feature, threshold, left, right, missing_left, leaf, values, out):
    """Add to each row of ``out`` the values of the leaves that it falls into, tree after tree.

    Parameters
    ----------
    X : float64, shape (n, d)
    root : int64, shape (n_trees,)
        Node where each tree begins.
    feature, left, right : int64, shape (n_nodes,)
        Column that a node asks about, and where it sends rows at most ``threshold``, and others; children stand behind their
        parents.
    threshold : float64, shape (n_nodes,)
    missing_left : bool, shape (n_nodes,)
        Where NaN goes.
    leaf : int64, shape (n_nodes,)
        Row of ``values`` of a leaf; -1 for other nodes.
    values : float64, shape (n_leaves, width)
    out : float64, shape (n, width)
    """
    for i in range(len(X)):
        for at in root:
            while leaf[at] < 0:
                x = X[i, feature[at]]
                down = missing_left[at] if np.isnan(x) else x <= threshold[at]
                at = left[at] if down else right[at]
            for k in range(values.shape[1]):
                out[i, k] += values[leaf[at], k]
