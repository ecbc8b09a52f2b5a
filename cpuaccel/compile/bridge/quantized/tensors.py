"""Recognizes quantize and dequantize nodes, and reads their scale and zero point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel._compat import disable_current_modes, quantized_decomposed

_decomposed = quantized_decomposed()

QUANTIZE = _decomposed.quantize_per_tensor.default
DEQUANTIZE = _decomposed.dequantize_per_tensor.default
DEQUANTIZE_CHANNELS = _decomposed.dequantize_per_channel.default
QUANTIZE_BY_TENSORS = _decomposed.quantize_per_tensor.tensor
DEQUANTIZE_BY_TENSORS = _decomposed.dequantize_per_tensor.tensor
CHOOSE = _decomposed.choose_qparams.tensor

CODES = 256


@dataclass(frozen=True)
class Quantizer:
    """real = (value - zero_point) * scale, of uint8."""

    scale: float
    zero_point: int

    def attributes(self, name: str) -> dict[str, Any]:
        """Return it as the attributes of an op."""
        return {f"{name}_scale": self.scale, f"{name}_zero_point": self.zero_point}

    def real(self) -> Tensor:
        """Return the real values of the codes 0 to 255."""
        with disable_current_modes():
            codes = torch.arange(CODES, dtype=torch.float32)
            return (codes - self.zero_point) * self.scale

    def codes(self, real: Tensor) -> Tensor:
        """Quantize float32, as quantize_per_tensor does."""
        with disable_current_modes():
            # torch's kernels multiply by the inverse too.
            steps = torch.round(real * (1.0 / self.scale)) + self.zero_point
            return torch.clamp(torch.nan_to_num(steps, nan=255.0), 0, 255).to(torch.uint8)


def is_quantize(node: Any) -> bool:
    """Say whether a node quantizes float32 to 0..255 of uint8, with a constant quantizer."""
    return (
        isinstance(node, Node) and node.target is QUANTIZE and _full_uint8(node) and _floats(node)
    )


def is_dequantize(node: Any) -> bool:
    """Say whether a node is the inverse of `is_quantize`."""
    return (
        isinstance(node, Node)
        and node.target is DEQUANTIZE
        and _full_uint8(node)
        and node.meta["val"].dtype == torch.float32
    )


def quantizer_of(node: Node) -> Quantizer:
    """Return the quantizer of a quantize or dequantize node."""
    scale: Any = node.args[1]
    zero_point: Any = node.args[2]
    return Quantizer(float(scale), int(zero_point))


def source_of(dequantize: Node) -> Node:
    """Return the integers that a node dequantizes, or the tensor that it quantizes."""
    (source,) = (node for node in dequantize.args[:1] if isinstance(node, Node))
    return source


def _full_uint8(node: Node) -> bool:
    if len(node.args) < 6 or any(isinstance(each, Node) for each in node.args[1:]):
        return False
    scale: Any
    zero_point: Any
    scale, zero_point, lowest, highest, dtype = node.args[1:6]
    return bool(
        (lowest, highest, dtype) == (0, 255, torch.uint8)
        and scale > 0
        and 0 <= zero_point <= highest
    )


def has_constant_quantizer(node: Any) -> bool:
    """Say whether a node quantizes float32 to, or dequantizes to it, int8 or uint8 by numbers.

    Its integers may be a part of those of the dtype.
    """
    if not isinstance(node, Node) or node.target not in (QUANTIZE, DEQUANTIZE):
        return False
    if len(node.args) < 6 or any(isinstance(each, Node) for each in node.args[1:]):
        return False
    scale, _, lowest, highest, dtype = _quantizer_arguments(node)
    if dtype not in (torch.uint8, torch.int8) or not scale > 0:
        return False
    limits = torch.iinfo(dtype)
    if not limits.min <= lowest < highest <= limits.max:
        return False
    return _floats(node) if node.target is QUANTIZE else node.meta["val"].dtype == torch.float32


def _quantizer_arguments(node: Node) -> tuple[Any, ...]:
    """Return scale, zero point, limits and dtype."""
    return node.args[1:6]


def _floats(node: Node) -> bool:
    value = source_of(node).meta.get("val")
    return isinstance(value, Tensor) and value.dtype == torch.float32
