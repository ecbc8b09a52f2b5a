"""Quantizer: scale, zero point and dtype of the integers that replace a quantized tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_LIMITS = {torch.uint8: (0, 255), torch.int8: (-128, 127)}
_PLAIN = {"torch.quint8": torch.uint8, "torch.qint8": torch.int8}
"""By name, because torch will remove its quantized dtypes."""


@dataclass(frozen=True)
class Quantizer:
    """What integers mean: (q - zero_point) * scale."""

    scale: float
    zero_point: int
    dtype: torch.dtype = torch.uint8
    """Dtype of the integers: uint8 or int8."""

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        return _LIMITS[self.dtype]

    def with_range(self, scale: float, zero_point: int) -> Quantizer:
        """Return a quantizer that gives the same integers another meaning."""
        return Quantizer(scale, zero_point, self.dtype)


def plain_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """Return the dtype of a quantized dtype's integers, or None if it has no lowering.

    The dtypes of integers stand for themselves.
    """
    return dtype if dtype in _LIMITS else _PLAIN.get(str(dtype))
