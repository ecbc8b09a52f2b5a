"""Fake kernel of cpuaccel::kept_linear (csrc/ops/kept_linear.cpp)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._compat import check
from cpuaccel._ops.linear_result import linear_result

_native.load()  # registers the op

_torch: Any = torch  # Any: torch's annotations lack names that are used here


@_torch.library.register_fake("cpuaccel::kept_linear")  # type: ignore[untyped-decorator]
def _kept_linear(input: Tensor, weight: Tensor, bias: Tensor | None, function: str) -> Tensor:
    check(
        weight.dim() == 2,
        lambda: f"cpuaccel::kept_linear: expected a weight matrix, got {list(weight.shape)}",
    )
    return linear_result("kept_linear", input, *weight.shape)
