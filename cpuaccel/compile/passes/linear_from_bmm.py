"""Turns linear layers that torch traced as batched products (bmm) back into aten.linear.

at::matmul cannot flatten a source whose rows are not in order, and expands the weight for each of
its matrices: linear(src, weight, bias) is traced as

    add(view(bmm(view(expand(src)), view(expand(permute(weight))))), bias)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel._inductor.nodes import call, keep_origin
from cpuaccel.compile.bridge._arguments import arguments_of, only_user, same_sizes
from cpuaccel.compile.bridge.matmul import untransposed
from cpuaccel.compile.bridge.shapes import VIEWS

_aten: Any = torch.ops.aten

_MAY_BE_SAME = (*VIEWS, _aten.expand.default)


@dataclass(frozen=True)
class Linear:
    """A linear layer in any of the forms that a graph may have."""

    result: Node
    src: Node
    weight: Node
    transposed: bool
    """Whether `weight` is (N, K), as in aten.linear, instead of (K, N)."""
    bias: Node | None

    def call(self, graph: Graph, src: Node) -> Node:
        """Add an aten.linear of `src` before this layer's result, and return it."""
        with graph.inserting_before(self.result):
            weight = self.weight
            if not self.transposed:
                weight = call(graph, _aten.permute.default, weight, [1, 0])
                keep_origin(self.result, weight)
            bias = () if self.bias is None else (self.bias,)
            linear = call(graph, _aten.linear.default, src, weight, *bias)
        keep_origin(self.result, linear)
        return linear


def restore_linears(graph: Graph) -> None:
    """Put aten.linear where `graph` multiplies a batch of matrices by one expanded matrix."""
    for product in graph.find_nodes(op="call_function", target=_aten.bmm.default):
        layer = _layer_of(product)
        if layer is not None:
            _put(graph, layer)


def _layer_of(product: Node) -> Linear | None:
    operands: Any = product.args
    matrix = _expanded_matrix(operands[1])
    if matrix is None:
        return None
    src, result = _unflattened(_before_same_sizes(operands[0]), product)
    follows = only_user(result)
    bias = None if follows is None else _bias_of(follows, result, matrix)
    if follows is not None and bias is not None:
        result = follows
    return Linear(result, src, *untransposed(matrix), bias)


def _expanded_matrix(weights: Node) -> Node | None:
    """Return the matrix that `weights` expands to a batch, if it does."""
    node: Any = weights
    sizes = node.meta["val"].shape[-2:]
    while node.target in _MAY_BE_SAME and same_sizes(node.meta["val"].shape[-2:], sizes):
        node = node.args[0]
    value = node.meta["val"]
    return node if value.dim() == 2 and same_sizes(value.shape, sizes) else None


def _unflattened(flat: Node, product: Node) -> tuple[Node, Node]:
    """Return the source and the result in their dimensions outside of the batched product."""
    result = only_user(product)
    if result is None or result.target not in VIEWS:
        return flat, product
    if _has_rows_of(flat, result):
        return flat, result
    if flat.target in VIEWS:
        src = _before_same_sizes(flat.args[0])
        width = src.meta["val"].shape[-1:]
        if same_sizes(width, flat.meta["val"].shape[-1:]) and _has_rows_of(src, result):
            return src, result
    return flat, product


def _has_rows_of(a: Node, b: Node) -> bool:
    return same_sizes(a.meta["val"].shape[:-1], b.meta["val"].shape[:-1])


def _bias_of(add: Node, result: Node, matrix: Node) -> Node | None:
    """Return the bias that `add` adds to each row of `result`, if it does."""
    if add.target is not _aten.add.Tensor or arguments_of(add)["alpha"] != 1:
        return None
    product, other = add.args
    value = other.meta["val"] if isinstance(other, Node) else None
    if product is not result or not isinstance(value, Tensor) or value.dim() != 1:
        return None
    known = matrix.meta["val"]
    if value.dtype != known.dtype or not statically_known_true(value.shape[0] == known.shape[1]):
        return None
    return other if isinstance(other, Node) else None


def _before_same_sizes(node: Any) -> Node:
    """Return the node before the views and expands that keep the sizes of `node`."""
    sizes = node.meta["val"].shape
    while node.target in _MAY_BE_SAME and same_sizes(node.args[0].meta["val"].shape, sizes):
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def _put(graph: Graph, layer: Linear) -> None:
    linear = layer.call(graph, layer.src)
    linear.meta = dict(layer.result.meta)
    layer.result.replace_all_uses_with(linear)
    _erase(graph, layer.result)


def _erase(graph: Graph, node: Node) -> None:
    """Erase `node`, and the nodes of the layer that only it has read."""
    read = node.all_input_nodes
    graph.erase_node(node)
    for each in read:
        if not each.users and each.target in (_aten.bmm.default, *_MAY_BE_SAME):
            _erase(graph, each)


DECOMPOSITIONS = {_aten.linear.default: _aten.linear.default.decompose}
"""The decomposition of linear layers that stay, the same as at::linear's."""
