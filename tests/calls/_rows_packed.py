"""Rows of quantized layers with packed weights, and of the ops that pack them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from calls._row import Row, Sample
from calls._values import values

Q = torch.ops.quantized
_TO = (0.2, 60)
_KEY = ("QuantizedCPU",)
_OVERLOADS = {"conv2d": ".new", "conv3d": ".new"}
_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
Samples = Callable[[torch.dtype], Sequence[Sample]]


def _weight(*shape: int) -> Tensor:
    """Weights for which sums of two products with a byte fit 16 bits."""
    plain = values(*shape, dtype=torch.float32, seed=1).clamp(-1.2, 1.2)
    return torch.quantize_per_tensor(plain, 0.02, 0, torch.qint8)


def _pack_linear(space: Any = Q) -> Any:
    return space.linear_prepack(_weight(24, 40), values(24, dtype=torch.float32, seed=2))


def _pack_conv(name: str, dims: int, space: Any = Q) -> Any:
    spread, none = [1] * dims, [0] * dims
    bias = values(16, dtype=torch.float32, seed=2)
    lists = (spread, spread, none, spread) if "transpose" in name else (spread, spread, spread)
    return getattr(space, name)(_weight(16, 16, *[3] * dims), bias, *lists, 1)


def _linear_samples(*more: Any) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        packed = _pack_linear()
        return [
            Sample((values(17, 40, dtype=dtype), packed, *more)),
            Sample((values(1, 40, dtype=dtype), packed, *more)),
            Sample((values(0, 40, dtype=dtype), packed, *more), kind="empty"),
            Sample((values(3, 41, dtype=dtype), packed, *more), kind="bad"),
        ]

    return samples


def _conv_samples(pack: Callable[[], Any], dims: int, *more: Any) -> Samples:
    def samples(dtype: torch.dtype) -> list[Sample]:
        packed = pack()
        return [
            Sample((values(2, 16, *[6] * dims, dtype=dtype), packed, *more)),
            Sample((values(1, 16, *[3] * dims, dtype=dtype), packed, *more)),
            Sample((values(1, 15, *[6] * dims, dtype=dtype), packed, *more), kind="bad"),
        ]

    return samples


def _summed_samples(dtype: torch.dtype) -> list[Sample]:
    """Samples of conv2d_add: an image, one of the result's size, the weights and the quantizer."""
    packed = _pack_conv("conv2d_prepack", 2)
    x, y = values(2, 16, 6, 6, dtype=dtype), values(2, 16, 6, 6, dtype=dtype, seed=3)
    last = torch.channels_last
    return [
        Sample((x, y, packed, *_TO)),
        Sample((x.contiguous(memory_format=last), y.contiguous(memory_format=last), packed, *_TO)),
        Sample((values(1, 15, 6, 6, dtype=dtype), y, packed, *_TO), kind="bad"),
    ]


def _real_linear(sample: Sample) -> Tensor:
    x, packed = sample.args[:2]
    weight, bias = packed.unpack()
    return F.linear(_real(x), _real(weight), bias.double())


def _real_conv(x: Tensor, packed: Any, dims: int, transposed: bool = False) -> Tensor:
    weight, bias = packed.unpack()
    conv = (_CONV_TRANSPOSE if transposed else _CONV)[dims]
    weight, bias = _real(weight), None if bias is None else bias.double()
    if x.dim() == 3 and weight.dim() == 4:  # a conv1d is packed with two spatial dimensions
        weight = weight.squeeze(2)
    return conv(_real(x), weight, bias, padding=1)


def _real(x: Tensor) -> Tensor:
    return (x.int_repr().double() - x.q_zero_point()) * x.q_scale()


def _rounded(real: Tensor) -> Tensor:
    """The real value of `real` after quantization, in float64."""
    scale, zero_point = _TO
    return ((real / scale).round() + zero_point).clamp(0, 255).sub(zero_point).mul(scale)


def _of_linear(function: Callable[[Tensor], Tensor]) -> Callable[[Sample], Tensor]:
    return lambda sample: _rounded(function(_real_linear(sample)))


def _linear_row(name: str, op: str, *more: Any, function: Callable[[Tensor], Tensor]) -> Row:
    return Row(
        name,
        _linear_samples(*_TO, *more),
        op,
        keys=_KEY,
        covers=("quantized::linear_prepack",),
        exact=_of_linear(function),
        dtypes=(torch.quint8,),
    )


def _conv_row(prepack: str, run: str, dims: int, space: str = "quantized") -> Row:
    def pack() -> Any:
        return _pack_conv(prepack, dims, getattr(torch.ops, space))

    transposed = "transpose" in prepack
    return Row(
        f"{'legacy_' if space != 'quantized' else ''}{prepack}",
        _conv_samples(pack, dims, *_TO),
        f"quantized::{run}{_OVERLOADS.get(run, '')}",
        keys=_KEY,
        covers=(f"{space}::{prepack}",),
        exact=lambda s: _rounded(_real_conv(s.args[0], s.args[1], dims, transposed)),
        dtypes=(torch.quint8,),
    )


def _summed_row(relu: bool) -> Row:
    def exact(sample: Sample) -> Tensor:
        x, y, packed = sample.args[:3]
        real = _real_conv(x, packed, 2) + _real(y)
        return _rounded(real.relu() if relu else real)

    name = "conv2d_add_relu" if relu else "conv2d_add"
    op = f"quantized::{name}"
    return Row(f"quantized_{name}", _summed_samples, op, _KEY, exact=exact, dtypes=(torch.quint8,))


_SPATIAL = (("conv1d", 1), ("conv2d", 2), ("conv3d", 3))
_UP = (("conv_transpose1d", 1), ("conv_transpose2d", 2), ("conv_transpose3d", 3))

ROWS = (
    _linear_row("quantized_linear", "quantized::linear", function=lambda x: x),
    _linear_row("quantized_linear_relu", "quantized::linear_relu", function=torch.relu),
    _linear_row(
        "quantized_linear_leaky_relu",
        "quantized::linear_leaky_relu",
        0.1,
        function=lambda x: F.leaky_relu(x, 0.1),
    ),
    _linear_row("quantized_linear_tanh", "quantized::linear_tanh", function=torch.tanh),
    Row(
        "legacy_linear_prepack",
        lambda dtype: [
            Sample((each.args[0], _pack_linear(torch.ops._quantized), *_TO), kind=each.kind)
            for each in _linear_samples()(dtype)
        ],
        "quantized::linear",
        keys=_KEY,
        covers=("_quantized::linear_prepack",),
        exact=_of_linear(lambda x: x),
        dtypes=(torch.quint8,),
    ),
    *(_conv_row(f"{name}_prepack", name, dims) for name, dims in (*_SPATIAL, *_UP)),
    *(
        _conv_row(f"{name}_prepack", name, dims, "_quantized")
        for name, dims in (*_SPATIAL[1:], *_UP)
    ),
    _conv_row("conv_prepack", "conv2d", 2),
    _summed_row(relu=False),
    _summed_row(relu=True),
)
