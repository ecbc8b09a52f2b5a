"""RGCNConv on fused ops: neighbors are reduced for each pair of a relation and a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch_geometric.nn as pyg
import torch_geometric.typing
from torch import Tensor

from cpuaccel.gnn import _edges
from cpuaccel.gnn._layers.base import INDICES, FastLayer
from cpuaccel.gnn.spmm import reduce_sorted


@dataclass(frozen=True)
class _Group:
    """Consecutive relations, as csrc/ops/gnn/relations.cpp returns them."""

    relations: range
    edges: Tensor
    """The edges that `reduce_sorted` takes, with pairs instead of destination nodes."""
    nodes: Tensor
    """The node of each pair."""
    pairs: list[int]
    """The number of pairs of each relation."""


class FastRGCN(FastLayer, pyg.RGCNConv):  # type: ignore[misc]
    """RGCNConv."""

    plain_class = pyg.RGCNConv
    kernels = "spmm"

    def forward(self, x: Any, edge_index: Any, edge_type: Any = None) -> Any:
        if not self._uses_fused_ops(self._call_reason(x, edge_index, edge_type)):
            return super().forward(x, edge_index, edge_type)
        me: Any = self
        src, dst = x if isinstance(x, tuple) else (x, x)
        sources = me.in_channels_l if src is None else src.shape[0]
        rows = sources if dst is None else dst.shape[0]
        weight = me.weight
        if me.num_bases is not None:
            weight = (me.comp @ weight.view(me.num_bases, -1)).view(-1, *weight.shape[1:])
        out = self._root_and_bias(dst, rows)
        for group in _groups(edge_index, edge_type, sources, rows, me.num_relations, src is None):
            if src is None:
                self._embedded(weight, group, out)
            else:
                self._transformed(src, weight, group, out)
        return out

    def _root_and_bias(self, dst: Any, rows: int) -> Tensor:
        """Return the result without edges: the nodes' own features times `root`, plus the bias."""
        me: Any = self
        bias = me.weight.new_zeros(me.out_channels) if me.bias is None else me.bias
        out: Tensor
        if me.root is None:
            out = bias.repeat(rows, 1)
        elif dst is None:
            out = me.root + bias
        elif dst.is_floating_point():
            out = torch.addmm(bias, dst, me.root)
        else:
            out = me.root[dst].add_(bias)
        return out

    def _transformed(self, x: Tensor, weight: Tensor, group: _Group, out: Tensor) -> None:
        """Add what the edges of `group` contribute: features are reduced, then multiplied."""
        me: Any = self
        reduced = reduce_sorted(x, group.edges, None, len(group.nodes), self._reduction())
        weights = weight.unbind()
        parts = zip(group.relations, torch.split(reduced, group.pairs), strict=True)
        nodes = torch.split(group.nodes, group.pairs)
        for to, (relation, rows) in zip(nodes, parts, strict=True):
            if me.num_blocks is None:
                product = rows @ weights[relation]
            else:
                blocks = torch.unflatten(rows, 1, (me.num_blocks, -1))
                product = torch.einsum("abc,bcd->abd", blocks, weights[relation]).flatten(1)
            out.index_add_(0, to, product)

    def _embedded(self, weight: Tensor, group: _Group, out: Tensor) -> None:
        """The same for one-hot node features, whose products are rows of the weights."""
        table = weight.flatten(0, 1)
        reduced = reduce_sorted(table, group.edges, None, len(group.nodes), self._reduction())
        out.index_add_(0, group.nodes, reduced)

    def _call_reason(self, x: Any, edge_index: Any, edge_type: Any) -> str:
        me: Any = self
        if not _edges.in_eager(edge_index):
            return "compiling, or edge_index is not a plain tensor"
        if (
            not isinstance(edge_type, Tensor)
            or edge_type.dtype not in INDICES
            or edge_type.shape != edge_index.shape[-1:]
        ):
            return "edge_type is not a plain index tensor of shape [E]"
        pair = x if isinstance(x, tuple) else (x, x)
        if len(pair) != 2:
            return "features are not a pair"
        reason = self._features_reason(*pair)
        if not reason and torch_geometric.typing.WITH_SEGMM and self._reduction() != "sum":
            reason = "pyg_lib is installed, with which the layer reduces over all relations at once"
        if not reason and me.weight.dtype != torch.promote_types(
            me.weight.dtype, torch.get_default_dtype()
        ):
            reason = "the result has another dtype than the weights"
        tensors = [t for t in pair if isinstance(t, Tensor) and t.is_floating_point()]
        return reason or self._fallback_reason(edge_index, me.weight, *tensors)

    def _features_reason(self, src: Any, dst: Any) -> str:
        me: Any = self
        if src is None:
            known = dst is None or (isinstance(dst, Tensor) and dst.dtype in INDICES)
            if not known or me.num_blocks is not None:
                return "no source features, with float destination features or with num_blocks"
            return ""
        for features in (src, dst):
            if not isinstance(features, Tensor) or features.dtype != me.weight.dtype:
                return "features are indices, or have another dtype than the weights"
            if features.dim() != 2:
                return "features are not 2-D"
        return ""


def _groups(
    edge_index: Tensor, edge_type: Tensor, sources: int, nodes: int, relations: int, embedded: bool
) -> Iterator[_Group]:
    """Yield groups of all relations; `embedded`: each has its own sources, in turn."""
    cached = torch.ops.cpuaccel.kept_relations(
        edge_index, edge_type, sources, nodes, relations, embedded
    )
    header: list[int] = cached[: 3 * (relations + 1)].tolist()
    first, pairs, entries = (header[i * (relations + 1) :][: relations + 1] for i in range(3))
    node_of = cached[len(header) :]
    begins = [r for r in range(relations) if first[r] == r]
    at = pairs[-1]
    for begin, end in pairwise([*begins, relations]):
        count = pairs[end] - pairs[begin]
        size = count + 1 + 2 * (entries[end] - entries[begin])
        yield _Group(
            range(begin, end),
            node_of[at : at + size],
            node_of[pairs[begin] : pairs[end]],
            [b - a for a, b in pairwise(pairs[begin : end + 1])],
        )
        at += size
