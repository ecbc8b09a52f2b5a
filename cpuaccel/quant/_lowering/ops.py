"""Lowers ops on quantized tensors that have no packed weights, and modules that call them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node
from torch.fx.node import Argument

from cpuaccel.quant._lowering.emitter import Emitter
from cpuaccel.quant._lowering.lowering import Lowering, relu
from cpuaccel.quant._lowering.values import Quantizer
from cpuaccel.quant._torch_ao import kind_of

Float = Callable[..., Node]
"""Emits an op on floats. Gets the emitter, its first operand and the other arguments."""


def _calls(function: Callable[..., Any]) -> Float:
    return lambda emit, *arguments: emit.call(function, *arguments)


def _then_relu(first: Float) -> Float:
    return lambda emit, *arguments: relu(emit, first(emit, *arguments))


def _batch_norm(emit: Emitter, x: Argument, weight: Argument, bias: Argument, *rest: Any) -> Node:
    mean, variance, epsilon = rest
    return emit.call(F.batch_norm, x, mean, variance, weight, bias, False, 0.0, epsilon)


def _instance_norm(emit: Emitter, x: Argument, weight: Argument, bias: Argument, e: Any) -> Node:
    return emit.call(F.instance_norm, x, None, None, weight, bias, True, 0.1, e)


def _elu(emit: Emitter, x: Argument, alpha: Any, scale: Any = 1.0, input_scale: Any = 1.0) -> Node:
    return emit.call(torch.ops.aten.elu.default, x, alpha, scale, input_scale)


def _leaky_relu(emit: Emitter, x: Argument, slope: Any, _inplace: Any) -> Node:
    return emit.call(F.leaky_relu, x, slope)


_add, _mul = _calls(torch.add), _calls(torch.mul)

OWN_QUANTIZER: dict[str, tuple[Float, str]] = {
    "quantized::add": (_add, "x y scale zero_point"),
    "quantized::add_relu": (_then_relu(_add), "x y scale zero_point"),
    "quantized::mul": (_mul, "x y scale zero_point"),
    "quantized::mul_relu": (_then_relu(_mul), "x y scale zero_point"),
    "quantized::matmul": (_calls(torch.matmul), "x y scale zero_point"),
    "quantized::cat": (_calls(torch.cat), "x dim scale zero_point"),
    "quantized::cat_relu": (_then_relu(_calls(torch.cat)), "x dim scale zero_point"),
    "quantized::hardswish": (_calls(F.hardswish), "x scale zero_point"),
    "quantized::sigmoid": (_calls(torch.sigmoid), "x scale zero_point"),
    "quantized::softmax": (_calls(F.softmax), "x dim scale zero_point"),
    "quantized::celu": (_calls(F.celu), "x scale zero_point alpha"),
    "quantized::elu": (_elu, "x scale zero_point alpha gain input_gain"),
    "quantized::leaky_relu": (_leaky_relu, "x slope inplace scale zero_point"),
    "quantized::prelu": (_calls(F.prelu), "x weight scale zero_point"),
    "quantized::layer_norm": (
        _calls(F.layer_norm),
        "x shape weight bias epsilon scale zero_point",
    ),
    "quantized::group_norm": (
        _calls(F.group_norm),
        "x groups weight bias epsilon scale zero_point",
    ),
    "quantized::instance_norm": (_instance_norm, "x weight bias epsilon scale zero_point"),
    **{
        f"quantized::batch_norm{suffix}": (
            _then_relu(_batch_norm) if suffix.endswith("relu") else _batch_norm,
            "x weight bias mean variance epsilon scale zero_point",
        )
        for suffix in ("", "1d", "2d", "3d", "1d_relu", "2d_relu", "3d_relu")
    },
}
"""By op: how it is computed in float, and the names of its arguments in order.

