"""Edges sorted by destination, the order in which the GNN kernels read them."""

from __future__ import annotations

import torch
from torch import Tensor

from cpuaccel import _engine_state, _transforms

try:
    from cpuaccel._ops.edge_ops import edge_order, edges_count, ops
    from cpuaccel._ops.fused_gnn import max_edges as max_edges

    _HAS_OPS = True
except RuntimeError:  # the compiled module cannot run here; torch's ops run instead
    _HAS_OPS = False

_TYPES = (torch.float32, torch.float64)


def unsupported_reason(*tensors: Tensor | None) -> str:
    """Return the reason why the kernels do not support these tensors now, or ""."""
    compiling = torch.compiler.is_compiling()
    if (
        not (_engine_state.on if compiling else _engine_state.is_enabled())
        or not _HAS_OPS
        or not all(
            tensor is None or (tensor.dtype in _TYPES and tensor.device.type == "cpu")
            for tensor in tensors
        )
    ):
        return "cpuaccel is off, or tensors are not float32 or float64 on the CPU"
    # Compiled code calls the ops, which check this themselves (`_ops.derivatives`).
    return "" if compiling or not _transforms.transformed() else _transforms.REASON


def supports(*tensors: Tensor | None) -> bool:
    """Return whether the kernels support these tensors now."""
    return not unsupported_reason(*tensors)


def in_eager(tensor: Tensor) -> bool:
    """Return whether `tensor` has values now: nothing is being traced or compiled."""
    return type(tensor) is Tensor and not torch.compiler.is_compiling()


def sorted_edges(
    edge_index: Tensor, num_src: int, num_dst: int, loops: int | None = None
) -> Tensor:
    """Return the edges sorted by destination, as torch.ops.cpuaccel.edge_sum takes them.

    With `loops`, for eager calls only, loops are removed and each of the first `loops` nodes gets
    one, after the other edges, as in torch_geometric's `add_self_loops`.

    In compiled code this returns `edge_index`: the ops look up its order themselves, because a
    compiled graph might mutate a cached tensor.
    """
    if loops is None and not in_eager(edge_index):
        return edge_index
    edges: Tensor = ops.kept_edges(edge_index, num_src, num_dst, loops)
    return edges


def order(edges: Tensor, num_dst: int) -> Tensor:
    """Return the positions in the edge_index of the sorted `edges`."""
    return edge_order(edges, num_dst)


def degrees(edges: Tensor, num_dst: int, dtype: torch.dtype) -> Tensor:
    """Return how many of the sorted `edges` end in each node."""
    return edges[: num_dst + 1].diff().to(dtype)


def sources(edges: Tensor, num_dst: int) -> Tensor:
    """Return the source nodes of sorted `edges`."""
    return edges[num_dst + 1 :][: edges_count(edges, num_dst)]


def edges_of_messages(edges: Tensor, num_dst: int) -> Tensor:
    """Return sorted `edges` whose sources are the edges' numbers, to reduce a row per edge."""
    perm = edge_order(edges, num_dst)
    return torch.cat([edges[: num_dst + 1], perm, perm])


def in_order(values: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    """Return per-edge `values` in the order of `edges`."""
    if edges.dim() == 2:
        result: Tensor = ops.edge_values(values, edges, num_src, num_dst)
        return result
    return values.index_select(0, edge_order(edges, num_dst))


def sorted_weight(weight: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    """Return `weight` in the order of `edges`, cached if it does not require gradients."""
    if weight.requires_grad or edges.dim() == 2 or not in_eager(weight):
        return in_order(weight, edges, num_src, num_dst)
    cached: Tensor = ops.kept_weight(weight, edges, num_dst)
    return cached


def unsorted(values: Tensor, edges: Tensor, num_src: int, num_dst: int) -> Tensor:
    """Return `values`, which are in the order of `edges`, in the order of the edge_index."""
    if edges.dim() == 2:
        back: Tensor = ops.edge_values(values, edges, num_src, num_dst, True)
        return back
    return torch.empty_like(values).index_copy(0, order(edges, num_dst).long(), values)
