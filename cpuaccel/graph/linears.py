"""Linear layers that torch made products of batches, as linear layers again.

at::matmul cannot flatten a source whose rows do not lie in order, and repeats the weight for each
of its matrices: linear(src, weight, bias) is traced as

    add(view(bmm(view(expand(src)), view(expand(permute(weight))))), bias)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel._inductor.nodes import keep_origin
from cpuaccel.graph.bridge._arguments import bound, only_user, same_sizes
from cpuaccel.graph.bridge.matmul import untransposed
from cpuaccel.graph.bridge.shapes import VIEWS

_aten: Any = torch.ops.aten

_MAY_BE_SAME = (*VIEWS, _aten.expand.default)


@dataclass(frozen=True)
class _Layer:
    src: Node
    matrix: Node
    """(K, N): the transpose of a weight."""
    bias: Node | None
    result: Node


def rejoin(graph: Graph) -> None:
    """Put aten.linear where `graph` multiplies a batch of matrices by one matrix repeated."""
    for product in graph.find_nodes(op="call_function", target=_aten.bmm.default):
        layer = _layer_of(product)
        if layer is not None:
            _put(graph, layer)


def _layer_of(product: Node) -> _Layer | None:
    operands: Any = product.args
    matrix = _repeated(operands[1])
    if matrix is None:
        return None
    src, result = _unflattened(_before_same(operands[0]), product)
    follows = only_user(result)
    bias = None if follows is None else _bias_of(follows, result, matrix)
    if follows is not None and bias is not None:
        result = follows
    return _Layer(src, matrix, bias, result)


def _repeated(weights: Node) -> Node | None:
    """Return the matrix that `weights` has again and again, if it is of one."""
    node: Any = weights
    sizes = node.meta["val"].shape[-2:]
    while node.target in _MAY_BE_SAME and _same(node.meta["val"].shape[-2:], sizes):
        node = node.args[0]
    value = node.meta["val"]
    return node if value.dim() == 2 and _same(value.shape, sizes) else None


def _unflattened(flat: Node, product: Node) -> tuple[Node, Node]:
    """Return what is multiplied, and the result, in the dimensions that they have outside."""
    result = only_user(product)
    if result is None or result.target not in VIEWS:
        return flat, product
    if _has_rows_of(flat, result):
        return flat, result
    if flat.target in VIEWS:
        src = _before_same(flat.args[0])
        width = src.meta["val"].shape[-1:]
        if _same(width, flat.meta["val"].shape[-1:]) and _has_rows_of(src, result):
            return src, result
    return flat, product


def _has_rows_of(a: Node, b: Node) -> bool:
    return _same(a.meta["val"].shape[:-1], b.meta["val"].shape[:-1])


def _same(sizes: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(sizes) == len(others) and all(
        statically_known_true(size == other) for size, other in zip(sizes, others, strict=True)
    )


def _bias_of(add: Node, result: Node, matrix: Node) -> Node | None:
    """Return what `add` adds to each row of `result`, if it does that."""
    if add.target is not _aten.add.Tensor or bound(add)["alpha"] != 1:
        return None
    product, other = add.args
    value = other.meta["val"] if isinstance(other, Node) else None
    if product is not result or not isinstance(value, Tensor) or value.dim() != 1:
        return None
    known = matrix.meta["val"]
    if value.dtype != known.dtype or not statically_known_true(value.shape[0] == known.shape[1]):
        return None
    return other if isinstance(other, Node) else None


def _before_same(node: Any) -> Node:
    """Return what `node` is by way of views, and repetitions, that leave its sizes as they are."""
    while node.target in _MAY_BE_SAME and same_sizes(node.args[0].meta["val"], node.meta["val"]):
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def _put(graph: Graph, layer: _Layer) -> None:
    last = layer.result
    weight, transposed = untransposed(layer.matrix)
    with graph.inserting_before(last):
        if not transposed:
            weight = graph.call_function(_aten.permute.default, (layer.matrix, [1, 0]))
            weight.meta["val"] = layer.matrix.meta["val"].t()
            keep_origin(last, weight)
        bias = () if layer.bias is None else (layer.bias,)
        linear = graph.call_function(_aten.linear.default, (layer.src, weight, *bias))
    linear.meta = dict(last.meta)
    last.replace_all_uses_with(linear)
    _erase(graph, last)


def _erase(graph: Graph, node: Node) -> None:
    """Erase `node`, and what only it has read of what a layer is made of."""
    read = node.all_input_nodes
    graph.erase_node(node)
    for each in read:
        if not each.users and each.target in (_aten.bmm.default, *_MAY_BE_SAME):
            _erase(graph, each)


TAKEN_APART = {_aten.linear.default: _aten.linear.default.decompose}
"""What is left of them, as at::linear does it."""
