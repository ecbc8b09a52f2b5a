"""Translates layer norm, batch norm and softmax."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import (
    BATCH_NORM_ARGUMENTS,
    arguments_of,
    common_float_dtype,
    dimension,
    first_result,
)
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.shapes import VIEW_OPS
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of

_aten: Any = torch.ops.aten


def _layer_norm(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    src, weight, bias = given["input"], given["weight"], given["bias"]
    if (weight is None) != (bias is None):
        raise Fallback("only one of weight and bias")
    if len(given["normalized_shape"]) != 1:
        raise Fallback("layer norm over several dimensions")  # oneDNN Graph has it over the last
    parts = [each for each in (weight, bias) if each is not None]
    common_float_dtype(translation, src, *parts)
    if _is_sliced(translation, src):
        raise Fallback("rows of a slice: oneDNN expects no gaps between rows")
    result = _normalized(node)
    translation.begin([node, result], result)
    inputs = [translation.read(src), *(_in_float(translation, each) for each in parts)]
    translation.op(
        "LayerNorm",
        inputs,
        result,
        begin_norm_axis=-1,
        epsilon=float(given["eps"]),
        keep_stats=False,
        use_affine=weight is not None,
    )


def _is_sliced(translation: Translation, node: Node) -> bool:
    """Say whether `node` is a view of a slice, in the memory of a larger tensor."""
    while (unit := translation.unit_of.get(node)) is not None:
        operations = [translation.operations[place] for place in unit.operations]
        kinds = {op.kind for op in operations}
        if not kinds <= VIEW_OPS:
            return False
        if "slice" in kinds:
            return True
        node = translation.node_of[operations[0].inputs[0]]
    return False


def _in_float(translation: Translation, node: Any) -> int:
    """Return the number of a weight in f32, which oneDNN Graph requires for ops of any dtype."""
    value = value_of(translation.tensor(node))
    if value.dtype == torch.float32:
        return translation.read(node)
    if not translation.is_constant(node):
        raise Fallback(f"computed weights of dtype {value.dtype}")
    wanted = Value(torch.float32, value.sizes)
    return translation.prepare("cast", [translation.read(node)], [wanted])[0]


def _batch_norm(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    src = given["input"]
    parts = [given[name] for name in BATCH_NORM_ARGUMENTS]
    if any(part is None for part in parts):
        raise Fallback("batch norm without weight or bias")
    common_float_dtype(translation, src)
    common_float_dtype(translation, *parts)
    result = _normalized(node)
    translation.begin([node, result], result)
    inputs = [translation.read(src), *(_in_float(translation, each) for each in parts)]
    translation.op(
        "BatchNormInference", inputs, result, epsilon=float(given["eps"]), data_format="NCX"
    )


def _softmax(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    if given["half_to_float"]:
        raise Fallback("half_to_float")
    common_float_dtype(translation, given["self"])
    rank = translation.tensor(given["self"]).dim()
    translation.begin([node], node)
    translation.op(
        "SoftMax", [translation.read(given["self"])], node, axis=dimension(given["dim"], rank)
    )


def _normalized(node: Node) -> Node:
    """Return the getitem of the normalized result; raise Fallback if others are used."""
    result = first_result(node)
    if result is None:
        raise Fallback("the mean or variance is used")
    return result


TRANSLATIONS = {
    _aten.native_layer_norm.default: _layer_norm,
    _aten._native_batch_norm_legit_no_training.default: _batch_norm,
    _aten._softmax.default: _softmax,
}
