"""Translates quantized attention: two products, with a quantized softmax between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel.compile.bridge._arguments import arguments_of, dimension, only_user
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import (
    is_dequantize,
    is_quantize,
    quantizer_of,
    source_of,
)
from cpuaccel.compile.bridge.shapes import VIEWS
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten

_IN_ORDER = frozenset({*VIEWS, _aten.clone.default, _aten.expand.default})
"""Ops between a product and its operands. They keep the order of elements; other uses do not match.
"""

_DIMENSIONS = (3, 4)


@dataclass
class _Attention:
    """softmax(scale * query keys + mask) values, and the nodes between these."""

    query: Node
    keys: Node
    values: Node
    weights: Node
    """Dequantized, as the others are."""
    scale: float = 1.0
    mask: Node | None = None
    nodes: list[Node] = field(default_factory=list)
    readers: list[tuple[Node, Node]] = field(default_factory=list)
    """Pairs of a reader and the dequantized operand that it reads."""


def quantized(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(dequantize(quantize(softmax(...))) dequantize(values))"""
    if found.functions:
        return False
    return _add(translation, found.anchor, [found.quantize])


def with_float_result(translation: Translation, node: Node) -> bool:
    """The same without a quantize of the result. `node` is the second product."""
    if node.target is not _aten.bmm.default:
        return False
    follows = only_user(node)
    in_heads = follows is not None and follows.target in VIEWS and _add(translation, follows, [])
    return in_heads or _add(translation, node, [])


def _add(translation: Translation, result: Node, behind: list[Node]) -> bool:
    attention = _attention_with_result(translation, result)
    if attention is None:
        return False
    nodes = [*attention.nodes, *behind]
    if any(node in translation.unit_of for node in nodes):
        return False
    attributes: dict[str, Any] = {"scale": attention.scale}
    for name, node in (
        ("query", attention.query),
        ("key", attention.keys),
        ("value", attention.values),
        ("weight", attention.weights),
        *(("dst", node) for node in behind),
    ):
        attributes.update(quantizer_of(node).attributes(name))
    for reader, source in attention.readers:
        translation.look_through(reader, source)
    translation.begin(nodes, nodes[-1])
    operands = [source_of(each) for each in (attention.query, attention.keys, attention.values)]
    if attention.mask is not None:
        operands.append(attention.mask)
    inputs = [translation.read(each) for each in operands]
    translation.op("q_attention", inputs, nodes[-1], **attributes)
    translation.end()
    return True


def _attention_with_result(translation: Translation, result: Node) -> _Attention | None:
    second = _product_of(result)
    if second is None:
        return None
    weights, to_weights = _operand(second, 0)
    values, to_values = _operand(second, 1)
    if not (is_dequantize(weights) and is_dequantize(values)):
        return None
    rounded = source_of(weights)
    softmax = source_of(rounded)
    if not (is_quantize(rounded) and quantizer_of(rounded) == quantizer_of(weights)):
        return None
    scores = _softmax_source(translation, softmax)
    if scores is None:
        return None
    found = _Attention(weights, weights, values, weights)
    between = [softmax, rounded, weights]
    first = _scores(translation, scores, found, between)
    if first is None:
        return None
    found.query, to_query = _operand(first, 0)
    found.keys, to_keys = _operand(first, 1)
    if not (is_dequantize(found.query) and is_dequantize(found.keys)):
        return None
    ways = (to_query, to_keys, between, to_weights, to_values, [second, result])
    found.nodes = list(dict.fromkeys(node for way in ways for node in way))
    if any(only_user(node) is None for node in found.nodes if node is not result):
        return None
    if any(each in found.nodes for each in (found.query, found.keys, found.values, found.mask)):
        return None
    found.readers = [
        (path[0] if path else product, source)
        for product, path, source in (
            (first, to_query, found.query),
            (first, to_keys, found.keys),
            (second, to_values, found.values),
        )
    ]
    return found if _have_matching_sizes(translation, found, result, softmax) else None


