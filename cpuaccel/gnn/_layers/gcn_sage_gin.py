"""GCNConv, SAGEConv, GINConv and GraphConv on fused ops: messages are scaled features."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from cpuaccel.gnn import _edges
from cpuaccel.gnn._layers.base import FastLayer, is_matrix, pair_of
from cpuaccel.gnn.spmm import gcn_reduce, reduce_sorted


class PropagatingLayer(FastLayer):
    """Layers whose messages are node features, scaled at most by a number for each edge."""

    kernels = "spmm"

    def propagate(self, edge_index: Any, size: Any = None, **kwargs: Any) -> Any:
        x, weight = kwargs.get("x"), kwargs.get("edge_weight")
        src, dst = pair_of(x)
        reason = self._shape_reason(src, dst, size, weight, edge_index)
        if not self._uses_fused_ops(reason or self._fallback_reason(edge_index, src, weight)):
            plain: Any = super()
            if not torch.compiler.is_compiling() and not self._in_normal_mode():
                plain = self.plain_class
                return plain._orig_propagate(self, edge_index, size=size, **kwargs)
            return plain.propagate(edge_index, size=size, **kwargs)
        rows = src.shape[0] if dst is None else dst.shape[0]
        if size is not None and size[1] is not None:
            rows = size[1]
        edges = _edges.sorted_edges(edge_index, src.shape[0], rows)
        if weight is not None:
            weight = _edges.sorted_weight(weight, edges, src.shape[0], rows)
        return reduce_sorted(src, edges, weight, rows, self._reduction())

    # torch_geometric takes these from the class when explanations are switched on and off.
    _orig_propagate = _jinja_propagate = propagate

    def _shape_reason(self, src: Any, dst: Any, size: Any, weight: Any, edge_index: Any) -> str:
        me: Any = self
        if not is_matrix(src) or me.node_dim not in (-2, 0):
            return "features are not 2-D"
        if dst is not None and not is_matrix(dst):
            return "features are not 2-D"
        if size is not None:
            known = [src.shape[0], None if dst is None else dst.shape[0]]
            if any(
                a is not None and b is not None and a != b for a, b in zip(size, known, strict=True)
            ):
                return "size does not match the features"
        if weight is not None and (
            not isinstance(weight, Tensor)
            or weight.dtype != src.dtype
            or weight.dim() != 1
            or not isinstance(edge_index, Tensor)
            or weight.shape[0] != edge_index.shape[-1]
        ):
            return "edge weights are not one number of x's dtype for each edge"
        return ""


class FastSAGE(PropagatingLayer, pyg.SAGEConv):  # type: ignore[misc]
    """SAGEConv."""

    plain_class = pyg.SAGEConv


class FastGIN(PropagatingLayer, pyg.GINConv):  # type: ignore[misc]
    """GINConv."""

    plain_class = pyg.GINConv


class FastGraph(PropagatingLayer, pyg.GraphConv):  # type: ignore[misc]
    """GraphConv."""

    plain_class = pyg.GraphConv


class FastGCN(PropagatingLayer, pyg.GCNConv):  # type: ignore[misc]
    """GCNConv. The normalized graph is cached by the edge_index that it was made from."""

    plain_class = pyg.GCNConv

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        # A layer that caches keeps its first graph. It is still fused, in propagate, and so are
        # extremes in compiled code.
        extreme = self._reduction() in ("amax", "amin")
        if not self.normalize or self.cached or (extreme and torch.compiler.is_compiling()):
            return super().forward(x, edge_index, edge_weight)
        reason = self._shape_reason(x, None, None, edge_weight, edge_index)
        if not reason and edge_weight is not None and edge_weight.requires_grad:
            reason = "edge weights require gradients"
        if not self._uses_fused_ops(reason or self._fallback_reason(edge_index, x, edge_weight)):
            return super().forward(x, edge_index, edge_weight)
        me: Any = self
        loops = bool(me.add_self_loops)
        # Without edge weights torch_geometric's loops are ones, improved or not.
        fill = 2.0 if me.improved and edge_weight is not None else 1.0
        out = gcn_reduce(me.lin(x), edge_index, edge_weight, loops, fill, self._reduction())
        return out if me.bias is None else out + me.bias
