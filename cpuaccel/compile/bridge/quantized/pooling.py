"""Translates quantized pooling, which keeps the quantizer; a table changes it if necessary."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of, int_list, only_user, producer_of
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.pooling import is_mean_of_images
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import (
    is_dequantize,
    quantizer_of,
    source_of,
)
from cpuaccel.compile.bridge.translation import Translation, value_of

_aten: Any = torch.ops.aten
_IMAGES = 4


def max_pool(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(max_pool2d(dequantize(x)))"""
    result = found.anchor
    node = producer_of(result, _aten.max_pool2d_with_indices.default)
    if node is None:
        return False
    given = arguments_of(node)
    attributes = _window(given)
    attributes["dilations"] = int_list(given["dilation"], 2)
    return _pool(translation, found, [node, result], given["self"], "q_max_pool", attributes)


def avg_pool(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(avg_pool2d(dequantize(x))), adaptive_avg_pool2d, and means over images."""
    node = found.anchor
    attributes = _averages(translation, node)
    if attributes is None or only_user(node) is None:
        return False
    src = arguments_of(node)["self"]
    if not is_dequantize(src):
        return False
    # The kernel rounds to the quantizer of its source; with another one, values would be rounded
    # twice.
    if quantizer_of(src) != found.quantizer or not found.only_clamps():
        return False
    attributes.update(quantizer_of(src).attributes("x"))
    return _pool(translation, found, [node], src, "q_avg_pool", attributes)


def _averages(translation: Translation, node: Node) -> dict[str, Any] | None:
    if node.target is _aten.avg_pool2d.default:
        given = arguments_of(node)
        if given["divisor_override"] is not None:
            return None
        return {**_window(given), "count_padding": given["count_include_pad"]}
    if node.target is _aten._adaptive_avg_pool2d.default:
        return {"sizes": int_list(arguments_of(node)["output_size"], 2)}
    if node.target is _aten.mean.dim:
        return {"sizes": [1, 1]} if is_mean_of_images(translation, arguments_of(node)) else None
    return None


def _window(given: dict[str, Any]) -> dict[str, Any]:
    kernel = int_list(given["kernel_size"], 2)
    return {
        "kernel": kernel,
        "strides": int_list(given["stride"], 2) if given["stride"] else kernel,
        "padding": int_list(given["padding"], 2),
        "ceil": bool(given["ceil_mode"]),
    }


def _pool(
    translation: Translation,
    found: QuantizeChain,
    nodes: list[Node],
    src: Any,
    kind: str,
    attributes: dict[str, Any],
) -> bool:
    if not is_dequantize(src) or translation.tensor(src).dim() != _IMAGES:
        return False
    pooled = translation.tensor(nodes[-1])
    flat = pooled.dim() != _IMAGES  # a mean with keepdim=False
    entries = found.table(quantizer_of(src))
    has_table = entries != list(range(len(entries)))
    to = found.quantize
    translation.look_through(nodes[0], src)
    translation.begin([*nodes, *found.nodes], to)
    like = value_of(translation.tensor(to))
    images = Value(like.dtype, (*like.sizes, 1, 1)) if flat else like
    steps: list[tuple[str, Value, dict[str, Any]]] = [(kind, images, attributes)]
    if flat:
        steps.append(("view", like, {}))
    if has_table:
        steps.append(("q_table", like, {"table": entries}))
    value = translation.read(source_of(src))
    for index, (step, made, given) in enumerate(steps):
        if index == len(steps) - 1:
            translation.op(step, [value], to, **given)
        else:
            value = translation.op(step, [value], like=made, **given)
    translation.end()
    return True


MATCHES: Matches = {
    max_pool: ("q_max_pool",),
    avg_pool: ("q_avg_pool",),
}
