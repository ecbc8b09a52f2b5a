"""Unpacks torch's packed weights, and writes weights into the lowered graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel.quant._lowering.emitter import Emitter
from cpuaccel.quant._lowering.integers import (
    Convolution,
    IntegerTensor,
    UnpackedLayer,
    integers_of,
)
from cpuaccel.quant._lowering.values import Quantizer


def unpacked(packed: Any, name: str, sides: int, half: bool = False) -> UnpackedLayer:
    """Return what the packed weights of layer `name` hold.

    Args:
        packed: torch's packed weights, or an UnpackedLayer, which is returned.
        name: for errors.
        sides: the number of spatial dimensions; 0: a linear layer.
        half: whether the weights are float16.
    """
    if isinstance(packed, UnpackedLayer):
        return _with_sides(packed, sides)
    if sides == 0:
        op = "linear_unpack_fp16" if half else "linear_unpack"
    else:
        op = f"conv_transpose{sides}d_unpack" if packed.transpose() else f"conv{sides}d_unpack"
    weight, bias = getattr(torch.ops.quantized, op)(packed)
    return UnpackedLayer(
        integers_of(weight, name) if weight.is_quantized else weight,
        bias,
        _convolution_of(packed, sides) if sides else None,
    )


def _with_sides(layer: UnpackedLayer, sides: int) -> UnpackedLayer:
    """Return a layer of a file. A file has the packed weights of 1-D convolutions as 2-D ones."""
    weight, numbers = layer.weight, layer.convolution
    if (
        sides != 1
        or numbers is None
        or not isinstance(weight, IntegerTensor)
        or weight.q.dim() == 3
    ):
        return layer
    last = replace(
        numbers,
        stride=numbers.stride[-1:],
        padding=numbers.padding[-1:],
        output_padding=numbers.output_padding[-1:],
        dilation=numbers.dilation[-1:],
    )
    return UnpackedLayer(replace(weight, q=weight.q.squeeze(2)), layer.bias, last)


def _convolution_of(packed: Any, sides: int) -> Convolution:
    # A 1-D convolution is packed as a 2-D one.
    stride, padding, output_padding, dilation = (
        list(get())[-sides:]
        for get in (packed.stride, packed.padding, packed.output_padding, packed.dilation)
    )
    return Convolution(
        transposed=bool(packed.transpose()),
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=int(packed.groups()),
    )


def emit_weight(emit: Emitter, name: str, weight: IntegerTensor | Tensor) -> Node:
    """The weight as floats, dequantized from integers that are an attribute."""
    if isinstance(weight, Tensor):
        return emit.call(torch.Tensor.float, emit.constant(f"{name}_weight", weight.detach()))
    q = emit.constant(f"{name}_weight", weight.q)
    if not isinstance(weight.scale, Tensor) or not isinstance(weight.zero_point, Tensor):
        quantizer = Quantizer(float(weight.scale), int(weight.zero_point), weight.q.dtype)
        return emit.dequantize(q, quantizer)
    scales = emit.constant(f"{name}_scales", weight.scale)
    points = emit.constant(f"{name}_zero_points", weight.zero_point.to(torch.int64))
    return emit.dequantize_channels(q, scales, points, weight.axis, weight.q.dtype)


def emit_bias(emit: Emitter, name: str, bias: Tensor | None) -> Node | None:
    """The bias, an attribute, if there is one."""
    return None if bias is None else emit.constant(f"{name}_bias", bias.detach())
