"""Translates quantized elementwise ops: tables, add, mul, and float products."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of, only_user
from cpuaccel.compile.bridge.quantized.layers import extendable_layer
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import is_dequantize, quantizer_of, source_of
from cpuaccel.compile.bridge.translation import Translation, value_of

_aten: Any = torch.ops.aten
_BINARY = {_aten.add.Tensor: "add", _aten.mul.Tensor: "mul"}


def table(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(function(dequantize(x))), or a change of the quantizer."""
    dequantize = found.anchor
    if not is_dequantize(dequantize):
        return False
    before = quantizer_of(dequantize)
    source = source_of(dequantize)
    entries = found.table(before)
    first = found.nodes[0]
    layer = extendable_layer(translation, dequantize) if only_user(dequantize) is first else None
    if layer is not None and "binary" not in layer.attributes:
        earlier: Any = layer.attributes.get("table")
        composed = [entries[code] for code in earlier] if earlier else entries
        layer.extend([dequantize, *found.nodes], table=composed)
        return True
    translation.look_through(first, dequantize)
    translation.begin(found.nodes, found.quantize)
    x = translation.read(source)
    if entries == list(range(len(entries))):
        translation.op("view", [x], found.quantize)
    else:
        translation.op("q_table", [x], found.quantize, table=entries)
    translation.end()
    return True


def binary(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(relu(dequantize(a) + dequantize(b))), or with * instead of +."""
    node = found.anchor
    kind = _BINARY.get(node.target)
    if kind is None or only_user(node) is None or not found.only_clamps():
        return False
    given = arguments_of(node)
    a, b = given["self"], given["other"]
    if not (is_dequantize(a) and is_dequantize(b)) or given.get("alpha", 1) != 1 or a is b:
        return False
    if translation.tensor(a).shape != translation.tensor(node).shape:
        a, b = b, a
    if translation.tensor(a).shape != translation.tensor(node).shape:
        return False
    same = translation.tensor(b).shape == translation.tensor(a).shape
    if not same and not _is_for_channels(translation, a, b):
        return False
    relu = found.is_relu()
    if same and (relu or not found.functions) and _follows(translation, found, kind, a, b):
        return True
    translation.look_through(node, a, b)
    translation.begin([node, *found.nodes], found.quantize)
    inputs = [translation.read(source_of(a)), translation.read(source_of(b))]
    attributes: dict[str, Any] = {
        **quantizer_of(a).attributes("a"),
        **quantizer_of(b).attributes("b"),
        **found.quantizer.attributes("to"),
        "relu": relu,
    }
    if relu or not found.functions:
        translation.op(f"q_{kind}", inputs, found.quantize, **attributes)
    else:
        like = value_of(translation.tensor(found.quantize))
        result = translation.op(f"q_{kind}", inputs, like=like, **attributes)
        translation.op("q_table", [result], found.quantize, table=found.clamp_table())
    translation.end()
    return True


def scaled_by_channel(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(x * factors) of floats, with a factor for each image and channel."""
    node = found.anchor
    if node.target is not _aten.mul.Tensor or only_user(node) is None or found.functions:
        return False
    given = arguments_of(node)
    x, factors = given["self"], given["other"]
    if not (isinstance(x, Node) and isinstance(factors, Node)):
        return False
    if translation.tensor(x).shape != translation.tensor(node).shape:
        x, factors = factors, x
    tensors = [translation.tensor(each) for each in (x, factors, node)]
    if any(each.dtype != torch.float32 for each in tensors) or tensors[0].shape != tensors[2].shape:
        return False
    if not _is_for_channels(translation, x, factors):
        return False
    translation.begin([node, *found.nodes], found.quantize)
    inputs = [translation.read(x), translation.read(factors)]
    translation.op("quantize", inputs, found.quantize, **found.quantizer.attributes("to"))
    translation.end()
    return True


def _follows(translation: Translation, found: QuantizeChain, kind: str, a: Node, b: Node) -> bool:
    """Make the op a post-op of the layer that makes an operand, if nothing else reads that."""
    for own, other in ((a, b), (b, a)):
        layer = extendable_layer(translation, own)
        if layer is None or only_user(own) is not found.anchor or "binary" in layer.attributes:
            continue
        if "sum" in layer.attributes:
            continue
        translation.look_through(found.anchor, other)
        layer.extend(
            [own, found.anchor, *found.nodes],
            other=translation.read(source_of(other)),
            binary=kind,
            binary_relu=found.is_relu(),
            **quantizer_of(own).attributes("mid"),
            **quantizer_of(other).attributes("other"),
            **found.quantizer.attributes("result"),
        )
        return True
    return False


def _is_for_channels(translation: Translation, a: Node, b: Node) -> bool:
    """Say whether `b` has one number for each image and channel of `a`."""
    sizes_a, sizes_b = translation.tensor(a).shape, translation.tensor(b).shape
    return (
        len(sizes_a) == len(sizes_b) > 2
        and sizes_a[:2] == sizes_b[:2]
        and all(size == 1 for size in sizes_b[2:])
    )


MATCHES: Matches = {
    table: ("q_table",),
    binary: ("q_add", "q_mul"),
    scaled_by_channel: ("quantize",),
}