The float op gets all of them except scale and zero point, which are those of the result.
"""

SCALARS: dict[str, tuple[str, bool]] = {
    "quantized::add": ("add", False),
    "quantized::add_scalar": ("add", False),
    "quantized::add_relu": ("add", True),
    "quantized::add_scalar_relu": ("add", True),
    "quantized::mul": ("mul", False),
    "quantized::mul_scalar": ("mul", False),
    "quantized::mul_relu": ("mul", True),
    "quantized::mul_scalar_relu": ("mul", True),
}
"""Ops that add a number or multiply by one, with a ReLU or not. They change the quantizer."""

OPERANDS_ONLY = 2
"""Number of arguments of an op of SCALARS. The tensor forms of the same packets have more."""

SAME_QUANTIZER: dict[str, Float] = {
    "quantized::relu6": lambda emit, x, _inplace=False: emit.call(F.relu6, x),
    "quantized::clamp": _calls(torch.clamp),
}

MODULES: dict[str, tuple[str, Callable[[Any], list[Any]]]] = {
    "quantized.Hardswish": ("quantized::hardswish", lambda m: []),
    "quantized.Sigmoid": ("quantized::sigmoid", lambda m: []),
    "quantized.Softmax": ("quantized::softmax", lambda m: [m.dim]),
    "quantized.ELU": ("quantized::elu", lambda m: [m.alpha, 1.0, 1.0]),
    "quantized.LeakyReLU": ("quantized::leaky_relu", lambda m: [m.negative_slope, False]),
    "quantized.PReLU": ("quantized::prelu", lambda m: [m.weight.dequantize()]),
    "quantized.LayerNorm": (
        "quantized::layer_norm",
        lambda m: [list(m.normalized_shape), m.weight, m.bias, m.eps],
    ),
    "quantized.GroupNorm": (
        "quantized::group_norm",
        lambda m: [m.num_groups, m.weight, m.bias, m.eps],
    ),
    **{
        f"quantized.InstanceNorm{n}d": (
            "quantized::instance_norm",
            lambda m: [m.weight, m.bias, m.eps],
        )
        for n in (1, 2, 3)
    },
    **{
        kind: (
            f"quantized::batch_norm{suffix}",
            lambda m: [m.weight, m.bias, m.running_mean, m.running_var, m.eps],
        )
        for kind, suffix in (
            ("quantized.BatchNorm2d", "2d"),
            ("quantized.BatchNorm3d", "3d"),
            ("intrinsic.quantized.BNReLU2d", "2d_relu"),
            ("intrinsic.quantized.BNReLU3d", "3d_relu"),
        )
    },
}
"""The op that a module calls, and the arguments between its operand and its quantizer.

By the kind of the module (`_torch_ao.kind_of`).
"""


def lower_op(low: Lowering, node: Node, name: str, arguments: list[Any]) -> None:
    """Lower an op of OWN_QUANTIZER, called with all `arguments` of its schema."""
    run, names = OWN_QUANTIZER[name]
    given = dict(zip(names.split(), arguments, strict=True))
    scale, zero_point = (low.number(given.pop(key)) for key in ("scale", "zero_point"))
    operands = [low.as_float(value) for value in given.values()]
    quantizer = Quantizer(float(scale), int(zero_point))
    low.put_quantized(node, run(low.emit, *operands), quantizer)


def lower_module(low: Lowering, node: Node, module: Any) -> None:
    """Lower a call of a module of MODULES."""
    name, more = MODULES[kind_of(module)]
    run, names = OWN_QUANTIZER[name]
    keys = [key for key in names.split()[1:] if key not in ("scale", "zero_point")]
    pairs = zip(keys, more(module), strict=True)
    constants = [low.constant(node, key, value) for key, value in pairs]
    floats = run(low.emit, low.as_float(node.args[0]), *constants)
    low.put_quantized(node, floats, _quantizer_of(module))


def _quantizer_of(module: Any) -> Quantizer:
    if kind_of(module) == "quantized.Sigmoid":
        return Quantizer(float(module.output_scale), int(module.output_zero_point))
    return Quantizer(float(module.scale), int(module.zero_point))


def lower_scalar(low: Lowering, node: Node, name: str) -> None:
    """Lower an op of SCALARS: it keeps the integers, as far as possible, with another quantizer.

    Follows torch's qadd.cpp and qmul.cpp, so that the results are equal.
    """
    kind, with_relu = SCALARS[name]
    operand, other = node.args[:2]
    if not isinstance(operand, Node):  # 3 * x
        operand, other = other, operand
    before = low.quantizer(operand)
    number = float(low.number(other))
    if before is None:
        run = torch.add if kind == "add" else torch.mul
        floats = low.emit.call(run, low.as_float(operand), number)
        low.put(node, relu(low.emit, floats) if with_relu else floats)
        return
    change = _add_number if kind == "add" else _multiply
    q, quantizer = change(low.emit, low.as_is(operand), before, number)
    if with_relu:
        q = low.emit.call(torch.clamp_min, q, quantizer.zero_point)
    low.put(node, q, quantizer)


def _multiply(emit: Emitter, q: Any, before: Quantizer, number: float) -> tuple[Node, Quantizer]:
    lowest, highest = before.limits
    if number > 0:
        return q, before.with_range(before.scale * number, before.zero_point)
    if number == 0:
        return emit.call(torch.zeros_like, q), before.with_range(1.0, 0)
    mirrored = emit.call(torch.bitwise_not, q)  # highest + lowest - q
    zero_point = highest + lowest - before.zero_point
    return mirrored, before.with_range(-number * before.scale, zero_point)


def _add_number(emit: Emitter, q: Any, before: Quantizer, number: float) -> tuple[Node, Quantizer]:
    lowest, highest = before.limits
    if not math.isfinite(number):
        raise ValueError(
            f"cpuaccel.quant.lower: the number to add: expected a finite one, got {number}"
        )
    # torch rounds half to even, as Python does.
    moved = before.zero_point - round(number / before.scale)
    if lowest > moved:
        scale, zero_point = (highest - moved) / (highest - lowest) * before.scale, lowest
    elif highest < moved:
        scale, zero_point = (moved - lowest) / (highest - lowest) * before.scale, highest
    else:
        return q, before.with_range(before.scale, moved)
    after = before.with_range(scale, zero_point)
    return emit.quantize(emit.dequantize(q, before.with_range(before.scale, moved)), after), after
