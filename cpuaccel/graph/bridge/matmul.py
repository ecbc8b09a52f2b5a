"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.graph.bridge._arguments import bound, floats
from cpuaccel.graph.translation import Refused, Translation

_aten: Any = torch.ops.aten


def _mm(translation: Translation, node: Node) -> None:
    given = bound(node)
    _product(translation, node, given["self"], given["mat2"], None)


def _addmm(translation: Translation, node: Node) -> None:
    given = bound(node)
    if given["beta"] != 1 or given["alpha"] != 1:
        raise Refused("alpha or beta")
    bias = given["self"]
    if translation.tensor(bias).dim() != 1:
        raise Refused("a bias of two dimensions")
    _product(translation, node, given["mat1"], given["mat2"], bias)


def _linear(translation: Translation, node: Node) -> None:
    given = bound(node)
    weight, bias = given["weight"], given["bias"]
    floats(translation, *(each for each in (given["input"], weight, bias) if each is not None))
    translation.begin([node], node)
    inputs = [translation.read(given["input"]), translation.read(weight)]
    if bias is not None:
        inputs.append(translation.read(bias))
    translation.op("MatMul", inputs, node, transpose_a=False, transpose_b=True)


def _product(translation: Translation, node: Node, src: Any, weight: Any, bias: Any) -> None:
    floats(translation, *(each for each in (src, weight, bias) if each is not None))
    a, transpose_a = _untransposed(src)
    b, transpose_b = _untransposed(weight)
    translation.looked_through.update(
        node for node, source in ((src, a), (weight, b)) if node is not source
    )
    translation.begin([node], node)
    inputs = [translation.read(a), translation.read(b)]
    if bias is not None:
        inputs.append(translation.read(bias))
    translation.op("MatMul", inputs, node, transpose_a=transpose_a, transpose_b=transpose_b)


def _untransposed(node: Any) -> tuple[Any, bool]:
    """Return what `node` is the last two dimensions of which exchanged, if it is that."""
    if node.target is _aten.permute.default:
        source, order = node.args
        rank = len(order)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        if rank >= 2 and [dim % rank for dim in order] == swapped:
            return source, True
    if node.target is _aten.transpose.int:
        rank = node.meta["val"].dim()
        if {dim % rank for dim in node.args[1:]} == {rank - 2, rank - 1}:
            return node.args[0], True
    return node, False


TRANSLATIONS = {
    _aten.mm.default: _mm,
    _aten.bmm.default: _mm,
    _aten.addmm.default: _addmm,
    _aten.linear.default: _linear,
}
