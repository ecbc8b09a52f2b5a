"""Rows of `explain` for PyG layers on which `cpuaccel.gnn.accelerate` was called.

It does not import cpuaccel.gnn, which is loaded already if `accelerate` was called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from cpuaccel._explain.explanation import Row

FUSED = "message passing fused (cpuaccel.gnn.accelerate)"


def pyg_rows(path: str, module: nn.Module) -> Iterator[Row]:
    """Yield the row of `module` if `accelerate` changed it, or did not and has a reason."""
    layers: Any = sys.modules.get("cpuaccel.gnn._layers")
    if layers is None:
        return
    if isinstance(module, layers.FastLayer):
        cls = type(module)
        last = layers.last_fallback_reason.get(module, "")
        note = f"last call fell back to torch_geometric: {last}" if last else ""
        yield Row(path, f"pyg.{cls.__name__}", "cpuaccel", cls.kernels, FUSED, note)
        return
    reason = sys.modules["cpuaccel.gnn.accelerate"].not_accelerated_reason(module)
    if reason:
        name = f"pyg.{type(module).__name__}"
        yield Row(path, name, "torch", note=f"not accelerated: {reason}")
