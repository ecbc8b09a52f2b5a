"""Edges in the order in which the kernels take them."""

from __future__ import annotations

import torch
from torch import Tensor

from cpuaccel import _transforms
from cpuaccel.quant import engine

try:
    from cpuaccel._ops.gnn import edge_order, edges_count, ops
    from cpuaccel._ops.graph import most_edges as most_edges

    _HAS_OPS = True
except RuntimeError:  # the compiled module cannot run here; everything is torch's then
    _HAS_OPS = False

_TYPES = (torch.float32, torch.float64)


def why_not(*tensors: Tensor | None) -> str:
    """Return why the kernels do not run on such tensors, or ""."""
    compiling = torch.compiler.is_compiling()
    if (
        not (engine.on if compiling else engine.is_enabled())
        or not _HAS_OPS
        or not all(
            tensor is None or (tensor.dtype in _TYPES and tensor.device.type == "cpu")
            for tensor in tensors
        )
    ):
        return "cpuaccel is off, or not float32 or float64 on the CPU"
    # What is compiled has the ops, which ask themselves (`_ops.derivatives`).
    return "" if compiling or not _transforms.transformed() else _transforms.REASON


def takes(*tensors: Tensor | None) -> bool:
    """Return whether the kernels run on such tensors."""
    return not why_not(*tensors)


def in_eager(tensor: Tensor) -> bool:
    """Return whether `tensor` has values now: nothing is being traced or compiled."""
    return type(tensor) is Tensor and not torch.compiler.is_compiling()


def sorted_edges(
    edge_index: Tensor, num_src: int, num_dst: int, loops: int | None = None
) -> Tensor:
    """Return the edges in the order of their destinations, as torch.ops.cpuaccel.edge_sum takes.

    With `loops`, which is for eager calls only, loops are left out and each of the first `loops`
    nodes has one, behind the others, as torch_geometric's `add_self_loops` has it.

    While something is compiled they are the edge_index: the ops look its order up themselves. A
    compiled graph might write to what is kept.
    """
    if loops is None and not in_eager(edge_index):
        return edge_index
    kept: Tensor = ops.kept_edges(edge_index, num_src, num_dst, loops)
    return kept


def order(edges: Tensor, num_dst: int) -> Tensor:
    """Return the numbers of the edges in the order of sorted `edges`, which is no edge_index."""
    return edge_order(edges, num_dst)


def degrees(edges: Tensor, num_dst: int, dtype: torch.dtype) -> Tensor:
    """Return how many of sorted `edges` end in each node."""
    return edges[: num_dst + 1].diff().to(dtype)


def begins(edges: Tensor, num_dst: int) -> Tensor:
    """Return the nodes in which sorted `edges` begin."""
    return edges[num_dst + 1 :][: edges_count(edges, num_dst)]


def edges_of_messages(edges: Tensor, num_dst: int) -> Tensor:
    """Return sorted `edges`, each from its number: to reduce what there is a row of for each."""
    perm = edge_order(edges, num_dst)
    return torch.cat([edges[: num_dst + 1], perm, perm])


def in_order(values: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    """Return what there is one of for each edge in the order that `edges` stands for."""
    if edges.dim() == 2:
        result: Tensor = ops.edge_values(values, edges, num_src, num_dst)
        return result
    return values.index_select(0, edge_order(edges, num_dst))


def sorted_weight(weight: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    """Return the same, for the next time too where it does not learn."""
    if weight.requires_grad or edges.dim() == 2 or not in_eager(weight):
        return in_order(weight, edges, num_src, num_dst)
    kept: Tensor = ops.kept_weight(weight, edges, num_dst)
    return kept


def unsorted(values: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    """Return what is in that order in the order of the edge_index."""
    if edges.dim() == 2:
        back: Tensor = ops.edge_values(values, edges, num_src, num_dst, True)
        return back
    return torch.empty_like(values).index_copy(0, order(edges, num_dst).long(), values)
