"""Lowers layers with weights: static and dynamic, as ops on packed weights and as modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node
from torch.fx.node import Argument

from cpuaccel.quant._lowering import weights
from cpuaccel.quant._lowering.lowering import Lowering, relu
from cpuaccel.quant._lowering.values import Quantizer
from cpuaccel.quant._torch_ao import kind_of

After = Callable[..., Node]
"""What follows a layer before it is quantized. Gets the emitter, the result and more operands."""

_CONVOLUTIONS: dict[tuple[int, bool], Callable[..., Any]] = {
    (1, False): F.conv1d,
    (2, False): F.conv2d,
    (3, False): F.conv3d,
    (1, True): F.conv_transpose1d,
    (2, True): F.conv_transpose2d,
    (3, True): F.conv_transpose3d,
}


def _add(emit: Any, x: Argument, other: Argument) -> Node:
    return emit.call(torch.add, x, other)  # type: ignore[no-any-return]


def _add_relu(emit: Any, x: Argument, other: Argument) -> Node:
    return relu(emit, _add(emit, x, other))


def _tanh(emit: Any, x: Argument) -> Node:
    return emit.call(torch.tanh, x)  # type: ignore[no-any-return]


def _leaky_relu(emit: Any, x: Argument, slope: Argument) -> Node:
    return emit.call(F.leaky_relu, x, slope)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Kind:
    """A layer: spatial dimensions (0: linear), what follows it, and whether it is dynamic."""

    sides: int
    after: After | None = None
    operands: int = 1
    """Number of tensors before the packed weights: two if something is added."""
    dynamic: bool = False
    half: bool = False
    """Whether weights are float16 and nothing is quantized."""


KINDS: dict[str, Kind] = {
    "quantized::linear": Kind(0),
    "quantized::linear_relu": Kind(0, relu),
    "quantized::linear_tanh": Kind(0, _tanh),
    "quantized::linear_leaky_relu": Kind(0, _leaky_relu),
    "quantized::linear_dynamic": Kind(0, dynamic=True),
    "quantized::linear_relu_dynamic": Kind(0, relu, dynamic=True),
    "quantized::linear_dynamic_fp16": Kind(0, dynamic=True, half=True),
    "quantized::linear_relu_dynamic_fp16": Kind(0, relu, dynamic=True, half=True),
    "quantized::conv2d_add": Kind(2, _add, operands=2),
    "quantized::conv2d_add_relu": Kind(2, _add_relu, operands=2),
    **{f"quantized::conv{n}d": Kind(n) for n in (1, 2, 3)},
    **{f"quantized::conv{n}d_relu": Kind(n, relu) for n in (1, 2, 3)},
    **{f"quantized::conv{n}d_dynamic": Kind(n, dynamic=True) for n in (1, 2, 3)},
    **{f"quantized::conv_transpose{n}d": Kind(n) for n in (1, 2, 3)},
    **{f"quantized::conv_transpose{n}d_dynamic": Kind(n, dynamic=True) for n in (1, 2, 3)},
}
"""By op, which takes operands, packed weights, and scale and zero point or reduce_range."""

MODULES: dict[str, str] = {
    "quantized.Linear": "quantized::linear",
    "intrinsic.quantized.LinearReLU": "quantized::linear_relu",
    "intrinsic.quantized.LinearTanh": "quantized::linear_tanh",
    "intrinsic.quantized.LinearLeakyReLU": "quantized::linear_leaky_relu",
    "intrinsic.quantized.ConvAdd2d": "quantized::conv2d_add",
    "intrinsic.quantized.ConvAddReLU2d": "quantized::conv2d_add_relu",
    "quantized.Conv1d": "quantized::conv1d",
    "quantized.Conv2d": "quantized::conv2d",
    "quantized.Conv3d": "quantized::conv3d",
    "intrinsic.quantized.ConvReLU1d": "quantized::conv1d_relu",
    "intrinsic.quantized.ConvReLU2d": "quantized::conv2d_relu",
    "intrinsic.quantized.ConvReLU3d": "quantized::conv3d_relu",
    "quantized.ConvTranspose1d": "quantized::conv_transpose1d",
    "quantized.ConvTranspose2d": "quantized::conv_transpose2d",
    "quantized.ConvTranspose3d": "quantized::conv_transpose3d",
    "quantized.dynamic.Linear": "quantized::linear_dynamic",
    "intrinsic.quantized.dynamic.LinearReLU": "quantized::linear_relu_dynamic",
    "quantized.dynamic.Conv1d": "quantized::conv1d_dynamic",
    "quantized.dynamic.Conv2d": "quantized::conv2d_dynamic",
    "quantized.dynamic.Conv3d": "quantized::conv3d_dynamic",
    "quantized.dynamic.ConvTranspose1d": "quantized::conv_transpose1d_dynamic",
    "quantized.dynamic.ConvTranspose2d": "quantized::conv_transpose2d_dynamic",
    "quantized.dynamic.ConvTranspose3d": "quantized::conv_transpose3d_dynamic",
}
"""The op that a module calls, by the kind of the module (`_torch_ao.kind_of`)."""


def lower_op(low: Lowering, node: Node, name: str, arguments: list[Any]) -> None:
    """Lower the op `name` of KINDS, called with all `arguments` of its schema."""
    kind = KINDS[name]
    packed = low.model.constant(arguments[kind.operands])
    rest = [low.number(value) for value in arguments[kind.operands + 1 :]]
    operands = arguments[: kind.operands]
    if kind.dynamic:
        _dynamic(low, node, kind, operands[0], packed, bool(rest and rest[0]))
    else:
        _static(low, node, kind, operands, packed, rest[0], rest[1], rest[2:])


def lower_module(low: Lowering, node: Node, module: Any) -> None:
    """Lower a call of a module of MODULES."""
    name = MODULES[kind_of(module)]
    kind = KINDS[name]
    linear = kind.sides == 0
    packed = module._packed_params._packed_params if linear else module._packed_params
    padding = None
    if getattr(module, "padding_mode", "zeros") != "zeros":
        padding = partial(_pad, mode=module.padding_mode, sides=list(module.padding))
    operands = list(node.args)
    if not kind.dynamic:
        more = [module.negative_slope] if hasattr(module, "negative_slope") else []
        scale, zero_point = float(module.scale), int(module.zero_point)
        _static(low, node, kind, operands, packed, scale, zero_point, more, padding)
        return
    if linear and module._packed_params.dtype == torch.float16:
        kind = KINDS[f"{name}_fp16"]
    # Modules that were saved before version 4 use all 8 bits.
    reduced = not linear or (module.version is not None and module.version >= 4)
    _dynamic(low, node, kind, operands[0], packed, reduced, padding)


def _static(
    low: Lowering,
    node: Node,
    kind: Kind,
    operands: list[Argument],
    packed: Any,
    scale: float,
    zero_point: int,
    more: list[Any],
    padding: Callable[..., Node] | None = None,
) -> None:
    x = low.as_float(operands[0])
    if padding is not None:
        x = padding(low.emit, x)
    y = _layer(low, node, kind, x, packed, padded=padding is not None)
    if kind.after is not None:
        y = kind.after(low.emit, y, *(low.as_float(each) for each in operands[1:]), *more)
    low.put_quantized(node, y, Quantizer(float(scale), int(zero_point)))


def _dynamic(
    low: Lowering,
    node: Node,
    kind: Kind,
    operand: Argument,
    packed: Any,
    reduced: bool,
    padding: Callable[..., Node] | None = None,
) -> None:
    x = low.as_float(operand)
    if padding is not None:
        x = padding(low.emit, x)
    if not kind.half:
        x = low.emit.quantize_dynamically(x, 127 if reduced else 255)
    y = _layer(low, node, kind, x, packed, padded=padding is not None)
    low.put(node, y if kind.after is None else kind.after(low.emit, y))


def _layer(
    low: Lowering, node: Node, kind: Kind, x: Argument, packed: Any, *, padded: bool
) -> Node:
    name = str(node.target) if node.op == "call_module" else node.name
    layer = weights.unpacked(packed, name, kind.sides, kind.half)
    w = weights.emit_weight(low.emit, name, layer.weight)
    b = weights.emit_bias(low.emit, name, layer.bias)
    numbers = layer.convolution
    if numbers is None:
        return low.emit.call(F.linear, x, w, b)
    padding = [0] * kind.sides if padded else numbers.padding
    run = _CONVOLUTIONS[kind.sides, numbers.transposed]
    if numbers.transposed:
        shape: list[Any] = [numbers.output_padding, numbers.groups, numbers.dilation]
    else:
        shape = [numbers.dilation, numbers.groups]
    return low.emit.call(run, x, w, b, numbers.stride, padding, *shape)


def _pad(emit: Any, x: Argument, *, mode: str, sides: list[int]) -> Node:
    # F.pad begins with the last dimension and takes both ends of each.
    ends = [side for side in reversed(sides) for _ in (0, 1)]
    return emit.call(F.pad, x, ends, mode)  # type: ignore[no-any-return]
