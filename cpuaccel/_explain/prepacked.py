"""Rows of `explain` for weights that `cpuaccel.prepack` packed.

It does not import cpuaccel._prepack, which is loaded already if a model has such layers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from cpuaccel._explain.explanation import Row

PACKED = "weights only in packed form (cpuaccel.prepack)"

_NAMES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def prepacked_rows(path: str, module: nn.Module) -> Iterator[Row]:
    """Yield a row for each packed weight of `module` itself."""
    weights: dict[str, Any] = module.__dict__.get("_packed_weights") or {}
    plain: Any = getattr(module, "plain_class", type(module))
    for name, weight in weights.items():
        kind = str(weight.dtype).removeprefix("torch.")
        yield Row(
            path if name == "weight" else f"{path}.{name}".removeprefix("."),
            f"nn.{plain.__name__}",
            "cpuaccel",
            "gemm",
            PACKED,
            problem=f"{_NAMES[kind]} {'x'.join(map(str, weight.shape))}",
            packed_bytes=weight.nbytes,
        )


def not_packed_note(module: nn.Module) -> str:
    """Return the reason why `cpuaccel.prepack` did not pack `module`, or ""."""
    loaded: Any = sys.modules.get("cpuaccel._prepack")
    reason = loaded.not_packed_reason(module) if loaded is not None else ""
    return f"not prepacked: {reason}" if reason else ""
