"""A linear layer whose int8 weight is held in packed form only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel._ops import packed_int8_linear as _fake_kernels  # noqa: F401

__all__ = ["Int8Linear", "Rounding"]

_KERNEL = slice(12, 40)
"""The bytes of a packed weight that say which kernel reads it (csrc/kernels/qgemm/block.h)."""


@dataclass(frozen=True)
class Rounding:
    """How rows of the input become int8; csrc/ops/int8_linear.h has the formulas.

    Attributes:
        rows: "none", "row" (a scale for each row), "tensor" (one for all rows), or "given".
        symmetric: Whether zero points are 0.
        low: The least integer.
        high: The largest integer.
        scale: With "given", the scale: one element, or one for each row.
        zero_point: With "given", the zero point likewise, or None.
    """

    rows: str = "none"
    symmetric: bool = True
    low: int = -128
    high: int = 127
    scale: Tensor | None = None
    zero_point: Tensor | None = None


class Int8Linear(nn.Module):
    """``y = x W^T + bias`` with ``W[n, k] = weight[n, k] * weight_scale[n]`` and int8 ``weight``.

    Rows of x are rounded to int8 as `Rounding` says. The weight is held once, packed as the kernel
    of this CPU reads it: the buffer ``packed``, a vector of uint8. A state dict and a pickle hold
    that vector; where they are loaded, it is packed anew if the CPU has another kernel. The class
    runs on CPUs, in eager mode, `torch.compile` and `torch.export`. Gradients flow to the input and
    the bias.

    Source: csrc/ops/packed_int8_linear.h has the formula and the arithmetic.
    """

    packed: Tensor
    weight_scale: Tensor
    pre_scale: Tensor | None
    scale: Tensor | None
    zero_point: Tensor | None

    def __init__(
        self,
        weight: Tensor,
        weight_scale: Tensor,
        bias: Tensor | None = None,
        *,
        rounding: Rounding | None = None,
        pre_scale: Tensor | None = None,
    ) -> None:
        """Pack a weight and make its layer.

        Args:
            weight: int8, (out_features, in_features).
            weight_scale: Floats: one element, or out_features.
            bias: A vector of out_features floats.
            rounding: Of the rows of x. Default: they stay floats.
            pre_scale: What x is multiplied by before it is rounded (SmoothQuant), in_features.

        Raises:
            RuntimeError: weight is no int8 matrix on the CPU.
        """
        super().__init__()
        rounding = rounding or Rounding()
        self.out_features, self.in_features = weight.shape
        self.rows, self.symmetric = rounding.rows, rounding.symmetric
        self.low, self.high = rounding.low, rounding.high
        self.register_buffer("packed", torch.ops.cpuaccel.pack_int8.default(weight))
        self.register_buffer("weight_scale", weight_scale)
        self.register_buffer("pre_scale", pre_scale)
        self.register_buffer("scale", rounding.scale)
        self.register_buffer("zero_point", rounding.zero_point)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)

    @property
    def int8_activations(self) -> bool:
        """Whether rows of the input are rounded to int8."""
        return self.rows != "none"

    def dequantize(self) -> Tensor:
        """Return the weight W as float32, (out_features, in_features)."""
        plain = torch.ops.cpuaccel.unpack_int8.default(
            self.packed, self.out_features, self.in_features
        )
        weight: Tensor = plain.float() * self.weight_scale.float().reshape(-1, 1)
        return weight

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer of `input`, (..., in_features), in its dtype."""
        if self.pre_scale is None:
            return self._linear(input)
        dtype = input.dtype
        input = input * self.pre_scale
        return (
            self._linear(input) if input.dtype == dtype else self._linear(input.float()).to(dtype)
        )

    def _linear(self, input: Tensor) -> Tensor:
        result: Tensor = torch.ops.cpuaccel.packed_int8_linear.default(
            *(input, self.packed, self.weight_scale, self.bias, self.out_features),
            *(self.rows, self.symmetric, self.scale, self.zero_point, self.low, self.high),
        )
        return result

    def extra_repr(self) -> str:
        """Return what `repr` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, rows={self.rows!r}, symmetric={self.symmetric}"
        )

    def _for_this_cpu(self, packed: Tensor) -> Tensor:
        """Return a packed weight of this layer's shape for the kernel that this CPU runs."""
        if packed.device.type != "cpu":
            return packed
        here = torch.ops.cpuaccel.pack_int8.default(torch.zeros(1, 1, dtype=torch.int8))
        if torch.equal(packed[_KERNEL], here[_KERNEL]):
            return packed
        shape = self.out_features, self.in_features
        plain = torch.ops.cpuaccel.unpack_int8.default(packed, *shape)
        return torch.ops.cpuaccel.pack_int8.default(plain)  # type: ignore[no-any-return]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        name = f"{prefix}packed"
        if name in state_dict:
            state_dict = dict(state_dict) | {name: self._for_this_cpu(state_dict[name])}
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.packed = self._for_this_cpu(self.packed)
