"""Fake kernels of cpuaccel::saved_linear and weight_to_bytes (csrc/ops/prepack)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops.linear_result import linear_result

_native.load()  # registers the ops

_torch: Any = torch  # Any: torch's annotations lack names that are used here

HEADER = 64
"""Bytes of a weight's header: csrc/ops/prepack/weight_bytes.h."""


@_torch.library.register_fake("cpuaccel::weight_to_bytes")  # type: ignore[untyped-decorator]
def _weight_to_bytes(weight: Tensor, panel: int) -> Tensor:
    rows, columns = weight.shape
    padded = (rows + panel - 1) // panel * panel
    size = HEADER + padded * columns * weight.element_size()
    return weight.new_empty([size], dtype=torch.uint8)


@_torch.library.register_fake("cpuaccel::saved_linear")  # type: ignore[untyped-decorator]
def _saved_linear(
    input: Tensor,
    bytes: Tensor,
    out_features: int,
    in_features: int,
    bias: Tensor | None,
    function: str,
) -> Tensor:
    return linear_result("saved_linear", input, out_features, in_features)
