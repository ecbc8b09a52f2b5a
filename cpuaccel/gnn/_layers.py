"""torch_geometric's layers with the fused ops in the place of messages.

A layer becomes one of these classes, made from its own, and back. Its parameters and attributes are
left as they are; what it does differently is how it propagates. A call that asks for anything that
fused ops have not (hooks, explanations, edge features, attention weights, other kinds of graphs or
numbers) goes torch_geometric's way, and is counted with its reason.
"""

from __future__ import annotations

import copy
import copyreg
import weakref
from typing import Any, ClassVar

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.nn import aggr

from cpuaccel import _native
from cpuaccel.gnn import _graph
from cpuaccel.gnn.attention import gat_sorted, gatv2_sorted
from cpuaccel.gnn.spmm import reduce_sorted

REDUCTIONS: dict[str, str] = {
    "add": "sum",
    "sum": "sum",
    "mean": "mean",
    "max": "amax",
    "min": "amin",
}
"""Names of aggregations, as torch_geometric has them, and what they are here."""

_AGGREGATIONS = {
    aggr.SumAggregation: "sum",
    aggr.MeanAggregation: "mean",
    aggr.MaxAggregation: "amax",
    aggr.MinAggregation: "amin",
}
_HOOKS = tuple(
    f"_{stage}_forward_{when}"
    for stage in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for when in ("pre_hooks", "hooks")
)
_METHODS = (
    "forward",
    "propagate",
    "message",
    "aggregate",
    "update",
    "edge_update",
    "edge_updater",
)
_INDICES = (torch.int32, torch.int64)

last_refusal: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
"""Why the last call of a layer went torch_geometric's way; "" if it did not."""


class FastLayer(nn.Module):
    """What all layers here have. A pickled one is torch_geometric's, a copied one is like it."""

    plain_class: ClassVar[type[nn.Module]]
    kernels: ClassVar[str]
    """Families of kernels that it runs on."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        made = super().__reduce_ex__(protocol)
        # What object.__reduce__ of the plain class gives: nothing of ours is asked for to load it.
        return copyreg._reconstructor, (self.plain_class, object, None), *made[2:]  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> FastLayer:
        made: Any = self.plain_class.__new__(self.plain_class)
        memo[id(self)] = made
        state = self.__getstate__()  # type: ignore[no-untyped-call]
        made.__setstate__(copy.deepcopy(state, memo))
        made.__class__ = type(self)
        result: FastLayer = made
        return result

    @classmethod
    def why_not(cls, layer: Any) -> str:
        """Return why `layer`, of the plain class, cannot become one of these, or ""."""
        if not isinstance(layer.aggr, str) or layer.aggr not in REDUCTIONS:
            return f"aggregation {layer.aggr}"
        if type(layer.aggr_module) not in _AGGREGATIONS:
            return f"aggregation {layer.aggr_module}"
        return ""

    def _taken(self, why: str) -> bool:
        if torch.compiler.is_compiling():
            return not why
        last_refusal[self] = why
        if why and (native := _native.native()) is not None:
            native.count_fallback(f"gnn.{type(self).__name__}", why)
        return not why

    def _refusal(self, edge_index: object, *tensors: Tensor | None) -> str:
        """Return why a call goes torch_geometric's way, or ""."""
        me: Any = self
        if not _graph.takes(*tensors):
            return "cpuaccel is off, or not float32 or float64 on the CPU"
        if torch.is_autocast_enabled("cpu"):
            return "autocast"
        if (
            not isinstance(edge_index, Tensor)
            or (type(edge_index) is not Tensor and not torch.compiler.is_compiling())
            or edge_index.layout != torch.strided
            or edge_index.dtype not in _INDICES
            or edge_index.dim() != 2
            or edge_index.shape[0] != 2
        ):
            return "not a plain edge_index"
        if not self._ordinary():
            return "explain or decomposed layers"
        if any(getattr(me, name) for name in _HOOKS) or me.aggr_module._forward_hooks:
            return "hooks"
        if me.flow != "source_to_target":
            return "flow from target to source"
        if torch._C._get_tracing_state() is not None:
            return "tracing"
        return ""

    def _ordinary(self) -> bool:
        me: Any = self
        return not me.explain and me.decomposed_layers == 1

    def _reduction(self) -> str:
        me: Any = self
        return _AGGREGATIONS[type(me.aggr_module)]


