"""Fake kernel of cpuaccel::kept_linear (csrc/ops/kept_linear.cpp)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native

_native.load()  # registers the op

_torch: Any = torch  # Any: torch's annotations lack names that are used here


@_torch.library.register_fake("cpuaccel::kept_linear")  # type: ignore[untyped-decorator]
def _kept_linear(input: Tensor, weight: Tensor, bias: Tensor | None, function: str) -> Tensor:
    _torch._check(
        input.dim() > 0 and weight.dim() == 2 and input.shape[-1] == weight.shape[1],
        lambda: (
            f"cpuaccel::kept_linear: expected input of {list(weight.shape)[-1:]} features, got "
            f"{list(input.shape)}"
        ),
    )
    return input.new_empty([*input.shape[:-1], weight.shape[0]])
