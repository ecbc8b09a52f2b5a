"""Masks of attention that are sums of two parts, as for relative positions in images.

rows[..., :, None] + columns[..., None, :] has an element for each pair of a query and a key.
cpuaccel's attention adds the parts up itself, so that the sum is neither written nor read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of
from cpuaccel.compile.bridge.shapes import RESHAPES

_aten: Any = torch.ops.aten


@dataclass(frozen=True)
class MaskSum:
    """The operands of the sum, the rows first, and the nodes from the sum to the mask."""

    parts: tuple[Node, Node]
    between: tuple[Node, ...]


def mask_sum_of(mask: Node, sizes: tuple[Any, ...]) -> MaskSum | None:
    """Return the parts of a mask of `sizes`, which are N, H, L and S; None if it has no parts."""
    between = [mask]
    while between[-1].target in RESHAPES and isinstance(between[-1].args[0], Node):
        between.append(between[-1].args[0])
    sum_ = between[-1]
    if sum_.target is not _aten.add.Tensor or arguments_of(sum_)["alpha"] != 1:
        return None
    parts = [arguments_of(sum_)[name] for name in ("self", "other")]
    if not all(isinstance(each, Node) for each in parts):
        return None
    values = [each.meta["val"] for each in (mask, sum_, *parts)]
    shapes = [tuple(value.shape) for value in values]
    if any(not isinstance(size, int) for shape in (sizes, *shapes) for size in shape):
        return None
    of_mask, of_sum, *of_parts = shapes
    if len(of_sum) < 3 or of_mask != sizes or of_sum[-2] * of_sum[-1] != sizes[-1]:
        return None
    if any(value.dtype != values[0].dtype for value in values):
        return None
    *leading, R, C = of_sum
    wanted = [(*leading, R, 1), (*leading, 1, C)]
    if of_parts == wanted:
        return MaskSum((parts[0], parts[1]), tuple(between))
    if of_parts == wanted[::-1]:
        return MaskSum((parts[1], parts[0]), tuple(between))
    return None
