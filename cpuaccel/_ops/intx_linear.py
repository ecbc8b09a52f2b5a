"""Fake kernel of cpuaccel::intx_linear (csrc/ops/intx_linear.h)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops.linear_result import check_int8_matrix, linear_result

_native.load()  # registers the op

_torch: Any = torch  # Any: torch's annotations lack names that are used here


@_torch.library.register_fake("cpuaccel::intx_linear")  # type: ignore[untyped-decorator]
def _intx_linear(
    input: Tensor,
    codes: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    bias: Tensor | None,
    bits: int,
    quantize: bool,
) -> Tensor:
    check_int8_matrix("intx_linear", "codes", codes)
    return linear_result("intx_linear", input, *codes.shape)
