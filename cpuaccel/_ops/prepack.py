"""Fake kernels of the prepacking ops (csrc/ops/prepack): shapes and dtypes of their results."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._compat import check, suggest_memory_format
from cpuaccel._ops.linear_result import linear_result

_native.load()  # registers the ops

_torch: Any = torch  # Any: torch's annotations lack names that are used here


@_torch.library.register_fake("cpuaccel::pack_linear")  # type: ignore[untyped-decorator]
def _pack_linear(weight: Tensor, panel: int, pairs: bool = False) -> Tensor:
    rows, columns = weight.shape
    padded = (rows + panel - 1) // panel * panel
    if pairs:
        depth = _native.load().pairs_depth(columns)
        return weight.new_empty([depth * padded], dtype=torch.int32)
    return weight.new_empty([columns * padded])


@_torch.library.register_fake("cpuaccel::unpack_linear")  # type: ignore[untyped-decorator]
def _unpack_linear(packed: Tensor, panel: int, out_features: int, in_features: int) -> Tensor:
    dtype = torch.bfloat16 if packed.dtype == torch.int32 else packed.dtype  # pairs
    return packed.new_empty([out_features, in_features], dtype=dtype)


@_torch.library.register_fake("cpuaccel::packed_linear")  # type: ignore[untyped-decorator]
def _packed_linear(
    input: Tensor,
    packed: Tensor,
    panel: int,
    out_features: int,
    in_features: int,
    bias: Tensor | None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    return linear_result("packed_linear", input, out_features, in_features)


@_torch.library.register_fake("cpuaccel::packed_convolution")  # type: ignore[untyped-decorator]
def _packed_convolution(
    input: Tensor,
    packed: list[Tensor],
    panel: int,
    weight: list[int],
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    channels_last: bool = False,
) -> Tensor:
    check(
        input.dim() == len(weight) and input.shape[1] == weight[1] * groups,
        lambda: (
            f"cpuaccel::packed_convolution: expected input of {len(weight)} dimensions and "
            f"{weight[1] * groups} channels, got {list(input.shape)}"
        ),
    )
    sides = zip(input.shape[2:], weight[2:], stride, padding, dilation, strict=True)
    image = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sides]
    result = input.new_empty([input.shape[0], weight[0], *image])
    last = channels_last or suggest_memory_format(input) == torch.channels_last
    return result.contiguous(memory_format=torch.channels_last) if last else result


@_torch.library.register_fake("cpuaccel::packed_lstm")  # type: ignore[untyped-decorator]
def _packed_lstm(
    input: Tensor,
    packed_ih: Tensor,
    packed_hh: Tensor,
    panel: int,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    h: Tensor,
    c: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        input.new_empty([*input.shape[:2], h.shape[1]]),
        h.new_empty(h.shape),
        c.new_empty(c.shape),
    )
