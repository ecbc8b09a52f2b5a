"""EdgeConv on fused ops: the first layer of its network runs for each node, not for each edge."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn import functional

from cpuaccel.gnn import _graph
from cpuaccel.gnn._layers.base import FastLayer
from cpuaccel.gnn._layers.contrast import working_dtype
from cpuaccel.gnn._layers.linear import Apart, is_plain, taken_apart
from cpuaccel.gnn._stats import extreme
from cpuaccel.gnn.spmm import reduce_sorted

# Edges times features. The fused form has more calls, of some microseconds each. With one thread on
# Zen 4, torch_geometric's own forward took 0.7 to 0.9 times as long as the fused form below this,
# and 1.1 times (1000 edges of 32 features) to 8 times as long above it.
LEAST_WORK = 16384
# The same if edges have messages anyway and nothing learns: 0.7 to 1.2 times at 65,536, 1.06 times
# and more above this.
LEAST_WORK_OF_MESSAGES = 98304
TOO_LITTLE = "so few edges that torch_geometric's own forward is faster"


class FastEdgeConv(FastLayer, pyg.EdgeConv):  # type: ignore[misc]
    """EdgeConv.

    W [x_i, x_j - x_i] = (A - B) x_i + B x_j with W = [A, B]: one product per node and end. If
    nothing follows, or what follows may also run after the reduction, no edge has a message.
    Otherwise the rest of the network gets the messages, sorted by destination unless it may depend
    on their order. Features that are large compared to their differences are computed in float64
    (contrast.py).
    """

    plain_class = pyg.EdgeConv
    kernels = "edge_stats, spmm"

    @classmethod
    def why_not(cls, layer: Any) -> str:
        if taken_apart(layer.nn) is None:
            return "its nn does not begin with a plain linear layer"
        return super().why_not(layer)

    def forward(self, x: Any, edge_index: Any) -> Any:
        pair = x if isinstance(x, tuple | list) else (x, x)
        me: Any = self
        apart: Any = None
        # These checks come first: what follows takes as long as a small call.
        why = self._shape_refusal(pair, edge_index)
        if not why:
            apart = taken_apart(me.nn)
            why = self._why(apart, pair, edge_index)
        if not self._taken(why):
            return super().forward(x, edge_index)
        src, dst = pair
        own, other = apart.first.weight.split(src.shape[1], dim=1)
        edges = _graph.sorted_edges(edge_index, src.shape[0], dst.shape[0])
        dtype = working_dtype(src, dst, edges, own, other)
        if dtype is None:
            self._taken("features far larger than their differences, or not finite")
            return super().forward(x, edge_index)
        bias = apart.first.bias
        of_src = functional.linear(src.to(dtype), other.to(dtype))
        of_dst = functional.linear(
            dst.to(dtype), own.to(dtype) - other.to(dtype), None if bias is None else bias.to(dtype)
        )
        if (slopes := self._slopes(apart)) is not None:
            out = self._reduced(of_src, of_dst, edges).to(src.dtype)
            for slope in slopes:
                out = functional.leaky_relu(out, slope)
            return out
        begin, end = edge_index[0], edge_index[1]
        if not apart.ordered:
            begin = _graph.begins(edges, dst.shape[0])
            end = _graph.sorted_weight(end, edges, src.shape[0], dst.shape[0])
        messages = of_src.index_select(0, begin).add_(of_dst.index_select(0, end)).to(src.dtype)
        return me.aggregate(apart.rest(messages), end.long(), None, dst.shape[0])

    def _slopes(self, apart: Apart) -> list[float] | None:
        """Return the following functions' slopes below 0, if these may run after the reduction.

        An extreme stays the extreme under functions that do not decrease. If a function makes
        messages equal, its derivative there is 0.
        """
        if not apart.modules:
            return None if apart.modules is None else []
        if self._reduction() not in ("amax", "amin"):
            return None
        slopes = [_slope(module) for module in apart.modules]
        return [slope for slope in slopes if slope is not None] if None not in slopes else None

    def _reduced(self, of_src: Tensor, of_dst: Tensor, edges: Tensor) -> Tensor:
        rows, reduce = of_dst.shape[0], self._reduction()
        if reduce in ("amax", "amin"):
            return extreme(of_src, edges, of_dst, rows, reduce)
        times = _graph.degrees(edges, rows, of_dst.dtype)
        if reduce == "mean":
            times = times.clamp_(max=1)
        return torch.addcmul(
            reduce_sorted(of_src, edges, None, rows, reduce), of_dst, times[:, None]
        )

    def _shape_refusal(self, pair: Any, edge_index: Any) -> str:
        if not _graph.in_eager(edge_index):
            return "compiling, or not a plain edge_index"
        if len(pair) != 2 or any(not isinstance(t, Tensor) or t.dim() != 2 for t in pair):
            return "features of other than two dimensions"
        return TOO_LITTLE if _work(pair, edge_index) < LEAST_WORK else ""

    def _why(self, apart: Apart | None, pair: Any, edge_index: Any) -> str:
        me: Any = self
        if apart is None:
            return "its nn does not begin with a plain linear layer"
        if me.node_dim != -2:
            return "another dimension of nodes"
        weight = apart.first.weight
        if any(2 * t.shape[1] != weight.shape[1] or t.dtype != weight.dtype for t in pair):
            return "features that its nn does not take"
        learns = torch.is_grad_enabled() and any(t.requires_grad for t in (*pair, weight))
        if (
            not learns
            and _work(pair, edge_index) < LEAST_WORK_OF_MESSAGES
            and self._slopes(apart) is None
        ):
            return TOO_LITTLE
        return self._refusal(edge_index, *pair)


def _work(pair: Any, edge_index: Any) -> float:
    """Return edges times features; infinity if edge_index is not 2-D, which `_refusal` checks."""
    return edge_index.shape[1] * pair[0].shape[1] if edge_index.dim() == 2 else math.inf


def _slope(module: Any) -> float | None:
    if is_plain(module, (nn.ReLU,)):
        return 0.0
    if is_plain(module, (nn.LeakyReLU,)) and module.negative_slope >= 0:
        return float(module.negative_slope)
    return None
