"""Models as PT2E's workflow leaves them for Inductor on x86.

The input of each layer is quantized, once for all its readers, and dequantized. Weights are int8
with one quantizer for each output channel, and no quantizer follows a layer. nn.Identity marks the
other places of such a pair: on a tensor that is added to a convolution, and, the same one, around a
pool.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cpuaccel import _decomposed_ops  # noqa: F401  # defines torch.ops.quantized_decomposed

_Layer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear

# No sum of two products exceeds 16 bits, because oneDNN may be without VNNI here if an earlier test
# capped it. test_int8_exact tests the whole range.
_HIGHEST = 63


class _Values:
    """Values quantized in the current call: they are quantized once for all readers."""

    def __init__(self) -> None:
        self._codes: list[tuple[Tensor, Tensor]] = []
        self._done: list[Tensor] = []

    def forget(self) -> None:
        """Start another call."""
        self._codes.clear()
        self._done.clear()

    def quantized(self, x: Tensor, scale: float, zero_point: int) -> Tensor:
        if any(x is each for each in self._done):
            return x
        codes = next((codes for each, codes in self._codes if each is x), None)
        if codes is None:
            codes = to_codes(x, scale, zero_point)
            self._codes.append((x, codes))
        self._done.append(from_codes(codes, scale, zero_point))
        return self._done[-1]


class Quantized(nn.Module):
    """Quantizes and dequantizes by the calibrated range, before a layer or alone."""

    def __init__(self, layer: nn.Module, values: _Values) -> None:
        super().__init__()
        self.values = values
        self.low = self.high = 0.0
        self.seeing = True
        self.layer = layer
        if isinstance(layer, _Layer):
            weight = layer.weight.detach()
            scales = weight.abs().amax(tuple(range(1, weight.dim()))) / _HIGHEST
            codes = torch.round(weight / scales.view(-1, *[1] * (weight.dim() - 1)))
            self.register_buffer("weight", codes.to(torch.int8))
            self.register_buffer("scales", scales)
            self.register_buffer("zero_points", torch.zeros(len(scales), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result for quantized values."""
        if self.seeing:
            self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
            return self.layer(x)
        x = self.values.quantized(x, *self._quantizer())
        if not isinstance(self.layer, _Layer):
            return x
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(
            self.weight, self.scales, self.zero_points, 0, -128, 127, torch.int8
        )
        if isinstance(self.layer, nn.Linear):
            return F.linear(x, weight, self.layer.bias)
        return self.layer._conv_forward(x, weight, self.layer.bias)

    def _quantizer(self) -> tuple[float, int]:
        scale = (self.high - self.low) / 255
        return scale, round(-self.low / scale)


def quantize(x: Tensor, scale: float, zero_point: int) -> Tensor:
    """Return `x` rounded to the quantizer's values."""
    return from_codes(to_codes(x, scale, zero_point), scale, zero_point)


def to_codes(x: Tensor, scale: float, zero_point: int) -> Tensor:
    """Return the integers that values are rounded to."""
    q = torch.ops.quantized_decomposed
    return q.quantize_per_tensor(x, scale, zero_point, 0, 255, torch.uint8)


def from_codes(codes: Tensor, scale: float, zero_point: int) -> Tensor:
    """Return the values of integers."""
    q = torch.ops.quantized_decomposed
    return q.dequantize_per_tensor(codes, scale, zero_point, 0, 255, torch.uint8)


def quantized(model: nn.Module, *args: Any) -> nn.Module:
    """Return a copy of `model` calibrated with `args`."""
    model = copy.deepcopy(model).eval()
    made = []
    values = _Values()
    _forget_in_each_call(model, values)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, (*_Layer.__args__, nn.Identity)):
                made.append(Quantized(child, values))
                setattr(parent, name, made[-1])
    model(*args)
    for each in made:
        each.seeing = False
    return model


def _forget_in_each_call(model: nn.Module, values: _Values) -> None:
    model.values = values  # type: ignore[assignment]
    model.__class__ = _forgetting(type(model))


def _forgetting(kind: Any) -> Any:
    """Return a subclass of `kind` whose calls each start with no values."""

    def forward(self: Any, *args: Any) -> Any:
        self.values.forget()
        return kind.forward(self, *args)

    def reduce(self: Any) -> tuple[Any, ...]:
        return _new_forgetting, (kind,), dict(vars(self))

    return type(kind.__name__, (kind,), {"forward": forward, "__reduce__": reduce})


def _new_forgetting(kind: Any) -> Any:
    """Make the module that pickle fills: it finds no class that a function made."""
    made = _forgetting(kind)
    return made.__new__(made)
