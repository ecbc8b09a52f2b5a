"""Fake kernel of cpuaccel::intx_linear (csrc/ops/intx_linear.h)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._compat import check
from cpuaccel._ops.linear_result import linear_result

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
    check(
        codes.dim() == 2 and codes.dtype == torch.int8,
        lambda: (
            f"cpuaccel::intx_linear: expected codes to be an int8 matrix, got {codes.dtype} of"
            f" shape {list(codes.shape)}"
        ),
    )
    return linear_result("intx_linear", input, *codes.shape)
