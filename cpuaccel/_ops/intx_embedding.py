"""Fake kernel of cpuaccel::intx_embedding (csrc/ops/embedding/intx_embedding.cpp)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops.linear_result import check_int8_matrix

_native.load()  # registers the op

_torch: Any = torch  # Any: torch's annotations lack names that are used here


@_torch.library.register_fake("cpuaccel::intx_embedding")  # type: ignore[untyped-decorator]
def _intx_embedding(
    codes: Tensor, scale: Tensor, zero_point: Tensor | None, indices: Tensor, dtype: torch.dtype
) -> Tensor:
    check_int8_matrix("intx_embedding", "codes", codes)
    return scale.new_empty([*indices.shape, codes.shape[1]], dtype=dtype)
