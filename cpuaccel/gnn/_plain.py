"""The same by torch's own ops, with a message for each edge: for what our kernels do not take."""

from __future__ import annotations

import torch
from torch import Tensor


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
