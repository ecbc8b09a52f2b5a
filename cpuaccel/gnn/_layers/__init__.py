"""torch_geometric's layers with the fused ops in the place of messages.

A layer becomes one of these classes, made from its own, and back. Its parameters and attributes are
left as they are; what it does differently is how it propagates. A call that asks for anything that
fused ops have not (hooks, explanations, edge features, attention weights, other kinds of graphs or
numbers) goes torch_geometric's way, and is counted with its reason.
"""

from __future__ import annotations

from torch import nn

from cpuaccel.gnn._layers.attends import FastGAT, FastGATv2
from cpuaccel.gnn._layers.base import FastLayer, change, last_refusal, replaced
from cpuaccel.gnn._layers.edge_conv import FastEdgeConv
from cpuaccel.gnn._layers.pna import FastPNA
from cpuaccel.gnn._layers.propagates import FastGCN, FastGIN, FastGraph, FastSAGE
from cpuaccel.gnn._layers.rgcn import FastRGCN

__all__ = ["FAST", "FastLayer", "change", "last_refusal", "replaced"]

_FAST: tuple[type[FastLayer], ...] = (
    *(FastGCN, FastSAGE, FastGIN, FastGraph),
    *(FastGAT, FastGATv2),
    *(FastPNA, FastRGCN, FastEdgeConv),
)
for _cls in _FAST:
    _cls.__name__ = _cls.__qualname__ = _cls.plain_class.__name__

FAST: dict[type[nn.Module], type[FastLayer]] = {cls.plain_class: cls for cls in _FAST}
"""The classes here by those of torch_geometric."""
