"""Graph neural networks: message passing without a tensor of edge messages, and sampling.

An `edge_index` is as in torch_geometric: int32 or int64, shape [2, E], row 0 the source nodes of
edges and row 1 their destinations. It is sorted once, the order is cached
(`CPUACCEL_INDEX_CACHE_MIB`), and it is sorted again if it has changed. What needs torch_geometric
imports it at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cpuaccel.gnn.accelerate import accelerate, unaccelerate
from cpuaccel.gnn.attention import edge_softmax, gat_attention, gatv2_attention
from cpuaccel.gnn.spmm import gather_scale_reduce, spmm

if TYPE_CHECKING:
    from cpuaccel.gnn.loader import LinkNeighborLoader, NeighborLoader
    from cpuaccel.gnn.sampler import NeighborSampler

__all__ = [
    "LinkNeighborLoader",
    "NeighborLoader",
    "NeighborSampler",
    "accelerate",
    "edge_softmax",
    "gat_attention",
    "gather_scale_reduce",
    "gatv2_attention",
    "spmm",
    "unaccelerate",
]

_OF_PYG = {
    "LinkNeighborLoader": "cpuaccel.gnn.loader",
    "NeighborLoader": "cpuaccel.gnn.loader",
    "NeighborSampler": "cpuaccel.gnn.sampler",
}


def __getattr__(name: str) -> Any:
    module = _OF_PYG.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        importlib.import_module("torch_geometric")
    except ImportError as error:
        raise ImportError(
            f"cpuaccel.gnn.{name} needs PyG: pip install torch_geometric ({error})"
        ) from error
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_PYG})
