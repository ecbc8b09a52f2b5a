"""Translates quantized layers: a convolution or product of dequantized values and weights.

Post-ops become part of the layer: ReLU, other functions and clamps, or an addend, before the
quantize; a table or a binary op on two quantized tensors after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge import matmul
from cpuaccel.compile.bridge._arguments import arguments_of, int_list, only_user, same_sizes
from cpuaccel.compile.bridge.activations import activation_of
from cpuaccel.compile.bridge.plan_text import Attribute, Operation, Value
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import (
    CHOOSE,
    DEQUANTIZE,
    DEQUANTIZE_BY_TENSORS,
    DEQUANTIZE_CHANNELS,
    QUANTIZE_BY_TENSORS,
    is_dequantize,
    quantizer_of,
    source_of,
)
from cpuaccel.compile.bridge.translation import Translation, Unit

_aten: Any = torch.ops.aten
_CODES = 255
_COPIES = (_aten.clone.default, _aten.expand.default)

_ACTIVATIONS_OF = {
    "q_conv": ("relu", "hardswish", "silu"),
    "q_linear": ("relu", "hardswish", "silu", "gelu", "gelu_tanh"),
}
"""Activations of each layer's kernels."""


@dataclass
class _Layer:
    """A layer in a graph, found from its convolution or product."""

    kind: str
    nodes: list[Node]
    src: Node
    weight: Node
    bias: Node | None
    transposed: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def result(self) -> Node:
        return self.nodes[-1]

    def function(self, behind: Sequence[Node]) -> str | None:
        """Return the name of its post-op, "" if there is none, None if it is not supported."""
        if len(behind) != 1:
            return None if behind else ""
        name = activation_of(behind[0])
        return name if name in _ACTIVATIONS_OF[self.kind] and self._has_kernels(name) else None

    def _has_kernels(self, function: str | None) -> bool:
        """Say whether cpuaccel's kernels have this post-op: they run what oneDNN rejects."""
        dims = len(self.attributes.get("strides", ()))
        return function == "relu" or (not self.transposed and dims <= 2)


@dataclass
class ExtendableLayer:
    """A layer that was translated, and that may take over ops on its result."""

    translation: Translation
    unit: Unit

    @property
    def _operation(self) -> Operation:
        return self.translation.operations[self.unit.operations[0]]

    @property
    def attributes(self) -> dict[str, Attribute]:
        """Return the attributes of its op."""
        return self._operation.attributes

    def extend(self, nodes: list[Node], other: int | None = None, **attributes: Any) -> None:
        """Let it compute the last of `nodes`, which it replaces."""
        before = self._operation
        inputs = before.inputs if other is None else (*before.inputs, other)
        self.translation.replace(
            self.unit, nodes, before.kind, inputs, {**before.attributes, **attributes}
        )


def extendable_layer(translation: Translation, dequantize: Node) -> ExtendableLayer | None:
    """Return the layer whose result is dequantized, if the dequantize is its only reader."""
    if not is_dequantize(dequantize):
        return None
    source = source_of(dequantize)
    unit = translation.unit_of.get(source)
    if unit is None or unit.result is not source or only_user(source) is not dequantize:
        return None
    kinds = [translation.operations[number].kind for number in unit.operations]
    return ExtendableLayer(translation, unit) if kinds in (["q_conv"], ["q_linear"]) else None


