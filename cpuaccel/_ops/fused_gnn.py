"""Fake kernels and derivatives of the fused GNN ops for compiled models: csrc/ops/gnn/*_sum.cpp.

Also edge_values. The ops take an edge_index, or the two rows of one, instead of sorted edges, and
find the sorted edges in the index cache: a compiled graph may overwrite any tensor that it no
longer needs, and has to know all sizes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel._ops import fused_gnn_formulas as formulas
from cpuaccel._ops.derivatives import differentiable
from cpuaccel._ops.edge_ops import ops

_torch: Any = torch  # Any: torch's annotations lack names that are used here
_fake: Any = _torch.library.register_fake


@_fake("cpuaccel::index_sum")  # type: ignore[untyped-decorator]
def _index_sum(
    x: Tensor,
    src: Tensor,
    dst: Tensor,
    weight: Tensor | None,
    rows: int,
    read: str = "index_select",
    added: str = "index_add",
) -> Tensor:
    return x.new_empty([rows, x.shape[1]])


differentiable(formulas.index_sum)


@_fake("cpuaccel::edge_values")  # type: ignore[untyped-decorator]
def _edge_values(
    values: Tensor, edge_index: Tensor, num_src: int, num_dst: int, back: bool = False
) -> Tensor:
    return values.new_empty(values.shape)


def _edge_values_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, edge_index, *ctx.nodes, ctx.back = inputs
    ctx.save_for_backward(edge_index)


def _edge_values_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (edge_index,) = ctx.saved_tensors
    return ops.edge_values(grad, edge_index, *ctx.nodes, not ctx.back), None, None, None, None


differentiable(formulas.edge_values, _edge_values_backward, _edge_values_setup)


@_fake("cpuaccel::gcn_sum")  # type: ignore[untyped-decorator]
def _gcn_sum(
    x: Tensor,
    edge_index: Tensor,
    weight: Tensor | None,
    loops: bool,
    fill: float,
    transposed: bool = False,
    mean: bool = False,
) -> Tensor:
    return x.new_empty(x.shape)


def _gcn_sum_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, edge_index, weight, ctx.loops, ctx.fill, ctx.transposed, ctx.mean = inputs
    if weight is not None and ctx.needs_input_grad[2]:
        raise RuntimeError("cpuaccel::gcn_sum has no derivative by the weights of edges")
    ctx.save_for_backward(edge_index, weight)


def _gcn_sum_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    edges = ctx.saved_tensors
    grad_x = ops.gcn_sum(grad, *edges, ctx.loops, ctx.fill, not ctx.transposed, ctx.mean)
    return grad_x, None, None, None, None, None, None


differentiable(formulas.gcn_sum, _gcn_sum_backward, _gcn_sum_setup)


def max_edges(edge_index: Tensor, num_src: int, num_dst: int, loops: bool) -> int:
    """Return the largest number of edges, including loops, that attention may have."""
    return edge_index.shape[1] + (min(num_src, num_dst) if loops else 0)


@_fake("cpuaccel::gat_sum")  # type: ignore[untyped-decorator]
def _gat_sum(
    x: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    edge_index: Tensor,
    loops: bool,
    slope: float,
    kept: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    rows, heads = score_dst.shape[0], x.shape[1]
    most = max_edges(edge_index, x.shape[0], rows, loops)
    return x.new_empty([rows, *x.shape[1:]]), x.new_empty([most, heads])


@_fake("cpuaccel::gatv2_sum")  # type: ignore[untyped-decorator]
def _gatv2_sum(
    x_src: Tensor,
    x_dst: Tensor,
    att: Tensor,
    edge_index: Tensor,
    loops: bool,
    slope: float,
    kept: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    most = max_edges(edge_index, x_src.shape[0], x_dst.shape[0], loops)
    return x_dst.new_empty(x_dst.shape), x_dst.new_empty([most, x_src.shape[1]])


def _attention_gradients(grad: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    # The first three inputs have gradients.
    return tuple(each.new_empty(each.shape) for each in inputs[:3])


def _attention_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, edge_index, ctx.loops, ctx.slope, kept = inputs
    # Only the backward needs alpha.
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, edge_index, output[1], kept)


def _attention_backward(op: Any) -> Any:
    def backward(ctx: Any, grad: Tensor, grad_alpha: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, kept = ctx.saved_tensors
        grads = op(grad, *tensors, ctx.loops, ctx.slope, kept)
        return *grads, None, None, None, None

    return backward


for _name in ("gat_sum", "gatv2_sum"):
    differentiable(
        getattr(formulas, _name),
        _attention_backward(getattr(ops, f"{_name}_backward")),
        _attention_setup,
    )
    _fake(f"cpuaccel::{_name}_backward", _attention_gradients)
    differentiable(getattr(formulas, f"{_name}_backward"))
