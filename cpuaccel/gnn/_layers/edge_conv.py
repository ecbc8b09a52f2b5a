"""EdgeConv on fused ops: the first layer of its network runs for each node, not for each edge."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn import functional

from cpuaccel.gnn import _edges
from cpuaccel.gnn._layers.base import FastLayer, is_matrix, pair_of
from cpuaccel.gnn._layers.edge_conv_precision import working_dtype
from cpuaccel.gnn._layers.split_network import SplitNetwork, is_unmodified, split_network
from cpuaccel.gnn._stats import extreme
from cpuaccel.gnn.spmm import reduce_sorted

# Edges times features. The fused form has more calls, of some microseconds each. With one thread on
# Zen 4, torch_geometric's own forward took 0.7 to 0.9 times as long as the fused form below this,
# and 1.1 times (1000 edges of 32 features) to 8 times as long above it.
LEAST_WORK = 16384
# The same if edges have messages anyway and nothing learns: 0.7 to 1.2 times at 65,536, 1.06 times
# and more above this.
LEAST_WORK_OF_MESSAGES = 98304
TOO_FEW_EDGES = "too few edges: torch_geometric's own forward is faster"


class FastEdgeConv(FastLayer, pyg.EdgeConv):  # type: ignore[misc]
    """EdgeConv.

    W [x_i, x_j - x_i] = (A - B) x_i + B x_j with W = [A, B]: one product per node and end. If
    nothing follows, or what follows may also run after the reduction, no edge has a message.
    Otherwise the rest of the network gets the messages, sorted by destination unless it may depend
    on their order. Features that are large compared to their differences are computed in float64
    (edge_conv_precision.py).
    """

    plain_class = pyg.EdgeConv
    kernels = "edge_stats, spmm"

    @classmethod
    def unsupported_reason(cls, layer: Any) -> str:
        if split_network(layer.nn) is None:
            return "its nn does not begin with a plain linear layer"
        return super().unsupported_reason(layer)

    def forward(self, x: Any, edge_index: Any) -> Any:
        pair = pair_of(x)
        me: Any = self
        split: Any = None
        # These checks come first, because the rest takes as long as a small call.
        reason = self._shape_reason(pair, edge_index)
        if not reason:
            split = split_network(me.nn)
            reason = self._call_reason(split, pair, edge_index)
        if not self._uses_fused_ops(reason):
            return super().forward(x, edge_index)
        src, dst = pair
        weight_a, weight_b = split.first.weight.split(src.shape[1], dim=1)
        edges = _edges.sorted_edges(edge_index, src.shape[0], dst.shape[0])
        dtype = working_dtype(src, dst, edges, weight_a, weight_b)
        if dtype is None:
            self._uses_fused_ops("features are far larger than their differences, or not finite")
            return super().forward(x, edge_index)
        bias = split.first.bias
        of_src = functional.linear(src.to(dtype), weight_b.to(dtype))
        of_dst = functional.linear(
            dst.to(dtype),
            weight_a.to(dtype) - weight_b.to(dtype),
            None if bias is None else bias.to(dtype),
        )
        if (slopes := self._slopes(split)) is not None:
            out = self._reduced(of_src, of_dst, edges).to(src.dtype)
            for slope in slopes:
                out = functional.leaky_relu(out, slope)
            return out
        begin, end = edge_index[0], edge_index[1]
        if not split.ordered:
            begin = _edges.sources(edges, dst.shape[0])
            end = _edges.sorted_weight(end, edges, src.shape[0], dst.shape[0])
        messages = of_src.index_select(0, begin).add_(of_dst.index_select(0, end)).to(src.dtype)
        return me.aggregate(split.rest(messages), end.long(), None, dst.shape[0])

    def _slopes(self, split: SplitNetwork) -> list[float] | None:
        """Return the slopes, for negative inputs, of the activations after the first layer.

        None if these must run before the reduction. A maximum stays the maximum under functions
        that do not decrease, and so does a minimum. If a function makes messages equal, its
        derivative there is 0.
        """
        if not split.modules:
            return None if split.modules is None else []
        if self._reduction() not in ("amax", "amin"):
            return None
        slopes = [_slope(module) for module in split.modules]
        return [slope for slope in slopes if slope is not None] if None not in slopes else None

    def _reduced(self, of_src: Tensor, of_dst: Tensor, edges: Tensor) -> Tensor:
        rows, reduce = of_dst.shape[0], self._reduction()
        if reduce in ("amax", "amin"):
            return extreme(of_src, edges, of_dst, rows, reduce)
        times = _edges.degrees(edges, rows, of_dst.dtype)
        if reduce == "mean":
            times = times.clamp_(max=1)
        return torch.addcmul(
            reduce_sorted(of_src, edges, None, rows, reduce), of_dst, times[:, None]
        )

    def _shape_reason(self, pair: Any, edge_index: Any) -> str:
        if not _edges.in_eager(edge_index):
            return "compiling, or edge_index is not a plain tensor"
        if len(pair) != 2 or any(not is_matrix(t) for t in pair):
            return "features are not 2-D"
        return TOO_FEW_EDGES if _work(pair, edge_index) < LEAST_WORK else ""

    def _call_reason(self, split: SplitNetwork | None, pair: Any, edge_index: Any) -> str:
        me: Any = self
        if split is None:
            return "its nn does not begin with a plain linear layer"
        if me.node_dim != -2:
            return "node_dim is not -2"
        weight = split.first.weight
        if any(2 * t.shape[1] != weight.shape[1] or t.dtype != weight.dtype for t in pair):
            return "features do not fit its nn in size or dtype"
        learns = torch.is_grad_enabled() and any(t.requires_grad for t in (*pair, weight))
        if (
            not learns
            and _work(pair, edge_index) < LEAST_WORK_OF_MESSAGES
            and self._slopes(split) is None
        ):
            return TOO_FEW_EDGES
        return self._fallback_reason(edge_index, *pair)


def _work(pair: Any, edge_index: Any) -> float:
    """Return edges times features; infinity if edge_index is not 2-D, which is checked later."""
    return edge_index.shape[1] * pair[0].shape[1] if edge_index.dim() == 2 else math.inf


def _slope(module: Any) -> float | None:
    if is_unmodified(module, (nn.ReLU,)):
        return 0.0
    if is_unmodified(module, (nn.LeakyReLU,)) and module.negative_slope >= 0:
        return float(module.negative_slope)
    return None
