"""Translates elementwise ops with one operand and with two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import (
    STEP_DTYPES,
    arguments_of,
    common_float_dtype,
    only_user,
    same_sizes,
)
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of

_aten: Any = torch.ops.aten

KINDS = frozenset({"scale"})
"""Kinds of ops that cpuaccel runs: csrc/plan/elementwise_step.h."""

Attributes = Callable[[dict[str, Any]], dict[str, float]]


def _unary(kind: str, attributes: Attributes | None = None) -> Any:
    def translate(translation: Translation, node: Node) -> None:
        given = arguments_of(node)
        src = given["self"]
        common_float_dtype(translation, src)
        found: dict[str, Any] = dict(attributes(given)) if attributes else {}
        translation.begin([node], node)
        translation.op(kind, [translation.read(src)], node, **found)

    return translate


def _limits(given: dict[str, Any]) -> dict[str, float]:
    low = given.get("min", given.get("min_val"))
    high = given.get("max", given.get("max_val"))
    limits = (-math.inf if low is None else low, math.inf if high is None else high)
    if not all(isinstance(limit, (int, float)) for limit in limits):
        raise Fallback("dynamic limits")
    return {"min": float(limits[0]), "max": float(limits[1])}


def _elu(given: dict[str, Any]) -> dict[str, float]:
    if given["scale"] != 1 or given["input_scale"] != 1:
        raise Fallback("scale or input_scale is not 1")
    return {"alpha": float(given["alpha"])}


def _gelu(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    kind = "GELU" if given["approximate"] == "none" else "GELUTanh"
    _unary(kind)(translation, node)


def _silu(translation: Translation, node: Node) -> None:
    src = arguments_of(node)["self"]
    common_float_dtype(translation, src)
    translation.begin([node], node)
    x = translation.read(src)
    gate = translation.op("Sigmoid", [x], like=value_of(translation.tensor(src)))
    translation.op("Multiply", [x, gate], node)


def _hardsigmoid(translation: Translation, node: Node) -> None:
    src = arguments_of(node)["self"]
    product = only_user(node)
    if (
        product is not None
        and product.target is _aten.mul.Tensor
        and set(product.args) == {src, node}
    ):
        # One op: oneDNN Graph puts two ops into a partition that it cannot compile.
        common_float_dtype(translation, src)
        translation.begin([node, product], product)
        translation.op("HardSwish", [translation.read(src)], product)
        return
    _unary("HardSigmoid", lambda _: {"alpha": 1 / 6, "beta": 0.5})(translation, node)


def _power(translation: Translation, node: Node) -> None:
    if arguments_of(node)["exponent"] != 2:
        raise Fallback("an exponent other than 2")
    _unary("Square")(translation, node)


_FUSED = 3
"""Maximum number of post-ops that oneDNN Graph fuses into a layer."""

_COMMUTE = ("Add", "Maximum", "Minimum", "Multiply")


def _has_result_sizes(translation: Translation, operand: Any, result: Node) -> bool:
    return same_sizes(translation.tensor(operand).shape, translation.tensor(result).shape)


def _binary(kind: str) -> Any:
    def translate(translation: Translation, node: Node) -> None:
        given = arguments_of(node)
        a, b = given["self"], given["other"]
        if type(b) in (int, float) and given.get("alpha", 1) == 1 and kind in _WITH_NUMBER:
            _with_number(translation, node, a, **_WITH_NUMBER[kind](b))
            return
        if given.get("alpha", 1) != 1 or given.get("rounding_mode") is not None:
            raise Fallback("alpha is not 1, or rounding_mode")
        if a is b and kind == "Multiply":
            _unary("Square")(translation, node)
            return
        if a is b:
            # oneDNN Graph fuses it into the op that makes the value, and reads the value from
            # memory where it was never written.
            raise Fallback("both operands are the same tensor")
        common_float_dtype(translation, a, b, node)
        if translation.tensor(a).dim() == 0 or translation.tensor(b).dim() == 0:
            raise Fallback("a 0-D tensor")
        if not _has_result_sizes(translation, a, node):
            # oneDNN broadcasts its second operand only.
            if kind not in _COMMUTE or not _has_result_sizes(translation, b, node):
                raise Fallback("the first operand is broadcast")
            a, b = b, a
        is_gated = kind == "Multiply" and (_is_gate(a, b) or _is_gate(b, a))
        if not is_gated and (
            _is_fusible_function_of(translation, a, b) or _is_fusible_function_of(translation, b, a)
        ):
            # As with a value and itself; the layer that makes the value would be lost too.
            raise Fallback("one operand is a function of the other")
        translation.begin([node], node)
        translation.op(
            kind, [translation.read(a), translation.read(b)], node, auto_broadcast="numpy"
        )

    return translate


_WITH_NUMBER: dict[str, Callable[[float], dict[str, Any]]] = {
    "Multiply": lambda number: {"factor": float(number)},
    "Add": lambda number: {"offset": float(number)},
    "Subtract": lambda number: {"offset": -float(number)},
}


def _with_number(translation: Translation, node: Node, src: Any, **number: Any) -> None:
    """Translate the product or the sum of a tensor and a number."""
    if common_float_dtype(translation, src, node) not in STEP_DTYPES:
        raise Fallback("a dtype that steps do not have")
    translation.begin([node], node)
    translation.op("scale", [translation.read(src)], node, **number)


def _is_fusible_function_of(translation: Translation, node: Node, source: Node) -> bool:
    """Say whether `node` is a function of `source` that oneDNN Graph fuses into the source's op."""
    if source not in translation.unit_of:
        return False
    found = [node]
    for _ in range(_FUSED):
        found = [
            each for node in found if node.target in TRANSLATIONS for each in node.all_input_nodes
        ]
        if source in found:
            return True
    return False


def _is_gate(node: Node, of: Node) -> bool:
    """Say whether the product of both is SiLU, which oneDNN Graph runs as one op."""
    return node.target is _aten.sigmoid.default and node.args[0] is of


TRANSLATIONS = {
    _aten.abs.default: _unary("Abs"),
    _aten.clamp.default: _unary("Clamp", _limits),
    _aten.clamp_min.default: _unary("Clamp", _limits),
    _aten.clamp_max.default: _unary("Clamp", _limits),
    _aten.hardtanh.default: _unary("Clamp", _limits),
    _aten.elu.default: _unary("Elu", _elu),
    _aten.exp.default: _unary("Exp"),
    _aten.gelu.default: _gelu,
    _aten.hardsigmoid.default: _hardsigmoid,
    _aten.hardswish.default: _unary("HardSwish"),
    _aten.leaky_relu.default: _unary(
        "LeakyReLU", lambda given: {"alpha": float(given["negative_slope"])}
    ),
    _aten.log.default: _unary("Log"),
    _aten.mish.default: _unary("Mish"),
    _aten.pow.Tensor_Scalar: _power,
    _aten.relu.default: _unary("ReLU"),
    _aten.round.default: _unary("Round"),
    _aten.sigmoid.default: _unary("Sigmoid"),
    _aten.silu.default: _silu,
    _aten.sqrt.default: _unary("Sqrt"),
    _aten.tanh.default: _unary("Tanh"),
    _aten.add.Tensor: _binary("Add"),
    _aten.div.Tensor: _binary("Divide"),
    _aten.maximum.default: _binary("Maximum"),
    _aten.minimum.default: _binary("Minimum"),
    _aten.mul.Tensor: _binary("Multiply"),
    _aten.sub.Tensor: _binary("Subtract"),
}
