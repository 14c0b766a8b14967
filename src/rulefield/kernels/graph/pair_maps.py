"""Where the pair scores of a problem lie in a network whose nodes stand in another order."""

from rulefield.kernels.jit import kernel


@kernel
def fill_pair_maps(first, second, sizes, flipped, base, start, pair_to, loop_to):
    """Fill the place of each pair score, row by row of each edge's table, in one pass (numpy makes ten of all entries).

    ``base`` (edges,) is where an edge's table begins in the network, -1 for a loop; a ``flipped`` one stands there
    transposed.
    The diagonal of a loop goes to the scores of its node, at ``start``. -1 where an entry has no place.
    """
    entry = 0
    for e in range(len(first)):
        rows, columns = sizes[first[e]], sizes[second[e]]
        for a in range(rows):
            for b in range(columns):
                pair_to[entry] = loop_to[entry] = -1
                if base[e] < 0:
                    if a == b:
                        loop_to[entry] = start[first[e]] + a
                elif flipped[e]:
                    pair_to[entry] = base[e] + b * rows + a
                else:
                    pair_to[entry] = base[e] + a * columns + b
                entry += 1
