"""A linear layer whose weight has 4 or 8 bits and is held in packed form only."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cpuaccel._ops import packed_intx_linear as _fake_kernels  # noqa: F401

__all__ = ["IntxLinear"]

_HEADER = struct.Struct("<8sIBBBxqqq24x")
"""csrc/kernels/gemm_wq/header.h."""


class _Header(NamedTuple):
    magic: bytes
    version: int
    bits: int
    scales: int
    zeros: int
    out_features: int
    in_features: int
    group_size: int


def _header_of(packed: Tensor) -> _Header:
    return _Header(*_HEADER.unpack(bytes(packed[: _HEADER.size].tolist())))


def _needed(zero_point: Tensor | None) -> Tensor | None:
    """Return None for integers that are all zero."""
    integers = zero_point is not None and not zero_point.is_floating_point()
    if integers and not zero_point.any():  # type: ignore[union-attr]
        return None
    return zero_point


_PART = 512
"""Rows that `pack_by_parts` packs at a time, a multiple of a panel's."""


def pack_by_parts(
    codes_of: Callable[[int, int], Tensor], scale: Tensor, zero_point: Tensor | None, bits: int
) -> Tensor:
    """Return what `cpuaccel::pack_intx` returns, of codes that exist for some rows at a time.

    Args:
        codes_of: ``codes_of(first, last)`` returns the codes of rows ``first`` to ``last``.
        scale: As in `IntxLinear.from_codes`; zero_point and bits likewise.
    """
    zero_point = _needed(zero_point)
    rows = len(scale)
    packed: Tensor | None = None
    for first in range(0, rows, _PART):
        last = min(first + _PART, rows)
        zeros = None if zero_point is None else zero_point[first:last]
        part = torch.ops.cpuaccel.pack_intx.default(
            codes_of(first, last), scale[first:last], zeros, bits
        )
        if packed is None:
            if last == rows:
                return part  # type: ignore[no-any-return]
            panels = part.numel() - _HEADER.size  # of _PART rows
            packed = part.new_empty(_HEADER.size + panels // _PART * (-(-rows // 32) * 32))
            whole = _HEADER.pack(*_header_of(part)._replace(out_features=rows))
            packed[: _HEADER.size] = torch.tensor(list(whole), dtype=torch.uint8)
        begin = _HEADER.size + first // _PART * panels
        packed[begin : begin + part.numel() - _HEADER.size] = part[_HEADER.size :]
    assert packed is not None
    return packed


class IntxLinear(nn.Module):
    """``y = x W^T + bias`` with ``W[n, k] = (codes[n, k] - zero_point[n, g]) * scale[n, g]``.

    ``g = k // group_size``. The weight is held once, packed as cpuaccel's kernels read it: the
    buffer ``packed``, a vector of uint8 that is the same on all CPUs and that a state dict holds.
    The class runs on CPUs, in eager mode, `torch.compile` and `torch.export`. Gradients flow to
    the input and the bias.

    ``order`` is an index of the input's features, or None: the layer reads ``x[..., order]``.
    GPTQ's act-order is such an index.

    Source: csrc/ops/packed_intx_linear.h has the formula and the arithmetic.
    """

    packed: Tensor
    order: Tensor | None

    def __init__(
        self,
        packed: Tensor,
        bias: Tensor | None = None,
        *,
        order: Tensor | None = None,
        int8_activations: bool = False,
    ) -> None:
        """Make a layer of a packed weight; `from_codes` packs one.

        Args:
            packed: What `cpuaccel::pack_intx` returned.
            bias: A vector of out_features floats.
            order: int64, a permutation of range(in_features).
            int8_activations: Round each row of the input to int8, as torchao's dynamic int8
                layers do: integer products, which are faster from some rows on.
        """
        super().__init__()
        self.register_buffer("packed", packed)
        self.register_buffer("order", order)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.int8_activations = int8_activations
        header = self._header()
        self.in_features, self.out_features = header.in_features, header.out_features

    @classmethod
    def from_codes(
        cls,
        codes: Tensor,
        scale: Tensor,
        zero_point: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        bits: int,
        order: Tensor | None = None,
        int8_activations: bool = False,
    ) -> IntxLinear:
        """Pack a weight and make its layer.

        Args:
            codes: int8, (out_features, in_features): -8 to 7 for 4 bits.
            scale: float32, bfloat16 or float16, (out_features, groups); groups divides in_features
                into groups of a multiple of 8, or is 1.
            zero_point: Of scale's shape: integers of the codes' range, or floats.
            bias: A vector of out_features floats.
            bits: 4 or 8.
            order: As in the constructor; column k of codes belongs to feature order[k].
            int8_activations: As in the constructor.

        Raises:
            RuntimeError: an argument has another shape, type or value; the message names it.
        """
        packed = torch.ops.cpuaccel.pack_intx.default(codes, scale, _needed(zero_point), bits)
        return cls(packed, bias, order=order, int8_activations=int8_activations)

    @property
    def bits(self) -> int:
        """Of a code: 4 or 8."""
        return self._header().bits

    @property
    def group_size(self) -> int:
        """Columns that have the same scale."""
        return self._header().group_size

    def dequantize(self) -> Tensor:
        """Return the weight W as float32, (out_features, in_features), columns in x's order."""
        weight: Tensor = torch.ops.cpuaccel.unpack_intx.default(
            self.packed, self.out_features, self.in_features
        )
        return weight if self.order is None else weight[:, self.order.argsort()]

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer of `input`, (..., in_features), in its dtype."""
        if self.order is not None:
            input = input.index_select(-1, self.order)
        result: Tensor = torch.ops.cpuaccel.packed_intx_linear.default(
            input, self.packed, self.bias, self.out_features, self.int8_activations
        )
        return result

    def extra_repr(self) -> str:
        """Return what `repr` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bits={self.bits}, "
            f"group_size={self.group_size}, bias={self.bias is not None}, "
            f"order={self.order is not None}, int8_activations={self.int8_activations}"
        )

    def _header(self) -> _Header:
        packed = self.packed
        if packed.dtype != torch.uint8 or packed.dim() != 1 or packed.numel() < _HEADER.size:
            raise ValueError(
                "expected packed to be the vector of uint8 that cpuaccel::pack_intx returned, but "
                f"got {packed.dtype} of shape {tuple(packed.shape)}"
            )
        return _header_of(packed)
