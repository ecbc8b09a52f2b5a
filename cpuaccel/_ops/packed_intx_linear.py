"""Fake kernels of cpuaccel::packed_intx_linear, pack_intx and unpack_intx (csrc/ops)."""

from __future__ import annotations

from collections.abc import Sequence
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
    reals = zero_point is not None and zero_point.is_floating_point()
    of_scale = 4 if reals else scale.element_size()
    of_zero = 0 if zero_point is None else of_scale if reals else 1
    size = HEADER + panel_bytes(codes.shape, scale.shape[1], bits, of_scale, of_zero)
    return codes.new_empty([size], dtype=torch.uint8)


def panel_bytes(
    shape: Sequence[int], groups: int, bits: int, scale_bytes: int, zero_bytes: int
) -> int:
    """Return the bytes of a packed weight's panels, with a scale and a zero point for each group.

    Args:
        shape: Of the weight: out_features, in_features.
        groups: Of a row.
        bits: Of a code: 4 or 8.
        scale_bytes: Of a scale.
        zero_bytes: Of a zero point; 0 if there are none.
    """
    rows, columns = shape
    run = 8 if bits == 4 else 4
    dwords = (columns // groups + run - 1) // run
    column = groups * (4 * dwords + scale_bytes + zero_bytes) + 4
    return (rows + _COLUMNS - 1) // _COLUMNS * _COLUMNS * column


@_torch.library.register_fake("cpuaccel::unpack_intx")  # type: ignore[untyped-decorator]
def _unpack_intx(packed: Tensor, out_features: int, in_features: int) -> Tensor:
    return packed.new_empty([out_features, in_features], dtype=torch.float32)


@_torch.library.register_fake("cpuaccel::packed_intx_linear")  # type: ignore[untyped-decorator]
def _packed_intx_linear(
    input: Tensor, packed: Tensor, bias: Tensor | None, out_features: int, quantize: bool
) -> Tensor:
    return linear_result("packed_intx_linear", input, out_features, input.shape[-1])
