"""Graph neural networks. What needs PyG (torch_geometric) imports it when it is first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpuaccel.gnn.loader import LinkNeighborLoader, NeighborLoader
    from cpuaccel.gnn.sampler import NeighborSampler

__all__ = ["LinkNeighborLoader", "NeighborLoader", "NeighborSampler"]

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