def quantized(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(function or clamps(layer(dequantize(src), dequantize(weight))))"""
    layer = _layer_with_result(translation, found.anchor)
    if layer is None or not is_dequantize(layer.src):
        return False
    if only_user(layer.result) is None:
        return False
    function = layer.function(found.functions)
    attributes: dict[str, Any] = {**found.quantizer.attributes("dst")}
    if function is not None:
        attributes["function"] = function
    elif found.only_clamps():
        attributes["table"] = found.clamp_table()
    else:
        return False
    _add(translation, layer, found.nodes, attributes)
    return True


def with_addition(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(relu(layer + dequantize(other))), without a quantize between layer and sum."""
    node = found.anchor
    if node.target is not _aten.add.Tensor or only_user(node) is None:
        return False
    given = arguments_of(node)
    if given["alpha"] != 1 or not (found.is_relu() or not found.functions):
        return False
    operands = (given["self"], given["other"])
    for own, other in (operands, operands[::-1]):
        if not isinstance(own, Node) or not is_dequantize(other) or only_user(own) is not node:
            continue
        layer = _layer_with_result(translation, own)
        if layer is None or layer.kind != "q_conv" or layer.transposed:
            continue
        if not is_dequantize(layer.src):
            continue
        if translation.tensor(other).shape != translation.tensor(own).shape:
            continue
        attributes = {
            **found.quantizer.attributes("dst"),
            **quantizer_of(other).attributes("other"),
            "function": "relu" if found.is_relu() else "",
            "sum": True,
        }
        translation.look_through(node, other)
        _add(translation, layer, [node, *found.nodes], attributes, source_of(other))
        return True
    return False


def with_float_result(translation: Translation, node: Node) -> bool:
    """A layer whose result is not quantized, or whose source is quantized dynamically."""
    layer = _layer_at(translation, node)
    if layer is None or any(each in translation.unit_of for each in layer.nodes):
        return False
    follows = only_user(layer.result)
    behind = [] if follows is None else [follows]
    function = layer.function(behind)
    if function is None:
        function, behind = "", []
    attributes: dict[str, Any] = {"function": function}
    if is_dequantize(layer.src):
        _add(translation, layer, behind, attributes)
        return True
    if layer.kind != "q_linear":
        return False
    dynamic = _quantized_by_its_range(layer.src)
    if dynamic is None:
        return False
    src, highest = dynamic
    layer.kind = "q_linear_dynamic"
    translation.look_through(node, *_between(layer.src, src))
    attributes["reduce_range"] = highest < _CODES
    layer.src = src
    _add(translation, layer, behind, attributes)
    return True


def _add(
    translation: Translation,
    layer: _Layer,
    behind: list[Node],
    attributes: dict[str, Any],
    other: Node | None = None,
) -> None:
    nodes = [*layer.nodes, *behind]
    reader = layer.nodes[0]
    src = layer.src
    if is_dequantize(src):
        attributes.update(quantizer_of(src).attributes("src"))
        translation.look_through(reader, src)
        src = source_of(src)
    translation.look_through(reader, layer.weight)
    weight = source_of(layer.weight)
    translation.begin(nodes, nodes[-1])
    inputs = [translation.read(src), translation.read(weight)]
    if layer.weight.target is DEQUANTIZE_CHANNELS:
        scales, zero_points = layer.weight.args[1:3]
        for node, dtype in ((scales, torch.float32), (zero_points, torch.int32)):
            sizes = tuple(node.meta["val"].shape)  # type: ignore[union-attr]
            made = translation.prepare(
                "cast", [translation.read_constant(node)], [Value(dtype, sizes)]
            )
            inputs += made
        attributes["per_channel"] = True
    else:
        attributes["weights_scale"], attributes["weights_zero_point"] = layer.weight.args[1:3]
    if layer.bias is not None:
        inputs.append(translation.read(layer.bias))
        attributes["bias"] = True
    if other is not None:
        inputs.append(translation.read(other))
    translation.op(layer.kind, inputs, nodes[-1], **layer.attributes, **attributes)
    translation.end()


# Finding


def _layer_with_result(translation: Translation, result: Node) -> _Layer | None:
    """Return the layer that has this result."""
    candidates = [result]
    if result.args and isinstance(result.args[0], Node):
        candidates.append(result.args[0])
    for node in candidates:
        layer = _layer_at(translation, node)
        if layer is not None and layer.result is result:
            return layer
    return None


def _layer_at(translation: Translation, node: Node) -> _Layer | None:
    if node.target is _aten.convolution.default:
        return _convolution(translation, node)
    if node.target is _aten.linear.default:
        given = arguments_of(node)
        src, copies = _before_copies(given["input"])
        nodes = [*reversed(copies), node]
        layer = _product(translation, nodes, src, given["weight"], given["bias"])
        if layer is not None and copies:
            translation.look_through(node, layer.weight)
        return layer
    if node.target is _aten.addmm.default:
        given = arguments_of(node)
        bias = given["self"]
        if given["beta"] != 1 or given["alpha"] != 1 or translation.tensor(bias).dim() != 1:
            return None
        return _rows_product(translation, node, given["mat1"], given["mat2"], bias)
    if node.target is _aten.mm.default:
        given = arguments_of(node)
        return _rows_product(translation, node, given["self"], given["mat2"], None)
    return None


def _convolution(translation: Translation, node: Node) -> _Layer | None:
    given = arguments_of(node)
    src, weight, bias = given["input"], given["weight"], given["bias"]
    transposed = bool(given["transposed"])
    dims = translation.tensor(node).dim() - 2
    if dims not in (1, 2, 3) or not _is_weight(translation, weight, 1 if transposed else 0):
        return None
    if bias is not None and not translation.is_constant(bias):
        return None
    if transposed and dims == 1:
        return None
    attributes: dict[str, Attribute] = {
        "strides": int_list(given["stride"], dims),
        "padding": int_list(given["padding"], dims),
        "dilations": int_list(given["dilation"], dims),
        "groups": given["groups"],
    }
    if transposed:
        attributes["transposed"] = True
        attributes["output_padding"] = int_list(given["output_padding"], dims)
    return _Layer("q_conv", [node], src, weight, bias, transposed, attributes)


def _rows_product(
    translation: Translation, node: Node, src: Any, weight: Any, bias: Any
) -> _Layer | None:
    source, transposed = matmul.untransposed(weight)
    if not transposed:
        return None
    rows = matmul.rows(translation, node, src)
    a, nodes = (src, [node]) if rows is None else (rows[0], [node, rows[1]])
    a, copies = _before_copies(a)
    between = [src, *copies] if rows is not None else copies
    layer = _product(translation, nodes, a, source, bias)
    if layer is not None:
        translation.look_through(node, weight, *between)
    return layer


def _before_copies(src: Node) -> tuple[Node, list[Node]]:
    """Return what copies of rows that are not in order are made of, and the copies.

    torch copies such rows before it flattens them. The step reads them as they are.
    """
    copies: list[Node] = []
    while src.target in _COPIES and only_user(src) is not None:
        before = source_of(src)
        if not same_sizes(before.meta["val"].shape, src.meta["val"].shape):
            break
        copies.append(src)
        src = before
    return src, copies


def _product(
    translation: Translation, nodes: list[Node], src: Any, weight: Any, bias: Any
) -> _Layer | None:
    if not _is_weight(translation, weight, 0):
        return None
    if bias is not None and not translation.is_constant(bias):
        return None
    return _Layer("q_linear", nodes, src, weight, bias)


def _is_weight(translation: Translation, node: Any, axis: int) -> bool:
    """Say whether a node dequantizes int8 weights, with one quantizer or one for each output."""
    if not isinstance(node, Node) or node.target not in (DEQUANTIZE, DEQUANTIZE_CHANNELS):
        return False
    source = source_of(node)
    if not translation.is_constant(source) or source.meta["val"].dtype != torch.int8:
        return False
    if node.target is DEQUANTIZE:
        return not any(isinstance(each, Node) for each in node.args[1:])
    return bool(node.args[3] == axis) and all(
        translation.is_constant(each) for each in (node.args[1], node.args[2])
    )


def _quantized_by_its_range(node: Node) -> tuple[Node, int] | None:
    """Return x and highest if `node` is x quantized by its range to 0..highest and dequantized.

    int8 from -128 to 127 counts as uint8: the numbers are the same.
    """
    if node.target is not DEQUANTIZE_BY_TENSORS:
        return None
    quantize = source_of(node)
    if quantize.target is not QUANTIZE_BY_TENSORS or quantize.args[1:] != node.args[1:]:
        return None
    scale: Any
    lowest: Any
    highest: Any
    scale, _, lowest, highest, dtype = quantize.args[1:6]
    chosen = scale.args[0]
    src = source_of(quantize)
    if chosen.target is not CHOOSE or chosen.args[0] is not src:
        return None
    if dtype == torch.int8:  # as uint8: 128 higher, as are the zero points that the range gives
        lowest, highest = lowest + _CODES // 2 + 1, highest + _CODES // 2 + 1
    if lowest != 0 or highest not in (_CODES // 2, _CODES):
        return None
    if dtype not in (torch.uint8, torch.int8) or src.meta["val"].dtype != torch.float32:
        return None
    return src, highest


def _between(node: Node, source: Node) -> list[Node]:
    """Return all nodes on the way from `source` to `node`."""
    found: dict[Node, None] = {}
    stack = [node]
    while stack:
        current = stack.pop()
        if current is not source and current not in found:
            found[current] = None
            stack.extend(current.all_input_nodes)
    return list(found)


MATCHES: Matches = {
    quantized: ("q_conv", "q_linear"),
    with_addition: ("q_conv",),
}
