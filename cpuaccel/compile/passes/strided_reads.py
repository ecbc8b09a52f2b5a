"""Finds as_strided nodes: they read memory by eager's layout, which a compiled graph may change."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel.compile.bridge._arguments import arguments_of

_aten: Any = torch.ops.aten


def strided_reads_of_results(graph: Graph) -> Iterable[Node]:
    """Yield nodes that read memory by eager's layout, except those that read the graph's inputs."""
    for op in (_aten.as_strided.default, _aten.as_strided_scatter.default):
        for node in graph.find_nodes(op="call_function", target=op):
            source: Any = node.args[0]
            if source.op == "call_function":
                yield node


def remove_strided_reads(graph: Graph) -> None:
    """Remove as_strided where the layout does not matter, as torch adds it after means of norms.

    It is removed if it asks for the strides that the source has. It becomes a reshape if both are
    contiguous with the same elements in the same order.
    """
    for node in graph.find_nodes(op="call_function", target=_aten.as_strided.default):
        if any(user.op == "output" for user in node.users):
            continue
        source: Any = node.args[0]
        before, after = source.meta["val"], node.meta["val"]
        offset = arguments_of(node)["storage_offset"]
        if offset is not None and not statically_known_true(offset == before.storage_offset()):
            continue
        if _have_same_strides(before, after):
            node.replace_all_uses_with(source)
            graph.erase_node(node)
        elif (
            _is_dense_in_order(before)
            and _is_dense_in_order(after)
            and _have_same_numel(before, after)
        ):
            node.target = _aten.reshape.default
            node.args = node.args[:2]
            node.kwargs = {}


def _have_same_strides(a: Tensor, b: Tensor) -> bool:
    places = zip(a.shape, b.shape, a.stride(), b.stride(), strict=False)
    return a.dim() == b.dim() and all(
        statically_known_true(size == other)
        and (statically_known_true(size == 1) or statically_known_true(step == its))
        for size, other, step, its in places
    )


def _have_same_numel(a: Tensor, b: Tensor) -> bool:
    return statically_known_true(math.prod(a.shape) == math.prod(b.shape))


def _is_dense_in_order(tensor: Tensor) -> bool:
    """Say whether the elements are in order without gaps, as in a contiguous tensor."""
    step: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if statically_known_true(size == 1):
            continue
        if not statically_known_true(stride == step):
            return False
        step *= size
    return True
