"""A decoder in higher precision, as the reference of `compare`: float32 or float64.

A quantized decoder computes in float64 between its quantizers: weights are what their codes mean,
and rows are rounded to int8 by torchao's formulas.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


def exact(model: Any, number_format: str, error: float = 0.0) -> Any:
    """Return a copy of a model of `_decoders.in_format` that computes with higher precision.

    Args:
        model: The model.
        number_format: Its format.
        error: The largest relative error that results of modules get, at random but the same in
            each call. That of float32 shows how far a model carries the rounding of its engine.
    """
    wide = copy.deepcopy(model)
    for module in list(wide.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear) and hasattr(child.weight, "qdata"):
                setattr(module, name, _ExactLinear(child))
    wide = wide.to(torch.float32 if number_format in ("bf16", "f16") else torch.float64)
    if error:
        noise = _Noise(error)
        for module in wide.modules():
            module.register_forward_hook(noise)
    return wide


class _ExactLinear(nn.Module):
    """A linear layer of torchao in float64."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.quantized = _quantizer(linear.weight)
        self.weight = nn.Parameter(_meant(linear.weight), requires_grad=False)
        self.bias = linear.bias

    def forward(self, rows: Tensor) -> Tensor:
        return nn.functional.linear(self.quantized(rows), self.weight, self.bias)


def _meant(weight: Any) -> Tensor:
    """Return the numbers that the codes of a weight mean, in float64."""
    rows, columns = weight.qdata.shape
    scale = weight.scale.double().reshape(rows, -1, 1)
    codes = weight.qdata.double().reshape(rows, scale.shape[1], -1)
    if weight.zero_point is not None:
        codes = codes - weight.zero_point.double().reshape(rows, -1, 1)
    return (codes * scale).reshape(rows, columns)


def _quantizer(weight: Any) -> Any:
    """Return a function that rounds rows as a layer with this weight does."""
    if getattr(weight, "act_quant_kwargs", None) is not None:
        return _symmetric
    if getattr(weight, "activation_quantization", None) is not None:
        return _asymmetric
    return _same


# torchao's functions of the same formulas take no float64.


def _symmetric(rows: Tensor) -> Tensor:
    """Round each row to int8 with zero as its middle."""
    scale = (rows.abs().amax(-1, keepdim=True) / 127.5).clamp(min=_LEAST_SCALE)
    return (rows / scale).round().clamp(-128, 127) * scale


def _asymmetric(rows: Tensor) -> Tensor:
    """Round each row to int8 from its smallest number, or zero, to its largest one."""
    low = rows.amin(-1, keepdim=True).clamp(max=0)
    high = rows.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255).clamp(min=_LEAST_SCALE)
    zero = (-128 - (low / scale).round()).clamp(-128, 127)
    codes = ((rows / scale).round() + zero).clamp(-128, 127)
    return (codes - zero) * scale


def _same(rows: Tensor) -> Tensor:
    return rows


_LEAST_SCALE = torch.finfo(torch.float32).eps


class _Noise:
    """A hook that changes each float64 result of a module by a random relative error."""

    def __init__(self, error: float) -> None:
        self._error = error
        self._random = torch.Generator().manual_seed(0)

    def __call__(self, module: Any, args: Any, result: Any) -> Any:
        if not isinstance(result, Tensor) or result.dtype != torch.float64:
            return None
        draws = torch.rand(result.shape, generator=self._random, dtype=torch.float64)
        return result * (1 + self._error * (2 * draws - 1))