def _scores(
    translation: Translation, node: Node, found: _Attention, between: list[Node]
) -> Node | None:
    """Return the first product, from which scaling and a mask make `node`."""
    if node.target is _aten.add.Tensor:
        given = arguments_of(node)
        pair = (given["self"], given["other"])
        if given["alpha"] != 1 or not all(isinstance(each, Node) for each in pair):
            return None
        for scores, mask in (pair, pair[::-1]):
            inside: list[Node] = []
            product = _scaled(scores, found, inside)
            if product is not None and _is_mask(translation, mask, node):
                found.mask = mask
                between[:0] = [*inside, node]
                return product
        return None
    inside = []
    product = _scaled(node, found, inside)
    between[:0] = inside
    return product


def _scaled(node: Node, found: _Attention, inside: list[Node]) -> Node | None:
    """Return the product that is scaled by numbers; add the scaling nodes to `inside`."""
    scale = 1.0
    while node.target in (_aten.mul.Tensor, _aten.div.Tensor):
        given = arguments_of(node)
        number = given["other"]
        if not isinstance(given["self"], Node) or not isinstance(number, (int, float)):
            return None
        if number == 0 or only_user(node) is None:
            return None
        scale = scale / number if node.target is _aten.div.Tensor else scale * number
        inside.insert(0, node)
        node = given["self"]
    product = _product_of(node)
    if product is None:
        return None
    inside[:0] = list(dict.fromkeys((product, node)))
    found.scale = float(scale)
    return product


def _softmax_source(translation: Translation, softmax: Node) -> Node | None:
    """Return the source of `softmax` if it is in float32 over the last dimension."""
    if softmax.target not in (_aten.softmax.int, _aten._softmax.default):
        return None
    given = arguments_of(softmax)
    if given.get("dtype") not in (None, torch.float32) or given.get("half_to_float"):
        return None
    source = given["self"]
    value = translation.tensor(source)
    last = value.dim() - 1
    return (
        source
        if value.dtype == torch.float32 and dimension(given["dim"], last + 1) == last
        else None
    )


def _is_mask(translation: Translation, mask: Node, scores: Node) -> bool:
    value = translation.tensor(mask)
    sizes = translation.tensor(scores).shape
    pairs = zip(reversed(value.shape), reversed(sizes), strict=False)
    return (
        value.dtype == torch.float32
        and value.dim() <= len(sizes)
        and all(statically_known_true(a == 1) or statically_known_true(a == b) for a, b in pairs)
    )


def _product_of(node: Node) -> Node | None:
    """Return the product whose result `node` is, directly or as a view with the heads split."""
    product = node.args[0] if node.target in VIEWS else node
    if not isinstance(product, Node) or product.target is not _aten.bmm.default:
        return None
    alike = _same_matrices(product.meta["val"], node.meta["val"])
    return product if product is node or (alike and only_user(product) is node) else None


def _operand(product: Node, index: int) -> tuple[Node, list[Node]]:
    """Return the source of a product's operand, in the same order, and the nodes in between."""
    path: list[Node] = []
    node: Any = product.args[index]
    while node.target in _IN_ORDER and isinstance(node.args[0], Node):
        if not _same_matrices(node.args[0].meta["val"], node.meta["val"]):
            break
        path.insert(0, node)
        node = node.args[0]
    return node, path


def _same_matrices(before: Tensor, after: Tensor) -> bool:
    """Say whether tensors with the same elements have the same matrices in the last dimensions."""
    return min(before.dim(), after.dim()) >= _DIMENSIONS[0] and all(
        statically_known_true(a == b)
        for a, b in (
            *zip(before.shape[-2:], after.shape[-2:], strict=True),
            (before.numel(), after.numel()),
        )
    )


def _have_matching_sizes(
    translation: Translation, found: _Attention, result: Node, softmax: Node
) -> bool:
    query, keys, values, dst, scores = (
        translation.tensor(each).shape
        for each in (found.query, found.keys, found.values, result, softmax)
    )
    if len(dst) not in _DIMENSIONS or any(
        len(each) != len(dst) for each in (query, keys, values, scores)
    ):
        return False
    *heads, L, E = dst
    S = scores[-1]
    wanted = ((query, (L, E)), (keys, (E, S)), (values, (S, E)), (scores, (L, S)))
    return all(
        statically_known_true(a == b)
        for sizes, matrix in wanted
        for a, b in zip(sizes, (*heads, *matrix), strict=True)
    )


MATCHES: Matches = {quantized: ("q_attention",)}
