"""Fake kernels of csrc/ops/prepack: what the ops return, without its values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native

_native.load()  # has the ops

_torch: Any = torch  # whose annotations do not know what is used here


@_torch.library.register_fake("cpuaccel::pack_linear")  # type: ignore[untyped-decorator]
def _pack_linear(weight: Tensor, panel: int) -> Tensor:
    rows, columns = weight.shape
    return weight.new_empty([columns * ((rows + panel - 1) // panel * panel)])


@_torch.library.register_fake("cpuaccel::unpack_linear")  # type: ignore[untyped-decorator]
def _unpack_linear(packed: Tensor, panel: int, out_features: int, in_features: int) -> Tensor:
    return packed.new_empty([out_features, in_features])


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
    _torch._check(
        input.dim() > 0 and input.shape[-1] == in_features,
        lambda: (
            f"cpuaccel::packed_linear: expected input of {in_features} features, got "
            f"{list(input.shape)}"
        ),
    )
    return input.new_empty([*input.shape[:-1], out_features])


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
