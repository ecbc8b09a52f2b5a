"""Quantized ops on so little data that a call costs only its overhead: the rows of per_call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_CHANNELS = 16
_SCALE, _ZERO = 0.05, 60
_OUT_SCALE, _OUT_ZERO = 0.1, 64


@dataclass(frozen=True)
class TinyOp:
    """An op, the no-op in noop.cpp that has its schema, and its arguments.

    `arguments` packs weights under the current engine.
    """

    op: Any
    noop: str
    arguments: Callable[[], tuple[Any, ...]]

    @property
    def name(self) -> str:
        """Such as "quantized::add"."""
        return str(self.op._schema.name)

    @property
    def types(self) -> list[str]:
        """The types of the schema's arguments."""
        return types_of(self.op)


def types_of(op: Any) -> list[str]:
    """The types of the arguments of an operator overload."""
    return [str(argument.type) for argument in op._schema.arguments]


def _image() -> Tensor:
    """One pixel."""
    x = torch.linspace(-3, 3, _CHANNELS).reshape(1, _CHANNELS, 1, 1)
    q = torch.quantize_per_tensor(x, _SCALE, _ZERO, torch.quint8)
    return q.contiguous(memory_format=torch.channels_last)


def _row() -> Tensor:
    return _image().reshape(1, _CHANNELS)


def _weight(*size: int) -> Tensor:
    values = torch.linspace(-1, 1, _CHANNELS * _CHANNELS).reshape(size)
    scales = torch.full((_CHANNELS,), 0.01, dtype=torch.float64)
    zeros = torch.zeros(_CHANNELS, dtype=torch.int64)
    return torch.quantize_per_channel(values, scales, zeros, 0, torch.qint8)


def _linear_weight() -> Any:
    bias = torch.zeros(_CHANNELS)
    return torch.ops.quantized.linear_prepack(_weight(_CHANNELS, _CHANNELS), bias)


def _conv2d() -> tuple[Any, ...]:
    packed = torch.ops.quantized.conv2d_prepack(
        _weight(_CHANNELS, _CHANNELS, 1, 1), torch.zeros(_CHANNELS), [1, 1], [0, 0], [1, 1], 1
    )
    return _image(), packed, _OUT_SCALE, _OUT_ZERO


def _linear() -> tuple[Any, ...]:
    return _row(), _linear_weight(), _OUT_SCALE, _OUT_ZERO


def _linear_dynamic() -> tuple[Any, ...]:
    return _row().dequantize(), _linear_weight(), True


def _binary() -> tuple[Any, ...]:
    return _image(), _image(), _OUT_SCALE, _OUT_ZERO


def _unary() -> tuple[Any, ...]:
    return (_image(),)


def _scaled() -> tuple[Any, ...]:
    return _image(), _OUT_SCALE, _OUT_ZERO


def _pool() -> tuple[Any, ...]:
    return _image(), [1, 1]


def _cat() -> tuple[Any, ...]:
    return [_image(), _image()], 1, _OUT_SCALE, _OUT_ZERO


def _quantize() -> tuple[Any, ...]:
    return _image().dequantize(), _SCALE, _ZERO, torch.quint8


_quantized = torch.ops.quantized
_aten = torch.ops.aten

# Another op with one of these schemas takes one more line. A new schema also takes two no-ops.
TINY_OPS: tuple[TinyOp, ...] = (
    TinyOp(_quantized.conv2d.new, "conv2d", _conv2d),
    TinyOp(_quantized.conv2d_relu.new, "conv2d", _conv2d),
    TinyOp(_quantized.linear.default, "linear", _linear),
    TinyOp(_quantized.linear_relu.default, "linear", _linear),
    TinyOp(_quantized.linear_dynamic.default, "linear_dynamic", _linear_dynamic),
    TinyOp(_quantized.add.default, "binary", _binary),
    TinyOp(_quantized.add_relu.default, "binary", _binary),
    TinyOp(_quantized.mul.default, "binary", _binary),
    TinyOp(_quantized.hardswish.default, "scaled", _scaled),
    TinyOp(_quantized.sigmoid.default, "scaled", _scaled),
    TinyOp(_quantized.cat.default, "cat", _cat),
    TinyOp(_aten.hardsigmoid.default, "unary", _unary),
    TinyOp(_aten.relu.default, "unary", _unary),
    TinyOp(_aten._adaptive_avg_pool2d.default, "pool", _pool),
    TinyOp(_aten.quantize_per_tensor.default, "quantize", _quantize),
    TinyOp(_aten.dequantize.self, "dequantize", _unary),
)
