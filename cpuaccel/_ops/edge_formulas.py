"""Formulas (see `derivatives.py`) of the ops of csrc/ops/gnn on edges, composed of torch's ops.

Each function has the arguments of the op that it is named after. `edges` is the result of
sort_edges, or an edge_index, which stands for its edges in that order.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def edges_count(edges: Tensor, num_dst: int) -> int:
    """Return the number of edges in `edges`: an edge_index, or edges sorted for `num_dst` nodes."""
    if edges.dim() == 2:
        return edges.shape[1]
    return (edges.shape[0] - num_dst - 1) // 2


def softmax(scores: Tensor, end: Tensor, num_dst: int) -> Tensor:
    """Softmax of `scores` [E, H] over the edges with the same destination `end` ([E], int64)."""
    index = end[:, None].expand_as(scores)
    most = scores.new_zeros(num_dst, scores.shape[1]).scatter_reduce(
        0, index, scores.detach(), "amax", include_self=False
    )
    powers = (scores - most.index_select(0, end)).exp()
    total = sum_rows(powers, end, num_dst) + 1e-16
    return powers / total.index_select(0, end)


def edge_sum(
    x: Tensor,
    edges: Tensor,
    weight: Tensor | None,
    rows: int,
    transposed: bool = False,
    mean: bool = False,
) -> Tensor:
    num_dst = x.shape[0] if transposed else rows
    begin, end = _ends(edges, num_dst)
    source, to = (end, begin) if transposed else (begin, end)
    messages = x.index_select(0, source)
    if weight is not None:
        messages = messages * weight[:, None]
    if mean:
        messages = messages / _degrees(end, num_dst, x).index_select(0, end)
    return sum_rows(messages, to, rows)


def edge_dot(a: Tensor, b: Tensor, edges: Tensor, mean: bool = False) -> Tensor:
    begin, end = _ends(edges, a.shape[0])
    dot = (a.index_select(0, end) * b.index_select(0, begin)).sum(1)
    if mean:
        dot = dot / _degrees(end, a.shape[0], a).index_select(0, end)[:, 0]
    return dot


def edge_extreme(
    x: Tensor, edges: Tensor, weight: Tensor | None, rows: int, smallest: bool = False
) -> Tensor:
    begin, end = _ends(edges, rows)
    messages = x.index_select(0, begin)
    if weight is not None:
        messages = messages * weight[:, None]
    return _extreme(messages, end, rows, "amin" if smallest else "amax")


def edge_extreme_backward(
    grad: Tensor,
    x: Tensor,
    edges: Tensor,
    weight: Tensor | None,
    dst: Tensor,
    of_x: bool,
    of_weight: bool,
) -> tuple[Tensor, Tensor]:
    begin, end = _ends(edges, dst.shape[0])
    source = x.index_select(0, begin)
    messages = source if weight is None else source * weight[:, None]
    of_messages = _shared(grad, messages, dst, _ties(messages, dst, end), end)
    by_x = by_weight = x.new_empty([0])
    if of_x:
        scaled = of_messages if weight is None else of_messages * weight[:, None]
        by_x = sum_rows(scaled, begin, x.shape[0])
    if of_weight:
        by_weight = (of_messages * source).sum(1)
    return by_x, by_weight


def edge_stats(
    x: Tensor, edges: Tensor, shift: Tensor | None, rows: int, which: str
) -> tuple[Tensor, ...]:
    messages, _, end = _shifted(x, edges, shift, rows)
    mean = var = smallest = largest = x.new_empty([0])
    ties_smallest, ties_largest = smallest, largest
    if which == "all":
        count = _degrees(end, rows, x)
        mean = sum_rows(messages, end, rows) / count
        var = sum_rows((messages - mean.index_select(0, end)).square(), end, rows) / count
    if which != "amax":
        smallest = _extreme(messages, end, rows, "amin")
        ties_smallest = _ties(messages, smallest, end)
    if which != "amin":
        largest = _extreme(messages, end, rows, "amax")
        ties_largest = _ties(messages, largest, end)
    return mean, var, smallest, largest, ties_smallest, ties_largest


def edge_stats_backward(
    grad_mean: Tensor | None,
    grad_var: Tensor | None,
    grad_smallest: Tensor | None,
    grad_largest: Tensor | None,
    x: Tensor,
    edges: Tensor,
    shift: Tensor | None,
    rows: int,
    which: str,
    mean: Tensor,
    smallest: Tensor,
    largest: Tensor,
    ties_smallest: Tensor,
    ties_largest: Tensor,
) -> tuple[Tensor, Tensor]:
    messages, begin, end = _shifted(x, edges, shift, rows)
    count = _degrees(end, rows, x)
    grad_messages = torch.zeros_like(messages)
    if grad_mean is not None:
        grad_messages = grad_messages + (grad_mean / count).index_select(0, end)
    if grad_var is not None:
        centered = messages - mean.index_select(0, end)
        grad_messages = grad_messages + 2 * (grad_var / count).index_select(0, end) * centered
    for grad, extreme, ties in (
        (grad_smallest, smallest, ties_smallest),
        (grad_largest, largest, ties_largest),
    ):
        if grad is not None:
            grad_messages = grad_messages + _shared(grad, messages, extreme, ties, end)
    grad_shift = x.new_empty([0]) if shift is None else sum_rows(grad_messages, end, rows)
    return sum_rows(grad_messages, begin, x.shape[0]), grad_shift


def edge_sum_heads(
    x: Tensor, edges: Tensor, weight: Tensor, rows: int, transposed: bool = False
) -> Tensor:
    begin, end = _ends(edges, x.shape[0] if transposed else rows)
    source, to = (end, begin) if transposed else (begin, end)
    messages = _heads(x.index_select(0, source), weight.shape[1]) * weight[:, :, None]
    return sum_rows(messages.flatten(1), to, rows)


def edge_dot_heads(a: Tensor, b: Tensor, edges: Tensor, heads: int) -> Tensor:
    begin, end = _ends(edges, a.shape[0])
    return _heads(a.index_select(0, end) * b.index_select(0, begin), heads).sum(-1)


def edge_softmax(scores: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    return softmax(scores, _ends(edges, num_dst)[1], num_dst)


def edge_sum_heads_backward(
    grad: Tensor, x: Tensor, edges: Tensor, weight: Tensor, transposed: bool
) -> tuple[Tensor, Tensor]:
    grad_x = edge_sum_heads(grad, edges, weight, x.shape[0], not transposed)
    by_dst, by_src = (x, grad) if transposed else (grad, x)
    return grad_x, edge_dot_heads(by_dst, by_src, edges, weight.shape[1])


def edge_softmax_backward(
    grad: Tensor, alpha: Tensor, edges: Tensor, num_src: int, num_dst: int
) -> Tensor:
    return _softmax_backward(grad, alpha, _ends(edges, num_dst)[1], num_dst)


def gat_alpha(src: Tensor, dst: Tensor, edges: Tensor, slope: float) -> Tensor:
    begin, end = _ends(edges, dst.shape[0])
    scores = src.index_select(0, begin) + dst.index_select(0, end)
    return softmax(functional.leaky_relu(scores, slope), end, dst.shape[0])


def gat_alpha_backward(
    grad: Tensor, alpha: Tensor, src: Tensor, dst: Tensor, edges: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    begin, end = _ends(edges, dst.shape[0])
    scores = src.index_select(0, begin) + dst.index_select(0, end)
    grad_scores = _softmax_backward(grad, alpha, end, dst.shape[0]) * _slopes(scores, slope)
    return sum_rows(grad_scores, begin, src.shape[0]), sum_rows(grad_scores, end, dst.shape[0])


def gatv2_scores(src: Tensor, dst: Tensor, att: Tensor, edges: Tensor, slope: float) -> Tensor:
    begin, end = _ends(edges, dst.shape[0])
    sums = src.index_select(0, begin) + dst.index_select(0, end)
    return (_heads(functional.leaky_relu(sums, slope), att.shape[0]) * att).sum(-1)


def gatv2_scores_backward(
    grad: Tensor, src: Tensor, dst: Tensor, att: Tensor, edges: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    begin, end = _ends(edges, dst.shape[0])
    sums = _heads(src.index_select(0, begin) + dst.index_select(0, end), att.shape[0])
    grad_sums = (grad[:, :, None] * att * _slopes(sums, slope)).flatten(1)
    grad_att = (grad[:, :, None] * functional.leaky_relu(sums, slope)).sum(0)
    return (
        sum_rows(grad_sums, begin, src.shape[0]),
        sum_rows(grad_sums, end, dst.shape[0]),
        grad_att,
    )


def _ends(edges: Tensor, num_dst: int) -> tuple[Tensor, Tensor]:
    """Return the source and the destination node of each edge, in int64."""
    if edges.dim() == 2:
        by_end = edges[1].argsort(stable=True)
        begin, end = edges.index_select(1, by_end).long().unbind()
        return begin, end
    count = edges_count(edges, num_dst)
    nodes = torch.arange(num_dst, device=edges.device)
    degrees = edges[: num_dst + 1].diff().long()
    end = nodes.repeat_interleave(degrees, output_size=count)
    return edges[num_dst + 1 :][:count].long(), end


def sum_rows(values: Tensor, to: Tensor, rows: int) -> Tensor:
    """Return [rows, ...]: the sums of the rows of `values` that have the same index in `to`."""
    return values.new_zeros([rows, *values.shape[1:]]).index_add(0, to, values)


def _degrees(end: Tensor, rows: int, like: Tensor) -> Tensor:
    """Return the number of edges that end in each node, at least 1: [rows, 1]."""
    ones = torch.ones(end.shape[0], 1, dtype=like.dtype, device=like.device)
    return sum_rows(ones, end, rows).clamp(min=1)


def _shifted(
    x: Tensor, edges: Tensor, shift: Tensor | None, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    begin, end = _ends(edges, rows)
    messages = x.index_select(0, begin)
    return messages if shift is None else messages + shift.index_select(0, end), begin, end


def _extreme(messages: Tensor, end: Tensor, rows: int, reduce: str) -> Tensor:
    index = end[:, None].expand_as(messages)
    zeros = messages.new_zeros(rows, messages.shape[1])
    return zeros.scatter_reduce(0, index, messages, reduce, include_self=False)


def _ties(messages: Tensor, extreme: Tensor, end: Tensor) -> Tensor:
    """Return how many of a node's messages equal its extreme."""
    equal = messages.eq(extreme.index_select(0, end))
    return sum_rows(equal.to(messages.dtype), end, extreme.shape[0])


def _shared(grad: Tensor, messages: Tensor, extreme: Tensor, ties: Tensor, end: Tensor) -> Tensor:
    """Return the gradients of messages. Ties share `grad`; an extreme of 0 itself takes a share."""
    share = grad / (ties + extreme.eq(0).to(grad.dtype))
    equal = messages.eq(extreme.index_select(0, end))
    return equal.to(grad.dtype) * share.index_select(0, end)


def _heads(x: Tensor, heads: int) -> Tensor:
    return torch.unflatten(x, 1, (heads, x.shape[1] // heads))


def _softmax_backward(grad: Tensor, alpha: Tensor, end: Tensor, num_dst: int) -> Tensor:
    terms = alpha * grad
    return terms - alpha * sum_rows(terms, end, num_dst).index_select(0, end)


def _slopes(x: Tensor, slope: float) -> Tensor:
    """Return the derivative of leaky_relu."""
    return torch.full_like(x, slope).masked_fill(x > 0, 1.0)
