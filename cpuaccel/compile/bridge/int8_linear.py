"""Translates cpuaccel::int8_linear and packed_int8_linear: linear layers with int8 weights."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel._ops import int8_linear as _fake_kernel  # noqa: F401
from cpuaccel._ops import packed_int8_linear as _fake_kernels  # noqa: F401
from cpuaccel.compile.bridge._arguments import arguments_of
from cpuaccel.compile.bridge.activations import activation_behind
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.translation import Fallback, Translation

KINDS = frozenset({"int8_linear"})

_DTYPES = (torch.float32, torch.bfloat16)
_ATTRIBUTES = ("quantize", "symmetric", "low", "high")


def _int8_linear(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    _add(translation, node, given, given["weight"], given["weight_zero_point"])


def _packed_int8_linear(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    attributes = {"packed": True, "out_features": given["out_features"]}
    _add(translation, node, given, given["packed"], None, **attributes)


def _add(
    translation: Translation,
    node: Node,
    given: dict[str, Any],
    weight: Node,
    weight_zero_point: Node | None,
    **attributes: Any,
) -> None:
    """Add the op, with an activation behind it."""
    dtype = translation.tensor(given["input"]).dtype
    quantize = given["quantize"]
    if dtype not in _DTYPES:
        raise Fallback(f"dtype {dtype} of the activations")
    if quantize == "none" and dtype != torch.float32:
        raise Fallback("activations of 16 bits by int8 weights: torch multiplies many rows faster")
    if not translation.is_constant(weight):
        raise Fallback("the weight is not constant")
    vectors = {
        "": (given["weight_scale"], torch.float32),
        "zero_points": (weight_zero_point, torch.int32),
        "bias": (given["bias"], torch.float32),
    }
    if quantize == "given":
        vectors["given"] = (given["scale"], torch.float32)
        vectors["given_zero_points"] = (given["zero_point"], torch.int32)
    present = {name: pair for name, pair in vectors.items() if pair[0] is not None}
    if not all(translation.is_constant(vector) for vector, _ in present.values()):
        raise Fallback("a scale, a zero point or the bias is not constant")
    function, nodes = activation_behind(translation, node)
    translation.begin(nodes, nodes[-1])
    inputs = [translation.read(given["input"]), translation.read(weight)]
    for vector, to in present.values():
        inputs += translation.prepare(
            "cast",
            [translation.read_constant(vector)],
            [Value(to, tuple(vector.meta["val"].shape))],
        )
    attributes |= {name: given[name] for name in _ATTRIBUTES}
    attributes |= {name: True for name in present if name}
    translation.op("int8_linear", inputs, nodes[-1], function=function, **attributes)


_ops: Any = torch.ops.cpuaccel

TRANSLATIONS = {
    _ops.int8_linear.default: _int8_linear,
    _ops.packed_int8_linear.default: _packed_int8_linear,
}
