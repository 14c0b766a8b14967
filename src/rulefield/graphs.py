"""Graphs for :class:`rulefield.GraphCRF` and Gaussian fields: their type, builders, similarities and engines."""

from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_builders import chain, from_arrays, grid, grid_edges
from rulefield.encode.similarity import (
    chi2,
    correlation,
    label_distance,
    mutual_info,
    overfit_correlation,
)
from rulefield.encode.similarity import grid as grid_similarity
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.marginals import graph_marginals
from rulefield.problem.graph import GraphPotentials, GraphProblem

__all__ = [
    "GraphPotentials",
    "GraphProblem",
    "TypedGraph",
    "chain",
    "chi2",
    "correlation",
    "decode_graph",
    "from_arrays",
    "graph_marginals",
    "grid",
    "grid_edges",
    "grid_similarity",
    "label_distance",
    "minimal_conflict_graph",
    "mutual_info",
    "overfit_correlation",
    "relax_graph",
]
