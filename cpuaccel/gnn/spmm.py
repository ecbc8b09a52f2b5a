"""Message passing as one op: features of a node's neighbors, scaled by its edges and reduced."""

from __future__ import annotations

import torch
from torch import Tensor

from cpuaccel.gnn import _check, _edges, _torch_fallback

_SPARSE = (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo)


def gather_scale_reduce(
    x: Tensor,
    edge_index: Tensor,
    weight: Tensor | None = None,
    num_nodes: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """For each node, reduce the features of the source nodes of its edges, times edge weights.

    result[m] = reduce over e with edge_index[1, e] == m of weight[e] * x[edge_index[0, e]]

    The result is 0 for nodes in which no edge ends. No tensor of edges times features is made.
    Gradients are those of torch's index_add and, for amax and amin, of scatter_reduce over zeros
    with include_self=False: equal messages share a gradient, and a result of 0 counts as one more
    of them. Gradients can be differentiated again. Results are bitwise equal for any number of
    threads. torch's own ops run if cpuaccel is off, on another device, for dtypes other than
    float32 and float64, and under torch.func or forward-mode derivatives.

    Args:
        x: features of the source nodes, shape [N, K], floats.
        edge_index: int32 or int64, shape [2, E], row 0 sources below N, row 1 destinations below
            `num_nodes`.
        weight: a factor for each edge, shape [E], dtype of `x`; None: ones.
        num_nodes: number of destination nodes; None: N.
        reduce: "sum", "mean" (sum over the number of edges), "amax" or "amin".

    Returns:
        Tensor of the dtype of `x`, shape [num_nodes, K].

    Raises:
        TypeError: an argument is not a tensor, or has a wrong dtype.
        ValueError: a wrong shape, number of nodes or reduction.
        IndexError: an index is out of range.
    """
    name = "cpuaccel.gnn.gather_scale_reduce"
    _check.floats(name, "x", x, (2,), "[N, K]")
    _check.edge_index(name, edge_index)
    _check.reduction(name, reduce)
    if weight is not None:
        _check.floats(name, "weight", weight, (1,), "[E]")
        _check.per_edge(name, "weight", weight, edge_index, x)
    nodes = x.shape[0] if num_nodes is None else _check.count(name, "num_nodes", num_nodes)
    if not _edges.supports(x, weight):
        return _torch_fallback.gather_scale_reduce(x, edge_index, weight, nodes, reduce)
    edges = _edges.sorted_edges(edge_index, x.shape[0], nodes)
    if weight is not None:
        weight = _edges.sorted_weight(weight, edges, x.shape[0], nodes)
    return reduce_sorted(x, edges, weight, nodes, reduce)


def reduce_sorted(
    x: Tensor, edges: Tensor, weight: Tensor | None, rows: int, reduce: str
) -> Tensor:
    """The same for edges and weights that are sorted (`_edges`)."""
    ops = torch.ops.cpuaccel
    if reduce in ("amax", "amin"):
        extreme: Tensor = ops.edge_extreme(x, edges, weight, rows, reduce == "amin")
        return extreme
    total: Tensor = ops.edge_sum(x, edges, weight, rows, False, reduce == "mean")
    return total


def gcn_reduce(
    x: Tensor, edge_index: Tensor, weight: Tensor | None, loops: bool, fill: float, reduce: str
) -> Tensor:
    """Reduce over the edges of a graph, and `loops` of weight `fill`, normalized as in GCN.

    In compiled code `reduce` must be "sum" or "mean". `weight` does not learn.
    """
    ops, nodes = torch.ops.cpuaccel, x.shape[0]
    if not _edges.in_eager(edge_index):
        total: Tensor = ops.gcn_sum(x, edge_index, weight, loops, fill, False, reduce == "mean")
        return total
    edges = _edges.sorted_edges(edge_index, nodes, nodes, nodes if loops else None)
    values = ops.kept_gcn_weight(edge_index, weight, edges, nodes, loops, fill, x.dtype)
    return reduce_sorted(x, edges, values, nodes, reduce)


def spmm(a: Tensor, x: Tensor, reduce: str = "sum") -> Tensor:
    """Multiply a graph by a matrix: `torch.sparse.mm(a, x, reduce)`, also for an edge_index.

    Args:
        a: a sparse matrix of shape [M, N] (CSR; CSC, and COO except for sums, are converted in each
            call), or an edge_index of shape [2, E] between the N nodes of `x`, each edge from row 0
            to row 1.
        x: floats, shape [N, K].
        reduce: "sum", "mean", "amax" or "amin", over the nonzeros of a row or the edges that end in
            a node.

    Returns:
        Tensor of shape [M, K], or [N, K] for an edge_index.

    Raises:
        TypeError, ValueError, IndexError: as `gather_scale_reduce`; and what torch raises for
            matrices.
    """
    if not isinstance(a, Tensor):
        raise TypeError(f"cpuaccel.gnn.spmm: a: expected a Tensor, got {type(a).__name__}")
    if a.layout not in _SPARSE:
        return gather_scale_reduce(x, a, None, None, reduce)
    name = "cpuaccel.gnn.spmm"
    _check.floats(name, "x", x, (2,), "[N, K]")
    _check.reduction(name, reduce)
    if a.layout == torch.sparse_coo and reduce == "sum":
        total: Tensor = torch.sparse.mm(a, x)
        return total
    matrix = a if a.layout == torch.sparse_csr else a.to_sparse_csr()
    product: Tensor = torch.sparse.mm(matrix, x, reduce)
    return product
