"""Formulas (see `derivatives.py`) of the ops of `fused_gnn.py`, composed of torch's ops.

Each function has the arguments of the op that it is named after. Loops that an op leaves out have
the weight 0 here, because no size may depend on which edges are loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from cpuaccel._ops.edge_formulas import softmax, sum_rows


class _Edges(NamedTuple):
    begin: Tensor
    end: Tensor
    used: Tensor
    """Whether the op uses an edge: all except the loops that it replaces."""
    position: Tensor
    """The position of each edge in the op's arrays before it sorts them: [edges]."""


def index_sum(
    x: Tensor,
    src: Tensor,
    dst: Tensor,
    weight: Tensor | None,
    rows: int,
    read: str = "index_select",
    added: str = "index_add",
) -> Tensor:
    messages = x[src] if read == "index" else x.index_select(0, src)
    if weight is not None and weight.dim() == 2:
        heads = weight.shape[1]
        messages = torch.unflatten(messages, 1, (heads, x.shape[1] // heads)) * weight[:, :, None]
        messages = messages.flatten(1)
    elif weight is not None:
        messages = messages * weight[:, None]
    if added == "index_put":
        zeros = messages.new_zeros(rows, messages.shape[1])
        return zeros.index_put((dst,), messages, accumulate=True)
    return sum_rows(messages, dst, rows)


def edge_values(
    values: Tensor, edge_index: Tensor, num_src: int, num_dst: int, back: bool = False
) -> Tensor:
    order = edge_index[1].argsort(stable=True)
    return values.index_select(0, order.argsort() if back else order)


def gcn_sum(
    x: Tensor,
    edge_index: Tensor,
    weight: Tensor | None,
    loops: bool,
    fill: float,
    transposed: bool = False,
    mean: bool = False,
) -> Tensor:
    nodes = x.shape[0]
    edges = _edges(edge_index, nodes, loops)
    count = edge_index.shape[1]
    values = x.new_ones(count) if weight is None else weight
    if loops:
        # The last loop of a node gives its weight. Other edges write to an extra element at the
        # end.
        loop_weight = x.new_full([nodes + 1], fill)
        if weight is not None:
            begin = edges.begin[:count]
            loop_weight = loop_weight.scatter(
                0, torch.where(edges.used[:count], nodes, begin), weight
            )
        values = torch.cat([values, loop_weight[:nodes]])
    values = torch.where(edges.used, values, 0.0)
    root = sum_rows(values, edges.end, nodes).pow(-0.5)
    root = root.masked_fill(root == float("inf"), 0.0)
    values = root.index_select(0, edges.begin) * values * root.index_select(0, edges.end)
    if mean:
        degrees = sum_rows(edges.used.to(x.dtype), edges.end, nodes).clamp(min=1)
        values = values / degrees.index_select(0, edges.end)
    source, to = (edges.end, edges.begin) if transposed else (edges.begin, edges.end)
    return sum_rows(x.index_select(0, source) * values[:, None], to, nodes)


def gat_sum(
    x: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    edge_index: Tensor,
    loops: bool,
    slope: float,
    kept: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    rows = score_dst.shape[0]
    edges = _edges(edge_index, min(x.shape[0], rows), loops)
    sums = score_src.index_select(0, edges.begin) + score_dst.index_select(0, edges.end)
    return _attention(x, functional.leaky_relu(sums, slope), edges, rows, kept)


def gatv2_sum(
    x_src: Tensor,
    x_dst: Tensor,
    att: Tensor,
    edge_index: Tensor,
    loops: bool,
    slope: float,
    kept: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    rows = x_dst.shape[0]
    edges = _edges(edge_index, min(x_src.shape[0], rows), loops)
    sums = x_src.index_select(0, edges.begin) + x_dst.index_select(0, edges.end)
    scores = (functional.leaky_relu(sums, slope) * att).sum(-1)
    return _attention(x_src, scores, edges, rows, kept)


def gat_sum_backward(
    grad: Tensor,
    x: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    edge_index: Tensor,
    alpha: Tensor,
    loops: bool,
    slope: float,
    kept: Tensor | None = None,
) -> tuple[Tensor, ...]:
    def forward(x: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        return gat_sum(x, src, dst, edge_index, loops, slope, kept)[0]

    return _derived(forward, (x, score_src, score_dst), grad)


def gatv2_sum_backward(
    grad: Tensor,
    x_src: Tensor,
    x_dst: Tensor,
    att: Tensor,
    edge_index: Tensor,
    alpha: Tensor,
    loops: bool,
    slope: float,
    kept: Tensor | None = None,
) -> tuple[Tensor, ...]:
    def forward(src: Tensor, dst: Tensor, att: Tensor) -> Tensor:
        return gatv2_sum(src, dst, att, edge_index, loops, slope, kept)[0]

    return _derived(forward, (x_src, x_dst, att), grad)


def _derived(
    forward: Callable[..., Tensor], inputs: tuple[Tensor, ...], grad: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradients of `inputs`. They can be differentiated by `inputs` and by `grad`."""
    with torch.enable_grad():
        # Views, so that each gets its own gradient if one tensor is given twice.
        views = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in inputs]
        return torch.autograd.grad(forward(*views), views, grad, create_graph=True)


def _edges(edge_index: Tensor, nodes: int, loops: bool) -> _Edges:
    """Return the edges, followed by a loop at each of the first `nodes` if `loops`."""
    begin, end = edge_index.long().unbind()
    used = begin != end if loops else torch.ones_like(begin, dtype=torch.bool)
    if not loops:
        return _Edges(begin, end, used, torch.arange(len(begin), device=begin.device))
    each = torch.arange(nodes, device=begin.device)
    before = used.long().cumsum(0)
    count = before[-1:] if len(begin) else before.new_zeros(1)
    return _Edges(
        torch.cat([begin, each]),
        torch.cat([end, each]),
        torch.cat([used, torch.ones_like(each, dtype=torch.bool)]),
        torch.cat([(before - 1).clamp(min=0), count + each]),
    )


def _attention(
    x: Tensor, scores: Tensor, edges: _Edges, rows: int, kept: Tensor | None
) -> tuple[Tensor, Tensor]:
    scores = scores.masked_fill(~edges.used[:, None], float("-inf"))
    alpha = softmax(scores, edges.end, rows)
    factors = alpha if kept is None else alpha * kept.index_select(0, edges.position)
    messages = factors[:, :, None] * x.index_select(0, edges.begin)
    # As the op returns it: sorted by destination, with zeros for unused edges at the end.
    order = torch.where(edges.used, edges.end, rows).argsort(stable=True)
    return sum_rows(messages, edges.end, rows), alpha.detach().index_select(0, order)
