"""Softmax over a node's edges, and the attention of GAT and GATv2 layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from cpuaccel.gnn import _check, _edges, _torch_fallback


def edge_softmax(scores: Tensor, edge_index: Tensor, num_nodes: int | None = None) -> Tensor:
    """Take softmax over the edges that end in each node, separately for each head.

    result[e, h] = exp(scores[e, h] - max) / (sum + 1e-16), with max and sum over the edges that
    have the destination of e, as in torch_geometric.utils.softmax.

    Args:
        scores: floats, shape [E, H] or [E].
        edge_index: int32 or int64, shape [2, E], row 1 the destination nodes.
        num_nodes: number of nodes, above all indices; None: as many as the indices need.

    Returns:
        Tensor of the dtype and shape of `scores`.

    Raises:
        TypeError: an argument is not a tensor, or has a wrong dtype.
        ValueError: a wrong shape or number of nodes.
        IndexError: an index is out of range.
    """
    name = "cpuaccel.gnn.edge_softmax"
    _check.floats(name, "scores", scores, (1, 2), "[E, H] or [E]")
    _check.edge_index(name, edge_index)
    _check.per_edge(name, "scores", scores, edge_index, scores)
    if num_nodes is None:
        nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
    else:
        nodes = _check.count(name, "num_nodes", num_nodes)
    rows = scores if scores.dim() == 2 else scores[:, None]
    if not _edges.supports(scores):
        return _torch_fallback.edge_softmax(rows, edge_index, nodes).view_as(scores)
    edges = _edges.sorted_edges(edge_index, nodes, nodes)
    in_order = _edges.in_order(rows, edges, nodes, nodes)
    alpha = torch.ops.cpuaccel.edge_softmax(in_order, edges, nodes, nodes)
    return _edges.unsorted(alpha, edges, nodes, nodes).view_as(scores)


def gat_attention(
    x: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    edge_index: Tensor,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
) -> Tensor:
    """Add up the features of a node's neighbors, weighted by the attention of a GAT layer.

    With s[e, h] = leaky_relu(score_src[n, h] + score_dst[m, h]) for an edge e from n to m, and
    alpha the softmax of s over the edges that end in m,

    result[m, h] = sum over e of alpha[e, h] * x[n, h].

    No tensor of edges times features is made, only of edges times heads. `dropout` applies
    torch.nn.functional.dropout to alpha, in the order of edge_index.

    Args:
        x: features of the sources, float32 or float64, shape [N, H, C].
        score_src: shape [N, H], dtype of `x`.
        score_dst: shape [M, H], dtype of `x`.
        edge_index: int32 or int64, shape [2, E], row 0 sources below N, row 1 destinations below M.
        negative_slope: slope of leaky_relu below 0.
        dropout: probability that a weight becomes 0.

    Returns:
        Tensor of the dtype of `x`, shape [M, H, C]; 0 for nodes in which no edge ends.

    Raises:
        TypeError: an argument is not a tensor, or has a wrong dtype.
        ValueError: a wrong shape.
        IndexError: an index is out of range.
    """
    name = "cpuaccel.gnn.gat_attention"
    _check.floats(name, "x", x, (3,), "[N, H, C]")
    _check.shape(name, "score_src", score_src, x, [x.shape[0], x.shape[1]])
    _check.shape(name, "score_dst", score_dst, x, [None, x.shape[1]])
    _check.edge_index(name, edge_index)
    if not _edges.supports(x) or 0 in x.shape[1:]:
        return _torch_fallback.gat_attention(
            x, score_src, score_dst, edge_index, negative_slope, dropout
        )
    return gat_sum(x, score_src, score_dst, edge_index, False, negative_slope, dropout)


def gatv2_attention(
    x_src: Tensor,
    x_dst: Tensor,
    att: Tensor,
    edge_index: Tensor,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
) -> Tensor:
    """Add up the features of a node's neighbors, weighted by the attention of a GATv2 layer.

    As `gat_attention`, with s[e, h] = sum over c of att[h, c] * leaky_relu(x_src[n, h, c] +
    x_dst[m, h, c]).

    Args:
        x_src: features of the sources, float32 or float64, shape [N, H, C].
        x_dst: shape [M, H, C], dtype of `x_src`.
        att: shape [H, C], dtype of `x_src`.
        edge_index: int32 or int64, shape [2, E], row 0 sources below N, row 1 destinations below M.
        negative_slope: slope of leaky_relu below 0.
        dropout: probability that a weight becomes 0.

    Returns:
        Tensor of the dtype of `x_src`, shape [M, H, C]; 0 for nodes in which no edge ends.

    Raises:
        TypeError: an argument is not a tensor, or has a wrong dtype.
        ValueError: a wrong shape.
        IndexError: an index is out of range.
    """
    name = "cpuaccel.gnn.gatv2_attention"
    _check.floats(name, "x_src", x_src, (3,), "[N, H, C]")
    _check.shape(name, "x_dst", x_dst, x_src, [None, *x_src.shape[1:]])
    _check.shape(name, "att", att, x_src, list(x_src.shape[1:]))
    _check.edge_index(name, edge_index)
    if not _edges.supports(x_src) or 0 in x_src.shape[1:]:
        return _torch_fallback.gatv2_attention(
            x_src, x_dst, att, edge_index, negative_slope, dropout
        )
    return gatv2_sum(x_src, x_dst, att, edge_index, False, negative_slope, dropout)


def head_scores(x: Tensor, att: Tensor) -> Tensor:
    """Multiply each head by its vector: result[n, h] = sum over c of x[n, h, c] * att[h, c].

    Computed as a product with a matrix that has each head's vector in a column of its own, and
    zeros elsewhere. That reads x once, whereas a product and a sum would also write a tensor of its
    size.

    Args:
        x: shape [N, H, C].
        att: shape [H, C], dtype of `x`.
    """
    heads, columns = att.shape
    block_diagonal = torch.eye(heads, dtype=att.dtype).repeat_interleave(columns, 0)
    return x.flatten(1) @ (att.reshape(-1, 1) * block_diagonal)


def gat_sum(
    x: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    edge_index: Tensor,
    loops: bool,
    slope: float,
    dropout: float,
) -> Tensor:
    """The same as `gat_attention`, without checks, and with a loop at each node if `loops`."""
    ops = torch.ops.cpuaccel
    if not _edges.in_eager(edge_index):
        tensors = (x, score_src, score_dst, edge_index)
        return _traced(ops.gat_sum, tensors, score_dst.shape[0], loops, slope, dropout)
    edges = _sorted_edges(x, score_dst, edge_index, loops)
    alpha = ops.gat_alpha(score_src, score_dst, edges, slope)
    return _weighted_sum(x, alpha, edges, score_dst.shape[0], dropout)


def gatv2_sum(
    x_src: Tensor,
    x_dst: Tensor,
    att: Tensor,
    edge_index: Tensor,
    loops: bool,
    slope: float,
    dropout: float,
) -> Tensor:
    """The same as `gatv2_attention`, without checks, and with a loop at each node if `loops`."""
    ops = torch.ops.cpuaccel
    if not _edges.in_eager(edge_index):
        tensors = (x_src, x_dst, att, edge_index)
        return _traced(ops.gatv2_sum, tensors, x_dst.shape[0], loops, slope, dropout)
    edges = _sorted_edges(x_src, x_dst, edge_index, loops)
    scores = ops.gatv2_scores(x_src.flatten(1), x_dst.flatten(1), att, edges, slope)
    alpha = ops.edge_softmax(scores, edges, x_src.shape[0], x_dst.shape[0])
    return _weighted_sum(x_src, alpha, edges, x_dst.shape[0], dropout)


def _sorted_edges(src: Tensor, dst: Tensor, edge_index: Tensor, loops: bool) -> Tensor:
    nodes = min(src.shape[0], dst.shape[0]) if loops else None
    return _edges.sorted_edges(edge_index, src.shape[0], dst.shape[0], nodes)


def _traced(
    op: Any, tensors: tuple[Tensor, ...], num_dst: int, loops: bool, slope: float, dropout: float
) -> Tensor:
    """Call gat_sum or gatv2_sum, the ops for compiled code, on (x, ..., edge_index)."""
    x, *_, edge_index = tensors
    mask = None
    if dropout:
        # Dropout of ones, for the largest possible number of edges.
        most = _edges.max_edges(edge_index, x.shape[0], num_dst, loops)
        mask = functional.dropout(x.new_ones(most, x.shape[1]), dropout)
    result: Tensor = op(*tensors, loops, slope, mask)[0]
    return result


def _weighted_sum(x: Tensor, alpha: Tensor, edges: Tensor, rows: int, dropout: float) -> Tensor:
    ops = torch.ops.cpuaccel
    if dropout:
        # Drawn in the order of the edge_index, so that it equals a draw for unsorted edges.
        mask = functional.dropout(torch.ones_like(alpha), dropout)
        alpha = alpha * mask.index_select(0, _edges.order(edges, rows))
    heads, columns = x.shape[1:]
    if heads == 1:
        total = ops.edge_sum(x.flatten(1), edges, alpha.flatten(), rows)
    else:
        total = ops.edge_sum_heads(x.flatten(1), edges, alpha, rows)
    result: Tensor = total.view(rows, heads, columns)
    return result
