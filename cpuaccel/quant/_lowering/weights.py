"""Unpacks torch's packed weights into integers and floats of the lowered graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel.quant._lowering.emitter import Emitter
from cpuaccel.quant._lowering.values import Quantizer, plain_dtype

_ops: Any = torch.ops.quantized


@dataclass(frozen=True)
class Convolution:
    """The parameters of F.conv and F.conv_transpose."""

    transposed: bool
    stride: list[int]
    padding: list[int]
    output_padding: list[int]
    dilation: list[int]
    groups: int


def convolution_of(packed: Any, sides: int) -> Convolution:
    """Return the parameters of packed weights. A 1-D convolution is packed as a 2-D one."""
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


def unpacked(packed: Any, sides: int, half: bool = False) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias of packed weights. `sides` 0: a linear layer; `half`: float16."""
    if sides == 0:
        name = "linear_unpack_fp16" if half else "linear_unpack"
    else:
        name = f"conv_transpose{sides}d_unpack" if packed.transpose() else f"conv{sides}d_unpack"
    unpack: Callable[[Any], tuple[Tensor, Tensor | None]] = getattr(_ops, name)
    return unpack(packed)


def emit_weight(emit: Emitter, name: str, weight: Tensor) -> Node:
    """The weight as floats, dequantized from integers that are an attribute."""
    if not weight.is_quantized:
        return emit.call(torch.Tensor.float, emit.constant(f"{name}_weight", weight.detach()))
    dtype = plain_dtype(weight.dtype)
    if dtype is None:
        raise TypeError(
            f"cpuaccel.quant.lower: weight of {name}: expected dtype qint8 or quint8,"
            f" got {weight.dtype}"
        )
    q = emit.constant(f"{name}_weight", weight.int_repr())
    if weight.qscheme() == torch.per_tensor_affine:
        return emit.dequantize(q, Quantizer(weight.q_scale(), weight.q_zero_point(), dtype))
    scales = emit.constant(f"{name}_scales", weight.q_per_channel_scales().float())
    zero_points = weight.q_per_channel_zero_points()
    points = emit.constant(f"{name}_zero_points", zero_points.to(torch.int64))
    return emit.dequantize_channels(q, scales, points, weight.q_per_channel_axis(), dtype)


def emit_bias(emit: Emitter, name: str, bias: Tensor | None) -> Node | None:
    """The bias, an attribute, if there is one."""
    return None if bias is None else emit.constant(f"{name}_bias", bias.detach())
