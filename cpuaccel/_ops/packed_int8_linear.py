"""Fake kernels of cpuaccel::packed_int8_linear, pack_int8 and unpack_int8 (csrc/ops)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops.linear_result import check_int8_matrix, linear_result

_native.load()  # registers the ops

_torch: Any = torch  # Any: torch's annotations lack names that are used here


@_torch.library.register_fake("cpuaccel::pack_int8")  # type: ignore[untyped-decorator]
def _pack_int8(weight: Tensor) -> Tensor:
    check_int8_matrix("pack_int8", "weight", weight)
    size = _native.load().packed_int8_bytes(*weight.shape)
    return weight.new_empty([size], dtype=torch.uint8)


@_torch.library.register_fake("cpuaccel::unpack_int8")  # type: ignore[untyped-decorator]
def _unpack_int8(packed: Tensor, out_features: int, in_features: int) -> Tensor:
    return packed.new_empty([out_features, in_features], dtype=torch.int8)


@_torch.library.register_fake("cpuaccel::packed_int8_linear")  # type: ignore[untyped-decorator]
def _packed_int8_linear(
    input: Tensor,
    packed: Tensor,
    weight_scale: Tensor,
    bias: Tensor | None,
    out_features: int,
    quantize: str,
    symmetric: bool,
    scale: Tensor | None,
    zero_point: Tensor | None,
    low: int,
    high: int,
) -> Tensor:
    return linear_result("packed_int8_linear", input, out_features, input.shape[-1])
