"""Making and adding tallies: sums over the nodes and edges of a labeling."""

from collections.abc import Iterable

import numpy as np

from rulefield.problem.chain_rules import Tally
from rulefield.rules.chain.classes import ClassSpace
from rulefield.rules.labels import LabelTable


def node_tally(values: np.ndarray, space: ClassSpace, where: np.ndarray | None = None) -> Tally:
    """Tally of ``values`` (m,) at every token, or only at tokens of the classes in ``where`` (n_classes,)."""
    on = np.ones(space.n_classes, dtype=np.int32) if where is None else where.astype(np.int32)
    return Tally(np.ascontiguousarray(on[:, None] * values.astype(np.int32)[None, :]))


def edge_tally(values: np.ndarray, space: ClassSpace, where: np.ndarray | None = None) -> Tally:
    """Tally of ``values`` (m, m) at every step that arrives at a token of the classes in ``where``."""
    on = np.ones(space.n_classes, dtype=np.int32) if where is None else where.astype(np.int32)
    edge = np.ascontiguousarray(on[:, None, None] * values.astype(np.int32)[None])
    return Tally(np.zeros((space.n_classes, values.shape[1]), dtype=np.int32), edge)


def start_tally(counts: np.ndarray, table: LabelTable, space: ClassSpace) -> Tally:
    """Tally of the segments that begin, from ``counts`` (m + 1, m) as ``patterns.start_counts`` gives them.

    Where the scheme leaves no choice (under BIO every possible ``B-`` begins a segment and no possible ``I-`` does)
    the tally needs no edges, which is what engines like best. Steps that the scheme forbids do not matter.
    """
    m = len(table)
    allowed, begin, _ = table.allowed
    possible = np.vstack([allowed, begin[None, :]])
    low = np.where(possible, counts, np.iinfo(np.int32).max).min(axis=0)
    high = np.where(possible, counts, np.iinfo(np.int32).min).max(axis=0)
    never = ~possible.any(axis=0)
    if ((low == high) | never).all():
        return node_tally(np.where(never, counts[m], low), space)
    return arriving_tally(counts, space)


def arriving_tally(counts: np.ndarray, space: ClassSpace) -> Tally:
    """Tally of ``counts`` (m + 1, m) of every step from label i to label j; row m: at the beginning."""
    inner = edge_tally(counts[:-1], space)
    return Tally(inner.node, inner.edge, node_tally(counts[-1], space).node)


def combine(terms: Iterable[tuple[int, Tally]], shape: tuple[int, int]) -> Tally:
    """Sum of whole multiples of tallies with tables of shape (n_classes, m)."""
    terms = list(terms)
    zero = np.zeros(shape, dtype=np.int32)
    node = sum((f * t.node for f, t in terms), zero)
    edges = [f * t.edge for f, t in terms if t.edge is not None]
    first = None
    if any(t.first is not None for _, t in terms):
        first = sum((f * (t.node if t.first is None else t.first) for f, t in terms), zero)
    return Tally(node, sum(edges[1:], edges[0]) if edges else None, first)


def bounds_at(tally: Tally, token_class: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest contribution of each token, each (n,)."""
    first, others = tally.bounds
    low, high = others[0][token_class], others[1][token_class]
    if len(token_class):
        low[0], high[0] = first[0][token_class[0]], first[1][token_class[0]]
    return low, high


def values_of(tally: Tally, token_class: np.ndarray, labels: np.ndarray) -> list[int]:
    """Return what each token of one labeling, with the step to it, adds."""
    if not len(labels):
        return []
    per_token = tally.node[token_class, labels].astype(np.int64)
    if tally.first is not None:
        per_token[0] = tally.first[token_class[0], labels[0]]
    if tally.edge is not None:
        per_token[1:] += tally.edge[token_class[1:], labels[:-1], labels[1:]]
    return per_token.tolist()
