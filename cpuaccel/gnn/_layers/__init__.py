"""torch_geometric's layers on fused ops, without a tensor of edge messages.

`accelerate` changes a layer's class to one of these, which derive from its own class. Its
parameters and attributes stay as they are; only its propagation differs. A call that needs what the
fused ops do not support (hooks, explanations, edge features, attention weights, other kinds of
graphs or dtypes) runs torch_geometric's own code and is counted with its reason.
"""

from __future__ import annotations

from torch import nn

from cpuaccel.gnn._layers.base import FastLayer, change, last_fallback_reason, replaced_method
from cpuaccel.gnn._layers.edge_conv import FastEdgeConv
from cpuaccel.gnn._layers.gat import FastGAT, FastGATv2
from cpuaccel.gnn._layers.gcn_sage_gin import FastGCN, FastGIN, FastGraph, FastSAGE
from cpuaccel.gnn._layers.pna import FastPNA
from cpuaccel.gnn._layers.rgcn import FastRGCN

__all__ = ["FAST", "FastLayer", "change", "last_fallback_reason", "replaced_method"]

_FAST: tuple[type[FastLayer], ...] = (
    *(FastGCN, FastSAGE, FastGIN, FastGraph),
    *(FastGAT, FastGATv2),
    *(FastPNA, FastRGCN, FastEdgeConv),
)
for _cls in _FAST:
    _cls.__name__ = _cls.__qualname__ = _cls.plain_class.__name__

FAST: dict[type[nn.Module], type[FastLayer]] = {cls.plain_class: cls for cls in _FAST}
"""The classes here by torch_geometric's classes."""
