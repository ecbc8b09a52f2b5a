"""Reads and checks the arguments of FX nodes for the translations."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel.compile.bridge.translation import Fallback, Translation

BATCH_NORM_ARGUMENTS = ("weight", "bias", "running_mean", "running_var")
"""Arguments of a batch norm that have one element for each channel."""


def arguments_of(node: Node) -> dict[str, Any]:
    """Return the arguments of `node` by name, including defaults."""
    target: Any = node.target
    values = {}
    for index, argument in enumerate(target._schema.arguments):
        if index < len(node.args) and not argument.kwarg_only:
            values[argument.name] = node.args[index]
        elif argument.name in node.kwargs:
            values[argument.name] = node.kwargs[argument.name]
        else:
            values[argument.name] = argument.default_value
    return values


def int_list(value: Any, count: int) -> list[int]:
    """Return `count` integers; a single one is repeated `count` times."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if any(not isinstance(each, int) for each in values):
        raise Fallback("dynamic size")
    return values * count if len(values) == 1 else values


def image_sizes(translation: Translation, node: Any) -> list[int]:
    """Return the sizes of a tensor after batch and channels; only the batch may be dynamic."""
    _, *sizes = translation.tensor(node).shape
    if any(not isinstance(size, int) for size in sizes):
        raise Fallback("dynamic size")
    return sizes[1:]


def same_sizes(sizes: Sequence[Any], others: Sequence[Any]) -> bool:
    """Say whether sizes are known to be the same."""
    return len(sizes) == len(others) and all(
        statically_known_true(size == other) for size, other in zip(sizes, others, strict=True)
    )


STEP_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Float dtypes of the steps of decoders, which cpuaccel's kernels run."""


def common_float_dtype(translation: Translation, *nodes: Any) -> torch.dtype:
    """Return the common float dtype of all these nodes; raise Fallback if there is none."""
    types = {translation.tensor(node).dtype for node in nodes}
    if len(types) != 1:
        raise Fallback("mixed dtypes")
    dtype = types.pop()
    if not dtype.is_floating_point:
        raise Fallback(f"dtype {dtype}")
    return dtype


def dimension(dim: int, rank: int) -> int:
    """Return a dimension as a non-negative index."""
    return dim % rank if rank else 0


def only_user(node: Node) -> Node | None:
    """Return the only node that uses `node`, if there is just one."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def other_operand(node: Node, operand: Any) -> Any:
    """Return the operand of a node with two that is not `operand`; None if it is both or none."""
    first, second = node.args
    if (first is operand) == (second is operand):
        return None
    return second if first is operand else first


def is_cast(node: Any) -> bool:
    """Say whether `node` changes the dtype of a tensor, and nothing else."""
    return isinstance(node, Node) and node.target is torch.ops.prims.convert_element_type.default


def producer_of(result: Any, op: Any) -> Node | None:
    """Return the node of `op` whose first and only used result is `result`, which is read once."""
    node: Any = result.args[0] if result.target is operator.getitem else None
    if node is None or node.target is not op or only_user(result) is None:
        return None
    return node if first_result(node) is result else None


def first_result(node: Node) -> Node | None:
    """Return the getitem of the first of several results, if no other result is used."""
    result = only_user(node)
    if result is None or result.target is not operator.getitem or result.args[1] != 0:
        return None
    return result