class Propagates(FastLayer):
    """Layers whose messages are features of nodes, scaled at most by a number for each edge."""

    kernels = "spmm"

    def propagate(self, edge_index: Any, size: Any = None, **kwargs: Any) -> Any:
        x, weight = kwargs.get("x"), kwargs.get("edge_weight")
        src, dst = x if isinstance(x, tuple | list) else (x, x)
        why = self._shapes(src, dst, size, weight, edge_index)
        if not self._taken(why or self._refusal(edge_index, src, weight)):
            plain: Any = super()
            if not torch.compiler.is_compiling() and not self._ordinary():
                plain = self.plain_class
                return plain._orig_propagate(self, edge_index, size=size, **kwargs)
            return plain.propagate(edge_index, size=size, **kwargs)
        rows = src.shape[0] if dst is None else dst.shape[0]
        if size is not None and size[1] is not None:
            rows = size[1]
        edges = _graph.sorted_edges(edge_index, src.shape[0], rows)
        if weight is not None:
            weight = _graph.sorted_weight(weight, edges, rows)
        return reduce_sorted(src, edges, weight, rows, self._reduction())

    # What torch_geometric takes from a class where explanations are switched on and off again.
    _orig_propagate = _jinja_propagate = propagate

    def _shapes(self, src: Any, dst: Any, size: Any, weight: Any, edge_index: Any) -> str:
        me: Any = self
        if not isinstance(src, Tensor) or src.dim() != 2 or me.node_dim not in (-2, 0):
            return "features of other than two dimensions"
        if dst is not None and (not isinstance(dst, Tensor) or dst.dim() != 2):
            return "features of other than two dimensions"
        if size is not None:
            known = [src.shape[0], None if dst is None else dst.shape[0]]
            if any(
                a is not None and b is not None and a != b for a, b in zip(size, known, strict=True)
            ):
                return "sizes that do not agree"
        if weight is not None and (
            not isinstance(weight, Tensor)
            or weight.dtype != src.dtype
            or weight.dim() != 1
            or not isinstance(edge_index, Tensor)
            or weight.shape[0] != edge_index.shape[-1]
        ):
            return "weights that are not a number of x's type for each edge"
        return ""


class FastSAGE(Propagates, pyg.SAGEConv):  # type: ignore[misc]
    """SAGEConv."""

    plain_class = pyg.SAGEConv


class FastGIN(Propagates, pyg.GINConv):  # type: ignore[misc]
    """GINConv."""

    plain_class = pyg.GINConv


class FastGraph(Propagates, pyg.GraphConv):  # type: ignore[misc]
    """GraphConv."""

    plain_class = pyg.GraphConv


class FastGCN(Propagates, pyg.GCNConv):  # type: ignore[misc]
    """GCNConv. The normalised graph is kept by the edge_index that it was made of."""

    plain_class = pyg.GCNConv

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        # A layer that caches keeps its first graph; it is still fused, in propagate.
        if not self.normalize or self.cached or not _graph.in_eager(edge_index):
            return super().forward(x, edge_index, edge_weight)
        why = self._shapes(x, None, None, edge_weight, edge_index)
        if not why and edge_weight is not None and edge_weight.requires_grad:
            why = "weights of edges that learn"
        if not self._taken(why or self._refusal(edge_index, x, edge_weight)):
            return super().forward(x, edge_index, edge_weight)
        me: Any = self
        nodes, loops = x.shape[0], bool(me.add_self_loops)
        edges = _graph.sorted_edges(edge_index, nodes, nodes, nodes if loops else None)
        # Without weights of edges torch_geometric's loops are ones, improved or not.
        fill = 2.0 if me.improved and edge_weight is not None else 1.0
        weight = torch.ops.cpuaccel.kept_gcn_weight(
            edge_index, edge_weight, edges, nodes, loops, fill, x.dtype
        )
        out = reduce_sorted(me.lin(x), edges, weight, nodes, self._reduction())
        return out if me.bias is None else out + me.bias


