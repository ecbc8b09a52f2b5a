"""Attention layers on fused ops: GATConv and GATv2Conv."""

from __future__ import annotations

from typing import Any

import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn import aggr

from cpuaccel.gnn._layers.base import FastLayer, is_matrix, pair_of
from cpuaccel.gnn.attention import gat_sum, gatv2_sum, head_scores


class _AttentionLayer(FastLayer):
    """The common part of GATConv and GATv2Conv."""

    kernels = "edge_softmax, edge_heads"

    @classmethod
    def unsupported_reason(cls, layer: Any) -> str:
        if type(layer.aggr_module) is not aggr.SumAggregation:
            return f"aggregation {layer.aggr_module}"
        return ""

    def _call_reason(self, x: Any, edge_index: Any, edge_attr: Any, returned: Any) -> str:
        if edge_attr is not None:
            return "edge features"
        if returned is not None:
            return "attention weights are requested"
        pair = pair_of(x)
        if len(pair) != 2 or any(not is_matrix(t) for t in pair):
            return "features are not 2-D"
        return self._fallback_reason(edge_index, *pair)

    def _output(self, out: Tensor, x_dst: Tensor) -> Tensor:
        """Concatenate the heads or average them, then add residual and bias."""
        me: Any = self
        out = out.flatten(1) if me.concat else out.mean(dim=1)
        if me.res is not None:
            out = out + me.res(x_dst)
        if me.bias is not None:
            out = out + me.bias
        return out

    def _dropout(self) -> float:
        me: Any = self
        return float(me.dropout) if self.training else 0.0


class FastGAT(_AttentionLayer, pyg.GATConv):  # type: ignore[misc]
    """GATConv."""

    plain_class = pyg.GATConv

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_attr: Any = None,
        size: Any = None,
        return_attention_weights: Any = None,
    ) -> Any:
        reason = self._call_reason(x, edge_index, edge_attr, return_attention_weights)
        if not self._uses_fused_ops(reason or ("size is given" if size is not None else "")):
            return super().forward(x, edge_index, edge_attr, size, return_attention_weights)
        me: Any = self
        src, dst = pair_of(x)
        heads = (-1, me.heads, me.out_channels)
        if me.lin is not None:
            x_src = me.lin(src).view(heads)
            x_dst = x_src if dst is src else me.lin(dst).view(heads)
        else:
            x_src, x_dst = me.lin_src(src).view(heads), me.lin_dst(dst).view(heads)
        scores = head_scores(x_src, me.att_src[0]), head_scores(x_dst, me.att_dst[0])
        loops, slope = bool(me.add_self_loops), me.negative_slope
        out = gat_sum(x_src, *scores, edge_index, loops, slope, self._dropout())
        return self._output(out, dst)


class FastGATv2(_AttentionLayer, pyg.GATv2Conv):  # type: ignore[misc]
    """GATv2Conv."""

    plain_class = pyg.GATv2Conv

    def forward(
        self, x: Any, edge_index: Any, edge_attr: Any = None, return_attention_weights: Any = None
    ) -> Any:
        reason = self._call_reason(x, edge_index, edge_attr, return_attention_weights)
        if not self._uses_fused_ops(reason):
            return super().forward(x, edge_index, edge_attr, return_attention_weights)
        me: Any = self
        src, dst = pair_of(x)
        heads = (-1, me.heads, me.out_channels)
        x_src = me.lin_l(src).view(heads)
        shared = me.share_weights and dst is src
        x_dst = x_src if shared else me.lin_r(dst).view(heads)
        loops, slope, att = bool(me.add_self_loops), me.negative_slope, me.att[0]
        out = gatv2_sum(x_src, x_dst, att, edge_index, loops, slope, self._dropout())
        return self._output(out, dst)
