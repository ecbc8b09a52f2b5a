"""Edges in the order in which the kernels take them."""

from __future__ import annotations

import torch
from torch import Tensor

from cpuaccel.quant import engine

try:
    from cpuaccel._ops.gnn import edge_order, ops

    _HAS_OPS = True
except RuntimeError:  # the compiled module cannot run here; everything is torch's then
    _HAS_OPS = False

_TYPES = (torch.float32, torch.float64)


def takes(*tensors: Tensor | None) -> bool:
    """Return whether the kernels run on such tensors: cpuaccel on, the CPU, float32 or float64."""
    # What is compiled is compiled once, with our ops.
    on = _HAS_OPS and (torch.compiler.is_compiling() or engine.is_enabled())
    return on and all(
        tensor is None or (tensor.dtype in _TYPES and tensor.device.type == "cpu")
        for tensor in tensors
    )


def in_eager(tensor: Tensor) -> bool:
    """Return whether `tensor` has values now: nothing is being traced or compiled."""
    return type(tensor) is Tensor and not torch.compiler.is_compiling()


def sorted_edges(
    edge_index: Tensor, num_src: int, num_dst: int, loops: int | None = None
) -> Tensor:
    """Return the edges in the order of their destinations, as torch.ops.cpuaccel.edge_sum takes.

    With `loops`, which is for eager calls only, loops are left out and each of the first `loops`
    nodes has one, behind the others, as torch_geometric's `add_self_loops` has it.
    """
    if loops is None and not in_eager(edge_index):
        sorted_: Tensor = ops.sort_edges(edge_index, num_src, num_dst)
        return sorted_
    kept: Tensor = ops.kept_edges(edge_index, num_src, num_dst, loops)
    return kept


def order(edges: Tensor, num_dst: int) -> Tensor:
    """Return the numbers of the edges in the order in which sorted `edges` has them."""
    return edge_order(edges, num_dst)


def sorted_weight(weight: Tensor, edges: Tensor, num_dst: int) -> Tensor:
    """Return what there is one of for each edge in the order of `edges`."""
    if weight.requires_grad or not in_eager(weight):
        return weight.index_select(0, edge_order(edges, num_dst))
    kept: Tensor = ops.kept_weight(weight, edges, num_dst)
    return kept
