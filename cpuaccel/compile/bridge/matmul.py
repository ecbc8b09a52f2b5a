"""Translates matrix products: mm, bmm, addmm and linear."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel.compile.bridge._arguments import arguments_of, common_float_dtype, only_user
from cpuaccel.compile.bridge.shapes import VIEWS, permutation
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of

_aten: Any = torch.ops.aten


def _mm(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    _product(translation, node, given["self"], given["mat2"], None)


def _addmm(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    if given["beta"] != 1 or given["alpha"] != 1:
        raise Fallback("alpha or beta is not 1")
    addend = given["self"]
    if translation.tensor(addend).dim() == 0:
        raise Fallback("a 0-D tensor")
    _product(translation, node, given["mat1"], given["mat2"], addend)


def _linear(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    weight, transposed = untransposed(given["weight"])
    if transposed:
        translation.look_through(node, given["weight"])
    operands = [given["input"], weight, given["bias"]]
    _multiply(translation, [node], operands, transpose_a=False, transpose_b=not transposed)


def _product(translation: Translation, node: Node, src: Any, weight: Any, addend: Any) -> None:
    b, transpose_b = untransposed(weight)
    flat = None if _is_matrix(translation, addend) else rows(translation, node, src)
    if flat is not None:
        (a, result), transpose_a = flat, False
        nodes = [node, result]
    else:
        a, transpose_a = untransposed(src)
        nodes = [node]
    translation.look_through(
        node, *(given for given, source in ((src, a), (weight, b)) if given is not source)
    )
    _multiply(translation, nodes, [a, b, addend], transpose_a, transpose_b)


def _multiply(
    translation: Translation,
    nodes: list[Node],
    operands: list[Any],
    transpose_a: bool,
    transpose_b: bool,
) -> None:
    """Multiply the first two operands and add the third, if any; the last node is the result."""
    operands = [operand for operand in operands if operand is not None]
    common_float_dtype(translation, *operands)
    translation.begin(nodes, nodes[-1])
    inputs = [translation.read(operand) for operand in operands]
    attributes: dict[str, Any] = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    if not _is_matrix(translation, operands[-1] if len(operands) > 2 else None):
        translation.op("MatMul", inputs, nodes[-1], **attributes)
        return
    like = value_of(translation.tensor(nodes[-1]))
    product = translation.op("MatMul", inputs[:2], like=like, **attributes)
    translation.op("Add", [product, inputs[2]], nodes[-1], auto_broadcast="numpy")


def _is_matrix(translation: Translation, addend: Any) -> bool:
    """Say whether the addend is a matrix, with a number for each element, instead of a bias."""
    return addend is not None and translation.tensor(addend).dim() > 1


def rows(translation: Translation, node: Node, src: Any) -> tuple[Node, Node] | None:
    """Return x and y if `node` multiplies the rows of x, and y is the result in x's dimensions.

    torch flattens all dimensions of x but the last before a product, and restores them after it.
    """
    result = only_user(node)
    if src.target not in VIEWS or result is None or result.target not in VIEWS:
        return None
    source: Any = src.args[0]
    before, after = translation.tensor(source), translation.tensor(result)
    flat, product = translation.tensor(src), translation.tensor(node)
    if before.dim() < 2 or flat.dim() != 2 or after.dim() != before.dim():
        return None
    same = [
        *zip(before.shape[:-1], after.shape[:-1], strict=True),
        (before.shape[-1], flat.shape[-1]),
        (after.shape[-1], product.shape[-1]),
    ]
    if not all(statically_known_true(a == b) for a, b in same):
        return None
    return source, result


def untransposed(node: Any) -> tuple[Any, bool]:
    """Return the source whose last two dimensions `node` swaps, and True; else `node` and False."""
    value = node.meta.get("val")
    rank = value.dim() if isinstance(value, Tensor) else 0
    if rank >= 2 and permutation(node, rank) == [*range(rank - 2), rank - 1, rank - 2]:
        return node.args[0], True
    return node, False


TRANSLATIONS = {
    _aten.mm.default: _mm,
    _aten.bmm.default: _mm,
    _aten.addmm.default: _addmm,
    _aten.linear.default: _linear,
}
