"""Translates RMS norm: as one op of torch, and as the ops of which models write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import (
    STEP_DTYPES,
    arguments_of,
    common_float_dtype,
    first_result,
    is_cast,
    only_user,
    other_operand,
)
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.translation import Fallback, Translation

_aten: Any = torch.ops.aten

KINDS = frozenset({"rms_norm"})
"""Kinds of ops that cpuaccel runs: csrc/plan/norm_step.h."""

_ADDITIONS = (_aten.add.Tensor, _aten.add.Scalar)


@dataclass(frozen=True)
class _Norm:
    """The nodes of a norm, and its operands; dst = src / root * (weight + offset)."""

    nodes: list[Node]
    src: Node
    epsilon: float
    weight: Node | None = None
    offset: float = 0.0


def _of_torch(translation: Translation, node: Node) -> None:
    """Translate aten.rms_norm, and _fused_rms_norm, which also returns the inverse roots."""
    given = arguments_of(node)
    if len(given["normalized_shape"]) != 1:
        raise Fallback("RMS norm over several dimensions")
    nodes = [node]
    if isinstance(node.meta["val"], (list, tuple)):
        result = first_result(node)
        if result is None:
            raise Fallback("the inverse roots are used")
        nodes.append(result)
    epsilon = given["eps"]
    if epsilon is None:
        epsilon = torch.finfo(torch.float32).eps
    norm = _Norm(nodes, given["input"], float(epsilon), given["weight"])
    if not _is_supported(translation, norm):
        raise Fallback("RMS norm of mixed dtypes, or computed weights")
    _add(translation, norm)


def match(translation: Translation, root: Node) -> bool:
    """Translate the norm of which `root` is the inverse root, if it is one."""
    norm = _squares_before(root)
    norm = norm and _product_behind(norm, root)
    found = norm and _weighted(translation, norm)
    if not found or not _is_supported(translation, found):
        return False
    _add(translation, found)
    return True


def _squares_before(root: Node) -> _Norm | None:
    """Return the norm up to its inverse root: rsqrt(mean(x * x) + epsilon)."""
    if root.target is _aten.pow.Tensor_Scalar and root.args[1] != -0.5:
        return None
    sum_: Any = root.args[0]
    if sum_.target not in _ADDITIONS or not isinstance(sum_.args[1], (int, float)):
        return None
    mean = sum_.args[0]
    if mean.target is not _aten.mean.dim or sum_.kwargs.get("alpha", 1) != 1:
        return None
    given = arguments_of(mean)
    square = given["self"]
    rank = mean.meta["val"].dim()
    if [dim % rank for dim in given["dim"] or ()] != [rank - 1] or not given["keepdim"]:
        return None
    if given["dtype"] not in (None, mean.meta["val"].dtype):
        return None
    of_itself = square.target is _aten.mul.Tensor and square.args[0] is square.args[1]
    if not of_itself and (square.target is not _aten.pow.Tensor_Scalar or square.args[1] != 2):
        return None
    if any(only_user(node) is None for node in (square, mean, sum_)):
        return None
    return _Norm([square, mean, sum_, root], square.args[0], float(sum_.args[1]))


def _product_behind(norm: _Norm, root: Node) -> _Norm | None:
    """Return the norm with the product x * root; its src is what x is a cast of."""
    product = only_user(root)
    if product is None or product.target is not _aten.mul.Tensor:
        return None
    square = norm.nodes[0]
    x: Any = norm.src
    factor = other_operand(product, root)
    nodes = [*norm.nodes, product]
    if is_cast(x) and x.meta["val"].dtype == torch.float32:
        # T5 squares a cast of what it multiplies.
        readers = {square, product} if factor is x else {square}
        if factor in (x, x.args[0]) and set(x.users) == readers:
            return _Norm([x, *nodes], x.args[0], norm.epsilon)
    return _Norm(nodes, x, norm.epsilon) if factor is x else None


def _weighted(translation: Translation, norm: _Norm) -> _Norm | None:
    """Return the norm with its weight and casts, as far as it ends in the dtype of its source."""
    dtype = norm.src.meta["val"].dtype
    found = norm if norm.nodes[-1].meta["val"].dtype == dtype else None
    while (follows := only_user(norm.nodes[-1])) is not None:
        if is_cast(follows):
            norm = _Norm([*norm.nodes, follows], norm.src, norm.epsilon, norm.weight, norm.offset)
        elif norm.weight is None and follows.target is _aten.mul.Tensor:
            weight, offset, nodes = _weight_of(
                translation, other_operand(follows, norm.nodes[-1]), follows
            )
            if weight is None:
                break
            norm = _Norm([*norm.nodes, *nodes, follows], norm.src, norm.epsilon, weight, offset)
        else:
            break
        if norm.nodes[-1].meta["val"].dtype == dtype:
            found = norm
    return found


def _weight_of(
    translation: Translation, factor: Any, product: Node
) -> tuple[Node | None, float, list[Node]]:
    """Return a constant weight, what is added to it, and the node of that addition."""
    if translation.is_constant(factor):
        return factor, 0.0, []
    if (
        isinstance(factor, Node)
        and factor.target in _ADDITIONS
        and translation.is_constant(factor.args[0])
        and isinstance(factor.args[1], (int, float))
        and factor.kwargs.get("alpha", 1) == 1
        and only_user(factor) is product
    ):
        weight: Any = factor.args[0]
        return weight, float(factor.args[1]), [factor]
    return None, 0.0, []


def _is_supported(translation: Translation, norm: _Norm) -> bool:
    result = translation.tensor(norm.nodes[-1])
    dtype = common_float_dtype(translation, norm.src, norm.nodes[-1])
    columns = result.shape[-1] if result.dim() else None
    if dtype not in STEP_DTYPES or not isinstance(columns, int):
        return False
    if norm.weight is None:
        return True
    weight = norm.weight.meta["val"]
    return (
        translation.is_constant(norm.weight)
        and weight.dtype in STEP_DTYPES
        and tuple(weight.shape) == (columns,)
    )


def _add(translation: Translation, norm: _Norm) -> None:
    translation.begin(norm.nodes, norm.nodes[-1])
    inputs = [translation.read(norm.src)]
    if norm.weight is not None:
        value = norm.weight.meta["val"]
        number = translation.read(norm.weight)
        if value.dtype != torch.float32:
            like = Value(torch.float32, tuple(value.shape))
            (number,) = translation.prepare("cast", [number], [like])
        inputs.append(number)
    translation.op(
        "rms_norm", inputs, norm.nodes[-1], epsilon=norm.epsilon, weight_offset=norm.offset
    )


TRANSLATIONS = {
    _aten.rms_norm.default: _of_torch,
    _aten._fused_rms_norm.default: _of_torch,
}

PATTERNS = {_aten.rsqrt.default: match, _aten.pow.Tensor_Scalar: match}
"""Functions that translate ops of which the key is a part. They say whether they did."""
