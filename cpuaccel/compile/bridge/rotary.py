"""Translates rotary position embedding: x * cos + rotate_half(x) * sin, of all or some columns."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import (
    STEP_DTYPES,
    arguments_of,
    common_float_dtype,
    only_user,
    other_operand,
    same_sizes,
)
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten

KINDS = frozenset({"rotary"})
"""Kinds of ops that cpuaccel runs: csrc/plan/rotary_step.h."""

_RANK = 4


def match(translation: Translation, negative: Node) -> bool:
    """Translate the embedding in which `negative` negates the upper half, if it is one."""
    found = _halves(negative)
    if found is None:
        return False
    x, nodes = found
    turned = nodes[-1]
    by_sin = only_user(turned)
    if not _is(by_sin, _aten.mul.Tensor):
        return False
    sum_ = only_user(by_sin)
    if not _is(sum_, _aten.add.Tensor) or sum_.kwargs.get("alpha", 1) != 1:
        return False
    by_cos = other_operand(sum_, by_sin)
    if not _is(by_cos, _aten.mul.Tensor) or only_user(by_cos) is not sum_:
        return False
    tables = [other_operand(by_cos, x), other_operand(by_sin, turned)]
    if not all(_is_table(each, x) for each in tables):
        return False
    nodes += [by_cos, by_sin, sum_]
    x, nodes = _with_rest(x, nodes)
    result = nodes[-1]
    if not same_sizes(result.meta["val"].shape, x.meta["val"].shape):
        return False
    if common_float_dtype(translation, x, result) not in STEP_DTYPES:
        return False
    translation.begin(nodes, result)
    translation.op("rotary", [translation.read(each) for each in (x, *tables)], result)
    return True


def _is(node: Any, target: Any) -> TypeGuard[Node]:
    return isinstance(node, Node) and node.target is target


def _halves(negative: Node) -> tuple[Node, list[Node]] | None:
    """Return x and the nodes of cat([-x[..., half:], x[..., :half]], -1)."""
    high: Any = negative.args[0]
    turned = only_user(negative)
    if not _is(turned, _aten.cat.default) or only_user(high) is not negative:
        return None
    given = arguments_of(turned)
    parts = given["tensors"]
    if len(parts) != 2 or parts[0] is not negative or only_user(parts[1]) is not turned:
        return None
    low = parts[1]
    of_high, of_low = _columns(high), _columns(low)
    if of_high is None or of_low is None or of_high[0] is not of_low[0]:
        return None
    x = of_high[0]
    width = x.meta["val"].shape[-1]
    if given["dim"] % _RANK != _RANK - 1 or width % 2:
        return None
    if of_low[1:] != (0, width // 2) or of_high[1:] != (width // 2, width):
        return None
    return x, [high, low, negative, turned]


def _columns(node: Any) -> tuple[Node, int, int] | None:
    """Return x, begin and end if `node` is columns of x, a tensor of four dimensions."""
    if not _is(node, _aten.slice.Tensor):
        return None
    given = arguments_of(node)
    source = given["self"]
    value = source.meta["val"]
    if value.dim() != _RANK or given["dim"] % _RANK != _RANK - 1 or given["step"] != 1:
        return None
    width = value.shape[-1]
    begin = given["start"] or 0
    end = width if given["end"] is None else given["end"]
    if not all(isinstance(each, int) for each in (width, begin, end)):
        return None
    places = [each + width if each < 0 else min(each, width) for each in (begin, end)]
    return source, places[0], places[1]


def _is_table(table: Any, x: Node) -> bool:
    """Say whether `table` has the columns of x, and is the same for all heads."""
    value = table.meta.get("val") if isinstance(table, Node) else None
    of_x = x.meta["val"]
    if not isinstance(value, torch.Tensor) or value.dtype not in (of_x.dtype, torch.float32):
        return False
    sizes = [1] * (_RANK - value.dim()) + list(value.shape)
    if len(sizes) != _RANK or not same_sizes(sizes[-1:], of_x.shape[-1:]):
        return False
    return any(isinstance(size, int) and size == 1 for size in sizes[1:3])


def _with_rest(x: Node, nodes: list[Node]) -> tuple[Node, list[Node]]:
    """Return the whole tensor and all nodes if x is its first columns and the rest is kept."""
    joined = only_user(nodes[-1])
    if not _is(joined, _aten.cat.default):
        return x, nodes
    given = arguments_of(joined)
    parts = given["tensors"]
    rest = _columns(parts[1]) if len(parts) == 2 else None
    if (
        rest is None
        or parts[0] is not nodes[-1]
        or given["dim"] % _RANK != _RANK - 1
        or only_user(parts[1]) is not joined
    ):
        return x, nodes
    whole = rest[0]
    width = whole.meta["val"].shape[-1]
    if whole is x:  # all columns are embedded, and the rest is empty
        return (x, [*nodes, parts[1], joined]) if rest[1:] == (width, width) else (x, nodes)
    first = _columns(x)
    if first is None or first[:2] != (whole, 0) or rest[1:] != (first[2], width):
        return x, nodes
    return (whole, [x, *nodes, parts[1], joined]) if set(x.users) <= set(nodes) else (x, nodes)


PATTERNS = {_aten.neg.default: match}
"""Functions that translate ops of which the key is a part. They say whether they did."""