class _Attends(FastLayer):
    """GATConv and GATv2Conv: what their calls have in common."""

    kernels = "edge_softmax, edge_heads"

    @classmethod
    def why_not(cls, layer: Any) -> str:
        if type(layer.aggr_module) is not aggr.SumAggregation:
            return f"aggregation {layer.aggr_module}"
        return ""

    def _unusual(self, x: Any, edge_index: Any, edge_attr: Any, returned: Any) -> str:
        if edge_attr is not None:
            return "edge features"
        if returned is not None:
            return "attention weights are asked for"
        if not _graph.in_eager(edge_index):
            return "compiling, or not a plain edge_index"
        pair = x if isinstance(x, tuple | list) else (x, x)
        if len(pair) != 2 or any(not isinstance(t, Tensor) or t.dim() != 2 for t in pair):
            return "features of other than two dimensions"
        return self._refusal(edge_index, *pair)

    def _edges(self, edge_index: Tensor, sources: int, nodes: int) -> Tensor:
        me: Any = self
        loops = min(sources, nodes) if me.add_self_loops else None
        return _graph.sorted_edges(edge_index, sources, nodes, loops)

    def _finished(self, out: Tensor, x_dst: Tensor) -> Tensor:
        """The heads side by side, or their mean; then what is added."""
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


class FastGAT(_Attends, pyg.GATConv):  # type: ignore[misc]
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
        why = self._unusual(x, edge_index, edge_attr, return_attention_weights)
        if not self._taken(why or ("a size" if size is not None else "")):
            return super().forward(x, edge_index, edge_attr, size, return_attention_weights)
        me: Any = self
        src, dst = x if isinstance(x, tuple | list) else (x, x)
        heads = (-1, me.heads, me.out_channels)
        if me.lin is not None:
            x_src = me.lin(src).view(heads)
            x_dst = x_src if dst is src else me.lin(dst).view(heads)
        else:
            x_src, x_dst = me.lin_src(src).view(heads), me.lin_dst(dst).view(heads)
        edges = self._edges(edge_index, x_src.shape[0], x_dst.shape[0])
        scores = (x_src * me.att_src).sum(-1), (x_dst * me.att_dst).sum(-1)
        out = gat_sorted(x_src, *scores, edges, me.negative_slope, self._dropout())
        return self._finished(out, dst)


class FastGATv2(_Attends, pyg.GATv2Conv):  # type: ignore[misc]
    """GATv2Conv."""

    plain_class = pyg.GATv2Conv

    def forward(
        self, x: Any, edge_index: Any, edge_attr: Any = None, return_attention_weights: Any = None
    ) -> Any:
        why = self._unusual(x, edge_index, edge_attr, return_attention_weights)
        if not self._taken(why):
            return super().forward(x, edge_index, edge_attr, return_attention_weights)
        me: Any = self
        src, dst = x if isinstance(x, tuple | list) else (x, x)
        heads = (-1, me.heads, me.out_channels)
        x_src = me.lin_l(src).view(heads)
        shared = me.share_weights and dst is src
        x_dst = x_src if shared else me.lin_r(dst).view(heads)
        edges = self._edges(edge_index, x_src.shape[0], x_dst.shape[0])
        att = me.att[0]
        out = gatv2_sorted(x_src, x_dst, att, edges, me.negative_slope, self._dropout())
        return self._finished(out, dst)


_FAST: tuple[type[FastLayer], ...] = (FastGCN, FastSAGE, FastGIN, FastGraph, FastGAT, FastGATv2)
for _cls in _FAST:
    _cls.__name__ = _cls.__qualname__ = _cls.plain_class.__name__


def change(layer: nn.Module, cls: type[nn.Module]) -> None:
    """Make `layer` one of `cls`, which is its plain class or the fast one."""
    layer.__class__ = cls
    # Left by explanations and decompositions: that of the class it had.
    if "propagate" in vars(layer):
        me: Any = layer
        del me.propagate
        if me.explain or me.decomposed_layers != 1:
            me.propagate = me._orig_propagate


def replaced(layer: nn.Module) -> str:
    """Return the name of a method of `layer` that somebody replaced, or ""."""
    mine = ("_orig_propagate", "_jinja_propagate")
    for name in _METHODS:
        value: Any = vars(layer).get(name)
        known = [getattr(type(layer), each, None) for each in mine if name == "propagate"]
        if value is not None and getattr(value, "__func__", value) not in known:
            return name
    return ""


FAST: dict[type[nn.Module], type[FastLayer]] = {cls.plain_class: cls for cls in _FAST}
"""The classes here by those of torch_geometric."""
