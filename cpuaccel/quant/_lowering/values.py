"""What the values of a convert_fx graph become: plain tensors, and what their integers mean."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_LIMITS = {torch.uint8: (0, 255), torch.int8: (-128, 127)}
_PLAIN = {torch.quint8: torch.uint8, torch.qint8: torch.int8}


@dataclass(frozen=True)
class Quantizer:
    """What integers mean: (q - zero_point) * scale."""

    scale: float
    zero_point: int
    dtype: torch.dtype = torch.uint8
    """Of the integers: uint8 or int8."""

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer."""
        return _LIMITS[self.dtype]

    def with_range(self, scale: float, zero_point: int) -> Quantizer:
        """Return one of the same integers that mean something else."""
        return Quantizer(scale, zero_point, self.dtype)


def plain_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """Return the dtype of the integers of a quantized dtype, or None where that has no lowering."""
    return _PLAIN.get(dtype)
