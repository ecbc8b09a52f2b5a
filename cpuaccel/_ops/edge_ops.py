"""Fake kernels and derivatives of the ops on sorted edges: csrc/ops/gnn/edge_*.cpp, gat*.cpp."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops import edge_formulas as formulas
from cpuaccel._ops.derivatives import differentiable
from cpuaccel._ops.edge_formulas import edges_count as edges_count

_native.load()  # registers the ops

_torch: Any = torch  # Any: torch's annotations lack names that are used here
ops: Any = torch.ops.cpuaccel
_fake: Any = _torch.library.register_fake


def edge_order(edges: Tensor, num_dst: int) -> Tensor:
    """Return the positions in the edge_index of the edges, in the order of `edges`."""
    return edges[num_dst + 1 + edges_count(edges, num_dst) :]


@_fake("cpuaccel::sort_edges")  # type: ignore[untyped-decorator]
def _sort_edges(edge_index: Tensor, num_src: int, num_dst: int) -> Tensor:
    count = edge_index.shape[1]
    # int32 if all counts fit. A size that is not known yet is assumed to fit.
    most = 2**31 - 1
    known = [n for n in (count, num_src, num_dst) if isinstance(n, int)]
    dtype = torch.int32 if all(n <= most for n in known) else torch.int64
    return edge_index.new_empty([num_dst + 1 + 2 * count], dtype=dtype)


@_fake("cpuaccel::edge_sum")  # type: ignore[untyped-decorator]
def _edge_sum(
    x: Tensor,
    edges: Tensor,
    weight: Tensor | None,
    rows: int,
    transposed: bool = False,
    mean: bool = False,
) -> Tensor:
    return x.new_empty([rows, x.shape[1]])


def _edge_sum_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, edges, weight, _, ctx.transposed, ctx.mean = inputs
    ctx.rows = x.shape[0]
    learns = weight is not None and ctx.needs_input_grad[2]
    ctx.save_for_backward(x if learns else None, edges, weight)


def _edge_sum_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, edges, weight = ctx.saved_tensors
    grad_x = grad_weight = None
    if ctx.needs_input_grad[0] and x is not None and not ctx.mean:
        found = ops.edge_sum_heads_backward(grad, x, edges, weight[:, None], ctx.transposed)
        return found[0], None, found[1][:, 0], None, None, None
    if ctx.needs_input_grad[0]:
        grad_x = ops.edge_sum(grad, edges, weight, ctx.rows, not ctx.transposed, ctx.mean)
    if x is not None:
        by_dst, by_src = (x, grad) if ctx.transposed else (grad, x)
        grad_weight = ops.edge_dot(by_dst, by_src, edges, ctx.mean)
    return grad_x, None, grad_weight, None, None, None


differentiable(formulas.edge_sum, _edge_sum_backward, _edge_sum_setup)


@_fake("cpuaccel::edge_dot")  # type: ignore[untyped-decorator]
def _edge_dot(a: Tensor, b: Tensor, edges: Tensor, mean: bool = False) -> Tensor:
    return a.new_empty([edges_count(edges, a.shape[0])])


def _edge_dot_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, edges, ctx.mean = inputs
    ctx.save_for_backward(a, b, edges)


def _edge_dot_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, b, edges = ctx.saved_tensors
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        grad_a = ops.edge_sum(b, edges, grad, a.shape[0], False, ctx.mean)
    if ctx.needs_input_grad[1]:
        grad_b = ops.edge_sum(a, edges, grad, b.shape[0], True, ctx.mean)
    return grad_a, grad_b, None, None


differentiable(formulas.edge_dot, _edge_dot_backward, _edge_dot_setup)


@_fake("cpuaccel::edge_extreme")  # type: ignore[untyped-decorator]
def _edge_extreme(
    x: Tensor, edges: Tensor, weight: Tensor | None, rows: int, smallest: bool = False
) -> Tensor:
    return x.new_empty([rows, x.shape[1]])


@_fake("cpuaccel::edge_extreme_backward")  # type: ignore[untyped-decorator]
def _edge_extreme_gradients(
    grad: Tensor,
    x: Tensor,
    edges: Tensor,
    weight: Tensor | None,
    dst: Tensor,
    of_x: bool,
    of_weight: bool,
) -> tuple[Tensor, Tensor]:
    count = edges_count(edges, dst.shape[0])
    return x.new_empty(x.shape if of_x else [0]), x.new_empty([count if of_weight else 0])


def _edge_extreme_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, edges, weight, _, _ = inputs
    ctx.save_for_backward(x, edges, weight, output)


def _edge_extreme_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, edges, weight, dst = ctx.saved_tensors
    wanted = [ctx.needs_input_grad[0], weight is not None and ctx.needs_input_grad[2]]
    found = ops.edge_extreme_backward(grad, x, edges, weight, dst, *wanted)
    grad_x, grad_weight = (of if asked else None for of, asked in zip(found, wanted, strict=True))
    return grad_x, None, grad_weight, None, None


differentiable(formulas.edge_extreme, _edge_extreme_backward, _edge_extreme_setup)
differentiable(formulas.edge_extreme_backward)


@_fake("cpuaccel::edge_stats")  # type: ignore[untyped-decorator]
def _edge_stats(
    x: Tensor, edges: Tensor, shift: Tensor | None, rows: int, which: str
) -> tuple[Tensor, ...]:
    moments, smallest, largest = which == "all", which != "amax", which != "amin"
    wanted = (moments, moments, smallest, largest, smallest, largest)
    return tuple(x.new_empty([rows, x.shape[1]] if each else [0]) for each in wanted)


@_fake("cpuaccel::edge_stats_backward")  # type: ignore[untyped-decorator]
def _edge_stats_gradients(*arguments: Any) -> tuple[Tensor, Tensor]:
    _, _, _, _, x, _, shift, rows, *_ = arguments
    return x.new_empty(x.shape), x.new_empty([0] if shift is None else [rows, x.shape[1]])


def _edge_stats_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, edges, shift, ctx.rows, ctx.which = inputs
    mean, _, *extremes_and_ties = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*extremes_and_ties[2:])
    ctx.save_for_backward(x, edges, shift, mean, *extremes_and_ties)


def _edge_stats_backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    x, edges, shift, *outputs = ctx.saved_tensors
    given = [None if grad is None or grad.numel() == 0 else grad for grad in grads[:4]]
    found = ops.edge_stats_backward(*given, x, edges, shift, ctx.rows, ctx.which, *outputs)
    grad_x, grad_shift = (
        of if asked else None
        for of, asked in zip(found, (ctx.needs_input_grad[0], ctx.needs_input_grad[2]), strict=True)
    )
    return grad_x, None, grad_shift, None, None


differentiable(formulas.edge_stats, _edge_stats_backward, _edge_stats_setup)
differentiable(formulas.edge_stats_backward)


@_fake("cpuaccel::edge_sum_heads")  # type: ignore[untyped-decorator]
def _edge_sum_heads(
    x: Tensor, edges: Tensor, weight: Tensor, rows: int, transposed: bool = False
) -> Tensor:
    return x.new_empty([rows, x.shape[1]])


def _edge_sum_heads_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, edges, weight, _, ctx.transposed = inputs
    ctx.rows = x.shape[0]
    ctx.save_for_backward(x if ctx.needs_input_grad[2] else None, edges, weight)


def _edge_sum_heads_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, edges, weight = ctx.saved_tensors
    grad_x = grad_weight = None
    if x is None:
        grad_x = ops.edge_sum_heads(grad, edges, weight, ctx.rows, not ctx.transposed)
    elif ctx.needs_input_grad[0]:
        grad_x, grad_weight = ops.edge_sum_heads_backward(grad, x, edges, weight, ctx.transposed)
    else:
        grad_weight = _dot_of(grad, x, edges, weight.shape[1], ctx.transposed)
    return grad_x, None, grad_weight, None, None


def _dot_of(grad: Tensor, x: Tensor, edges: Tensor, heads: int, transposed: bool) -> Tensor:
    by_dst, by_src = (x, grad) if transposed else (grad, x)
    dot: Tensor = ops.edge_dot_heads(by_dst, by_src, edges, heads)
    return dot


differentiable(formulas.edge_sum_heads, _edge_sum_heads_backward, _edge_sum_heads_setup)


@_fake("cpuaccel::edge_sum_heads_backward")  # type: ignore[untyped-decorator]
def _edge_sum_heads_gradients(
    grad: Tensor, x: Tensor, edges: Tensor, weight: Tensor, transposed: bool
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _edge_sum_heads_gradients_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.transposed = inputs
    ctx.save_for_backward(*tensors)


def _edge_sum_heads_gradients_backward(
    ctx: Any, of_x: Tensor, of_weight: Tensor
) -> tuple[Tensor | None, ...]:
    """Derive sums over w * grad and dot products grad * x, both of which are bilinear."""
    grad, x, edges, weight = ctx.saved_tensors
    back, rows = not ctx.transposed, [grad.shape[0], x.shape[0]]
    by_grad = ops.edge_sum_heads(of_x, edges, weight, rows[0], ctx.transposed)
    by_grad = by_grad + ops.edge_sum_heads(x, edges, of_weight, rows[0], ctx.transposed)
    by_x = ops.edge_sum_heads(grad, edges, of_weight, rows[1], back)
    by_weight = _dot_of(grad, of_x, edges, weight.shape[1], ctx.transposed)
    return by_grad, by_x, None, by_weight, None


differentiable(
    formulas.edge_sum_heads_backward,
    _edge_sum_heads_gradients_backward,
    _edge_sum_heads_gradients_setup,
)


@_fake("cpuaccel::edge_dot_heads")  # type: ignore[untyped-decorator]
def _edge_dot_heads(a: Tensor, b: Tensor, edges: Tensor, heads: int) -> Tensor:
    return a.new_empty([edges_count(edges, a.shape[0]), heads])


def _edge_dot_heads_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, edges, _ = inputs
    ctx.save_for_backward(a, b, edges)


def _edge_dot_heads_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, b, edges = ctx.saved_tensors
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        grad_a = ops.edge_sum_heads(b, edges, grad, a.shape[0], False)
    if ctx.needs_input_grad[1]:
        grad_b = ops.edge_sum_heads(a, edges, grad, b.shape[0], True)
    return grad_a, grad_b, None, None


differentiable(formulas.edge_dot_heads, _edge_dot_heads_backward, _edge_dot_heads_setup)


@_fake("cpuaccel::edge_softmax")  # type: ignore[untyped-decorator]
def _edge_softmax(scores: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    return scores.new_empty(scores.shape)


@_fake("cpuaccel::edge_softmax_backward")  # type: ignore[untyped-decorator]
def _edge_softmax_gradient(
    grad: Tensor, alpha: Tensor, edges: Tensor, num_src: int, num_dst: int
) -> Tensor:
    return alpha.new_empty(alpha.shape)


def _edge_softmax_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, edges, *ctx.nodes = inputs
    ctx.save_for_backward(output, edges)


def _edge_softmax_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    alpha, edges = ctx.saved_tensors
    return ops.edge_softmax_backward(grad, alpha, edges, *ctx.nodes), None, None, None


differentiable(formulas.edge_softmax, _edge_softmax_backward, _edge_softmax_setup)
differentiable(formulas.edge_softmax_backward)


@_fake("cpuaccel::gat_alpha")  # type: ignore[untyped-decorator]
def _gat_alpha(src: Tensor, dst: Tensor, edges: Tensor, slope: float) -> Tensor:
    return src.new_empty([edges_count(edges, dst.shape[0]), src.shape[1]])


@_fake("cpuaccel::gat_alpha_backward")  # type: ignore[untyped-decorator]
def _gat_alpha_gradients(
    grad: Tensor, alpha: Tensor, src: Tensor, dst: Tensor, edges: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    return src.new_empty(src.shape), dst.new_empty(dst.shape)


def _gat_alpha_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    src, dst, edges, ctx.slope = inputs
    ctx.save_for_backward(output, src, dst, edges)


def _gat_alpha_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grad_src, grad_dst = ops.gat_alpha_backward(grad, *ctx.saved_tensors, ctx.slope)
    return grad_src, grad_dst, None, None


differentiable(formulas.gat_alpha, _gat_alpha_backward, _gat_alpha_setup)
differentiable(formulas.gat_alpha_backward)


@_fake("cpuaccel::gatv2_scores")  # type: ignore[untyped-decorator]
def _gatv2_scores(src: Tensor, dst: Tensor, att: Tensor, edges: Tensor, slope: float) -> Tensor:
    return src.new_empty([edges_count(edges, dst.shape[0]), att.shape[0]])


@_fake("cpuaccel::gatv2_scores_backward")  # type: ignore[untyped-decorator]
def _gatv2_scores_gradients(
    grad: Tensor, src: Tensor, dst: Tensor, att: Tensor, edges: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    return src.new_empty(src.shape), dst.new_empty(dst.shape), att.new_empty(att.shape)


def _gatv2_scores_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    src, dst, att, edges, ctx.slope = inputs
    ctx.save_for_backward(src, dst, att, edges)


def _gatv2_scores_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    found = ops.gatv2_scores_backward(grad, *ctx.saved_tensors, ctx.slope)
    return *found, None, None


differentiable(formulas.gatv2_scores, _gatv2_scores_backward, _gatv2_scores_setup)
differentiable(formulas.gatv2_scores_backward)
