"""The functions of cpuaccel.gnn by torch's own ops, with a tensor of edge messages."""

from __future__ import annotations

import torch
from torch import Tensor

from cpuaccel._ops import edge_formulas


def gather_scale_reduce(
    x: Tensor, edge_index: Tensor, weight: Tensor | None, num_nodes: int, reduce: str
) -> Tensor:
    """Return what cpuaccel.gnn.gather_scale_reduce does."""
    begin, end = edge_index[0].long(), edge_index[1].long()
    messages = x.index_select(0, begin)
    if weight is not None:
        messages = weight[:, None] * messages
    to = x.new_zeros(num_nodes, x.shape[1])
    if reduce in ("amax", "amin"):
        index = end[:, None].expand(-1, x.shape[1])
        return to.scatter_reduce(0, index, messages, reduce, include_self=False)
    total = to.index_add(0, end, messages)
    if reduce == "mean":
        ones = torch.ones(len(end), dtype=x.dtype, device=x.device)
        counts = x.new_zeros(num_nodes).index_add(0, end, ones)
        total = total / counts.clamp(min=1)[:, None]
    return total


def edge_softmax(scores: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return what cpuaccel.gnn.edge_softmax does, of [E, H]."""
    return edge_formulas.softmax(scores, edge_index[1].long(), num_nodes)


def gat_attention(
    x: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    edge_index: Tensor,
    slope: float,
    dropout: float,
) -> Tensor:
    """Return what cpuaccel.gnn.gat_attention does."""
    begin, end = edge_index[0].long(), edge_index[1].long()
    scores = score_src.index_select(0, begin) + score_dst.index_select(0, end)
    return _attention(
        x, torch.nn.functional.leaky_relu(scores, slope), edge_index, score_dst, dropout
    )


def gatv2_attention(
    x_src: Tensor, x_dst: Tensor, att: Tensor, edge_index: Tensor, slope: float, dropout: float
) -> Tensor:
    """Return what cpuaccel.gnn.gatv2_attention does."""
    begin, end = edge_index[0].long(), edge_index[1].long()
    z = x_src.index_select(0, begin) + x_dst.index_select(0, end)
    scores = (torch.nn.functional.leaky_relu(z, slope) * att).sum(-1)
    return _attention(x_src, scores, edge_index, x_dst, dropout)


def _attention(
    x: Tensor, scores: Tensor, edge_index: Tensor, dst: Tensor, dropout: float
) -> Tensor:
    alpha = edge_softmax(scores, edge_index, dst.shape[0])
    alpha = torch.nn.functional.dropout(alpha, dropout)
    messages = alpha[:, :, None] * x.index_select(0, edge_index[0].long())
    to = x.new_zeros(dst.shape[0], *x.shape[1:])
    return to.index_add(0, edge_index[1].long(), messages)
