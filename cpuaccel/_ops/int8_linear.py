"""Fake kernel of cpuaccel::int8_linear (csrc/ops/int8_linear.h)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops.linear_result import check_int8_matrix, linear_result

_native.load()  # registers the op

_torch: Any = torch  # Any: torch's annotations lack names that are used here


@_torch.library.register_fake("cpuaccel::int8_linear")  # type: ignore[untyped-decorator]
def _int8_linear(
    input: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero_point: Tensor | None,
    bias: Tensor | None,
    quantize: str,
    symmetric: bool,
    scale: Tensor | None,
    zero_point: Tensor | None,
    low: int,
    high: int,
) -> Tensor:
    check_int8_matrix("int8_linear", "weight", weight)
    return linear_result("int8_linear", input, *weight.shape)
