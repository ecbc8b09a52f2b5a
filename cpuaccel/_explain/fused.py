"""Rows of `explain` for layers that `cpuaccel.quant.fuse` fused.

It does not import the modules that fuse: they are loaded already if a model has such layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from torch import nn
from torch.fx import GraphModule

from cpuaccel._explain.explanation import Row
from cpuaccel._explain.layers import FUSED_KERNEL, packed_rows
from cpuaccel.quant._meta import NOTHING_QUANTIZED

_FUSED = "cpuaccel.quant.fused"
_JOIN = " + "


def is_fused(module: nn.Module) -> bool:
    """Return whether `cpuaccel.quant.fuse` put `module` into a model."""
    return type(module).__module__ == _FUSED


def fused_rows(path: str, module: nn.Module) -> Iterator[Row]:
    """Yield the row of a fused module: its packed weights if it has some, else only its ops."""
    ops: Any = getattr(module, "ops", ())
    name = _JOIN.join(ops)
    packed = vars(module).get("_packed_params")
    if packed is None:
        yield Row(path, name, "cpuaccel", reason=FUSED_KERNEL, fused=True)
        return
    for row in packed_rows(path, name, packed):
        yield replace(row, fused=True)


def fused_footer(rows: Iterable[Row], model: nn.Module) -> Iterator[str]:
    """Yield lines that sum up what was fused, if anything was."""
    counts = Counter(row.op for row in rows if row.fused and _JOIN in row.op)
    if counts:
        what = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        yield f"Fused by cpuaccel.quant.fuse: {what}."
    if isinstance(model, GraphModule) and model.meta.get(NOTHING_QUANTIZED):
        yield "cpuaccel.quant.fuse found nothing quantized in this model and did not change it."
