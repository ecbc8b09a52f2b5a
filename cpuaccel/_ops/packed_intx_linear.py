"""Fake kernels of cpuaccel::packed_intx_linear, pack_intx and unpack_intx (csrc/ops)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops.linear_result import check_int8_matrix, linear_result

_native.load()  # registers the ops

_torch: Any = torch  # Any: torch's annotations lack names that are used here

HEADER = 64
"""Bytes of the header: csrc/kernels/gemm_wq/header.h."""

_COLUMNS = 32
"""Of a panel: csrc/kernels/gemm_wq/weights.h, which also has the layout."""


@_torch.library.register_fake("cpuaccel::pack_intx")  # type: ignore[untyped-decorator]
def _pack_intx(codes: Tensor, scale: Tensor, zero_point: Tensor | None, bits: int) -> Tensor:
    check_int8_matrix("pack_intx", "codes", codes)
    (rows, columns), groups = codes.shape, scale.shape[1]
    run = 8 if bits == 4 else 4
    dwords = _COLUMNS * ((columns // groups + run - 1) // run)
    reals = zero_point is not None and zero_point.is_floating_point()
    of_scales = _COLUMNS * (4 if reals else scale.element_size())
    of_zeros = 0 if zero_point is None else of_scales if reals else _COLUMNS
    panel = groups * (4 * dwords + of_scales + of_zeros) + 4 * _COLUMNS
    panels = (rows + _COLUMNS - 1) // _COLUMNS
    return codes.new_empty([HEADER + panels * panel], dtype=torch.uint8)


@_torch.library.register_fake("cpuaccel::unpack_intx")  # type: ignore[untyped-decorator]
def _unpack_intx(packed: Tensor, out_features: int, in_features: int) -> Tensor:
    return packed.new_empty([out_features, in_features], dtype=torch.float32)


@_torch.library.register_fake("cpuaccel::packed_intx_linear")  # type: ignore[untyped-decorator]
def _packed_intx_linear(
    input: Tensor, packed: Tensor, bias: Tensor | None, out_features: int, quantize: bool
) -> Tensor:
    return linear_result("packed_intx_linear", input, out_features, input.shape[-1])
