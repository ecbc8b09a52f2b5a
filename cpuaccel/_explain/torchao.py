"""Rows of `explain` for layers whose weights torchao quantized to int8."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from cpuaccel._explain.explanation import Row

_REGISTRATION = "cpuaccel.quant._torchao.int8_weights"


def torchao_rows(path: str, op: str, module: nn.Module) -> Iterator[Row]:
    """Yield the row of `module` if its weight is an Int8Tensor that cpuaccel is registered for."""
    registration: Any = sys.modules.get(_REGISTRATION)  # imported with torchao
    weight: Any = getattr(module, "weight", None)
    if registration is None or not registration.is_int8(weight):
        return
    reason = registration.weight_reason(weight)
    if reason:
        yield Row(path, op, "torch", reason=f"torchao's own function: {reason}")
        return
    weight_only = weight.act_quant_kwargs is None
    yield Row(
        *(path, op, "cpuaccel", "gemm_w8" if weight_only else "qgemm"),
        reason="torchao's int8 weight" + ("" if weight_only else ", int8 activations"),
    )
