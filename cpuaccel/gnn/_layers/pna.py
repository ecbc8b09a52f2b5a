"""PNAConv on fused ops: all aggregations in one pass, without edge messages if possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import aggr

from cpuaccel.gnn import _edges
from cpuaccel.gnn._layers.base import FastLayer, is_matrix
from cpuaccel.gnn._layers.split_network import is_unmodified, split_network
from cpuaccel.gnn._stats import Stats, stats

_LEAST_VARIANCE = 1e-5


def _std(found: Stats, degree: Tensor) -> Tensor:
    # sqrt has no derivative at 0: a variance up to the least is replaced, and its root set to 0.
    root = functional.threshold(found.var, _LEAST_VARIANCE, _LEAST_VARIANCE / 4).sqrt()
    return functional.threshold(root, 0.75 * math.sqrt(_LEAST_VARIANCE), 0.0)


_AGGREGATIONS: dict[type, Callable[[Stats, Tensor], Tensor]] = {
    aggr.MeanAggregation: lambda found, degree: found.mean,
    aggr.SumAggregation: lambda found, degree: found.mean * degree,
    aggr.MinAggregation: lambda found, degree: found.smallest,
    aggr.MaxAggregation: lambda found, degree: found.largest,
    aggr.VarAggregation: lambda found, degree: found.var,
    aggr.StdAggregation: _std,
}
_SCALERS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "identity": lambda of, degree: torch.ones_like(degree),
    "amplification": lambda of, degree: torch.log(degree + 1) / of.avg_deg_log,
    "attenuation": lambda of, degree: of.avg_deg_log / torch.log(degree.clamp(min=1) + 1),
    "linear": lambda of, degree: degree / of.avg_deg_lin,
    "inverse_linear": lambda of, degree: of.avg_deg_lin / degree.clamp(min=1),
}
"""A factor for each node, from the aggregation module and degrees of shape [N, 1]."""


class FastPNA(FastLayer, pyg.PNAConv):  # type: ignore[misc]
    """PNAConv.

    A tower's messages begin with W [x_i, x_j] = A x_i + B x_j: one product per node and end. If
    there is nothing else in them, no edge has a message.
    """

    plain_class = pyg.PNAConv
    kernels = "edge_stats"

    @classmethod
    def unsupported_reason(cls, layer: Any) -> str:
        scaled = layer.aggr_module
        if type(scaled) is not aggr.DegreeScalerAggregation:
            return f"aggregation {scaled}"
        several = scaled.aggr
        if type(several) is not aggr.MultiAggregation or several.mode != "cat":
            return f"aggregation {several}"
        for each in several.aggrs:
            if type(each) not in _AGGREGATIONS:
                return f"aggregation {each}"
            if getattr(getattr(each, "var_aggr", each), "semi_grad", False):
                return f"aggregation {each} with semi_grad"
        if unknown := [name for name in scaled.scaler if name not in _SCALERS]:
            return f"scaler {unknown[0]}"
        return ""

    def forward(self, x: Any, edge_index: Any, edge_attr: Any = None) -> Any:
        if not self._uses_fused_ops(self._call_reason(x, edge_index, edge_attr)):
            return super().forward(x, edge_index, edge_attr)
        me: Any = self
        nodes = x.shape[0]
        towers = x.split(me.F_in, dim=1) if me.divide_input else [x] * me.towers
        edges = _edges.sorted_edges(edge_index, nodes, nodes)
        found = self._message_stats(towers, edges, edge_index, edge_attr)
        degree = _edges.degrees(edges, nodes, x.dtype)[:, None]
        parts = [_AGGREGATIONS[type(each)](found, degree) for each in me.aggr_module.aggr.aggrs]
        scales = [
            None if name == "identity" else _SCALERS[name](me.aggr_module, degree)
            for name in me.aggr_module.scaler
        ]
        outs = []
        for i, (network, features) in enumerate(zip(me.post_nns, towers, strict=True)):
            columns = parts
            if me.towers > 1:
                columns = [part.narrow(1, i * me.F_in, me.F_in) for part in parts]
            reduced = torch.cat(columns, 1)
            outs.append(self._scaled(network, features, reduced, scales))
        return me.lin(_concatenated(outs))

    def _message_stats(
        self, towers: Sequence[Tensor], edges: Tensor, edge_index: Tensor, edge_attr: Any
    ) -> Stats:
        """Return statistics of the messages of all towers, concatenated along features."""
        me: Any = self
        nodes = towers[0].shape[0]
        split: list[Any] = [split_network(network) for network in me.pre_nns]
        of_dst, of_src, *of_edge = zip(
            *(each.first.weight.split(me.F_in, dim=1) for each in split), strict=True
        )
        biases = [each.first.bias for each in split]
        sources = _concatenated([*map(functional.linear, towers, of_src)])
        shift = _concatenated([*map(functional.linear, towers, of_dst, biases)])
        linear = len(me.pre_nns[0]) == 1
        if linear and edge_attr is None:
            return stats(sources, edges, shift, nodes)
        messages = sources.index_select(0, edge_index[0])
        if edge_attr is not None:
            features = me.edge_encoder(edge_attr)
            messages.add_(functional.linear(features, torch.cat(of_edge[0])))
        edges = _edges.edges_of_messages(edges, nodes)
        if linear:
            return stats(messages, edges, shift, nodes)
        messages.add_(shift.index_select(0, edge_index[1]))
        parts = [
            each.rest(messages.narrow(1, i * me.F_in, me.F_in)) for i, each in enumerate(split)
        ]
        return stats(_concatenated(parts), edges, None, nodes)

    def _scaled(
        self, network: Any, x: Tensor, reduced: Tensor, scales: list[Tensor | None]
    ) -> Tensor:
        """Apply `network` to [x, reduced times each scale] without storing these columns.

        A row's factor may also come after the matrix: W [s a] = s (W a).
        """
        split: Any = split_network(network)
        first = split.first
        weights = first.weight.split([x.shape[1]] + [reduced.shape[1]] * len(scales), dim=1)
        out = functional.linear(x, weights[0], first.bias)
        products = functional.linear(reduced, torch.cat(weights[1:]))
        of_scales = torch.split(products, len(first.weight), 1)
        for scale, product in zip(scales, of_scales, strict=True):
            out = out + product if scale is None else torch.addcmul(out, product, scale)
        result: Tensor = split.rest(out)
        return result

    def _call_reason(self, x: Any, edge_index: Any, edge_attr: Any) -> str:
        me: Any = self
        if not _edges.in_eager(edge_index):
            return "compiling, or edge_index is not a plain tensor"
        if not is_matrix(x):
            return "features are not 2-D"
        if (edge_attr is None) != (me.edge_dim is None) or (
            edge_attr is not None and not _are_rows(edge_attr, edge_index.shape[-1], x)
        ):
            return "edge features do not fit the layer"
        if any(split_network(network) is None for network in (*me.pre_nns, *me.post_nns)):
            return "a network does not begin with a plain linear layer"
        if x.shape[1] != me.in_channels or x.dtype != me.lin.weight.dtype:
            return "features do not fit its networks in size or dtype"
        module = me.aggr_module
        kinds = tuple(_AGGREGATIONS)
        if not is_unmodified(module.aggr, (aggr.MultiAggregation,)) or not all(
            is_unmodified(each, kinds) for each in module.aggr.aggrs
        ):
            return "an aggregation has hooks"
        return self._fallback_reason(edge_index, x)


def _are_rows(value: Any, count: int, like: Tensor) -> bool:
    return is_matrix(value) and (
        len(value) == count and value.dtype == like.dtype and value.device == like.device
    )


def _concatenated(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), 1)
