"""Sample tensors, the same in every run."""

from __future__ import annotations

import torch
from torch import Tensor

SCALE, ZERO_POINT = 0.05, 100


def values(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Values around 0, with both signs where the dtype has them."""
    generator = torch.Generator().manual_seed(seed)
    if dtype in (torch.quint8, torch.qint8, torch.qint32):
        zero_point = ZERO_POINT if dtype == torch.quint8 else 3
        plain = torch.randn(shape, generator=generator)
        return torch.quantize_per_tensor(plain, SCALE, zero_point, dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=_wide(dtype)).to(dtype)
    low = 0 if dtype == torch.uint8 else -4
    return torch.randint(low, 5, shape, generator=generator).to(dtype)


def index(*shape: int, below: int, seed: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    """Indices from 0 up to `below`, some of them equal."""
    generator = torch.Generator().manual_seed(seed + 100)
    return torch.randint(0, below, shape, generator=generator).to(dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex64 if dtype.is_complex else torch.float32
