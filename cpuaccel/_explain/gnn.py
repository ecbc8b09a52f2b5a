"""Rows of `explain` for PyG layers that `cpuaccel.gnn.accelerate` saw. Does not import it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from cpuaccel._explain.explanation import Row

FUSED = "message passing fused (cpuaccel.gnn.accelerate)"


def graph_rows(path: str, module: nn.Module) -> Iterator[Row]:
    """Yield the row of `module` if it is a PyG layer that `accelerate` took or left to torch."""
    layers: Any = sys.modules.get("cpuaccel.gnn._layers")
    if layers is None:
        return
    if isinstance(module, layers.FastLayer):
        cls = type(module)
        last = layers.last_refusal.get(module, "")
        note = f"its last call went torch_geometric's way: {last}" if last else ""
        yield Row(path, f"pyg.{cls.__name__}", "cpuaccel", cls.kernels, FUSED, note)
        return
    why = sys.modules["cpuaccel.gnn.accelerate"].why_left(module)
    if why:
        name = f"pyg.{type(module).__name__}"
        yield Row(path, name, "torch", note=f"not accelerated: {why}")
