"""Puts dequantizes behind view ops: quantize(view(view(dequantize(x)))) copies bytes, not floats.

The numbers are the same, because a dequantize with one scale maps each element alone. The last view
op stays between the dequantize and the quantize, where `view_ops.py` and `shuffle.py` look for it.
"""

from __future__ import annotations

import operator

from torch.fx import Graph, Node

from cpuaccel._inductor.nodes import copied_views
from cpuaccel.compile.bridge.quantized.tensors import (
    DEQUANTIZE,
    QUANTIZE,
    has_constant_quantizer,
    source_of,
)
from cpuaccel.compile.bridge.shapes import PERMUTES, RESHAPES, SPLITS
from cpuaccel.compile.bridge.translation import Translation


def dequantize_late(graph: Graph, translation: Translation) -> None:
    """Rewrite each chain of two or more view ops from a dequantize to a quantize in place."""
    moved: dict[Node, Node] = {}
    dequantizes: dict[Node, None] = {}
    for node in graph.find_nodes(op="call_function", target=QUANTIZE):
        if not has_constant_quantizer(node):
            continue
        *before, last = _view_ops_before(node) or [node]
        if before and not translation.is_constant(before[0]):
            dequantizes[before[0]] = None
            _move(graph, before, last, moved)
    for node in (*reversed(moved), *dequantizes):
        if not node.users:
            graph.erase_node(node)


def _view_ops_before(quantize: Node) -> list[Node]:
    """Return a dequantize and the view ops from it to a quantize; an empty list if it has none."""
    found: list[Node] = []
    node = source_of(quantize)
    while node.target in (*RESHAPES, *PERMUTES) or _is_part(node):
        found.insert(0, node)
        if _is_part(node):
            node = source_of(node)
            found.insert(0, node)
        node = source_of(node)
    is_dequantized = node.target is DEQUANTIZE and has_constant_quantizer(node)
    return [node, *found] if is_dequantized and len(found) > 1 else []


def _is_part(node: Node) -> bool:
    split = node.args[0] if node.target is operator.getitem else None
    return isinstance(split, Node) and split.target in SPLITS


def _move(graph: Graph, before: list[Node], last: Node, moved: dict[Node, Node]) -> None:
    dequantize, *view_ops = before
    split = view_ops.pop() if _is_part(last) else None
    reader = split or last
    if not view_ops:
        return
    integers = copied_views(graph, view_ops, source_of(dequantize), moved)
    behind = view_ops[-1]
    made = _dequantized(integers, dequantize)
    if made is None:
        with graph.inserting_after(integers):
            made = graph.node_copy(dequantize)
        made.replace_input_with(source_of(dequantize), integers)
        made.meta = {**behind.meta}
    reader.replace_input_with(behind, made)


def _dequantized(integers: Node, like: Node) -> Node | None:
    """Return the node that dequantizes `integers` as `like` does."""
    alike = ((like.target, like.args[1:], like.kwargs),)
    users = (each for each in integers.users if (each.target, each.args[1:], each.kwargs) in alike)
    return next(users, None)
