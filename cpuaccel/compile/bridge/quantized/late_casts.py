"""Puts autocast's casts behind int8 layers: layer(cast(x), cast(weight)) is cast(layer(x, weight)).

Autocast runs the layers of a PT2E model in bf16: their operands are dequantized, then cast.
Integers have the same products without that rounding. The cast of the result is dropped where a
quantize, or an op in float32, reads it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel._inductor.nodes import call, computed, copied_views
from cpuaccel.compile.bridge._arguments import only_user
from cpuaccel.compile.bridge.quantized.quantize_chain import is_function
from cpuaccel.compile.bridge.quantized.tensors import (
    DEQUANTIZE,
    DEQUANTIZE_BY_TENSORS,
    DEQUANTIZE_CHANNELS,
    QUANTIZE,
    source_of,
)
from cpuaccel.compile.bridge.shapes import PERMUTES, RESHAPES

_aten: Any = torch.ops.aten
_CAST: Any = torch.ops.prims.convert_element_type.default

_LAYERS = frozenset(
    {
        _aten.addmm.default,
        _aten.convolution.default,
        _aten.linear.default,
        _aten.mm.default,
    }
)
_DEQUANTIZES = frozenset({DEQUANTIZE, DEQUANTIZE_BY_TENSORS, DEQUANTIZE_CHANNELS})
_VIEW_OPS = frozenset({*RESHAPES, *PERMUTES, _aten.t.default})
_BINARY = frozenset({_aten.add.Tensor, _aten.mul.Tensor})
_HALVES = (torch.bfloat16, torch.float16)


def cast_late(graph: Graph) -> None:
    """Rewrite, in place, each layer in 16 bits whose source and weight are dequantized.

    Quantizes of 16 bits get a cast to float32, which lets other passes take them.
    """
    # The graph is traced under autocast, which would change the results of `computed` too.
    with torch.autocast("cpu", enabled=False):
        _cast_late(graph)


def _cast_late(graph: Graph) -> None:
    copies: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node.target in _LAYERS and node.meta["val"].dtype in _HALVES:
            operands = {each: _from_cast(each) for each in node.all_input_nodes}
            dequantized = sum(_origin(each).target in _DEQUANTIZES for each in operands)
            if all(operands.values()) and dequantized == 2:
                _put_behind(graph, node, operands, copies)
    for node in graph.find_nodes(op="call_function", target=QUANTIZE):
        source = source_of(node)
        if source.meta["val"].dtype in _HALVES:  # torch's op casts too
            with graph.inserting_before(node):
                node.replace_input_with(source, call(graph, _CAST, source, torch.float32))


def _from_cast(node: Node) -> list[Node]:
    """Return a cast from float32, and the view ops from it to `node`; empty if there is no cast."""
    found = [node]
    while found[0].target in _VIEW_OPS:
        found.insert(0, source_of(found[0]))
    cast = found[0]
    is_cast = cast.target is _CAST and source_of(cast).meta["val"].dtype == torch.float32
    return found if is_cast else []


def _origin(node: Node) -> Node:
    """Return the node that a cast and view ops are applied to."""
    while node.target is _CAST or node.target in _VIEW_OPS:
        node = source_of(node)
    return node


def _put_behind(
    graph: Graph, layer: Node, operands: dict[Node, list[Node]], copies: dict[Node, Node]
) -> None:
    floats = {
        each: copied_views(graph, views, source_of(cast), copies)
        for each, (cast, *views) in operands.items()
    }
    with graph.inserting_before(layer):
        made = graph.node_copy(layer, floats.__getitem__)
        made.meta = {**layer.meta, "val": computed(made)}
        cast = call(graph, _CAST, made, layer.meta["val"].dtype)
    cast.meta = {**layer.meta, **cast.meta}
    layer.replace_all_uses_with(cast)
    graph.erase_node(layer)
    for node in sorted({each for path in operands.values() for each in path}, reverse=True):
        if not node.users:
            graph.erase_node(node)
    _drop_before_float(graph, _behind_view_ops(graph, cast))


def _behind_view_ops(graph: Graph, cast: Node) -> Node:
    """Move `cast` behind the view ops that alone read it, and return it."""
    while (view := only_user(cast)) is not None and view.target in _VIEW_OPS:
        view.replace_input_with(cast, source_of(cast))
        with graph.inserting_after(view):
            moved = graph.node_copy(cast)
        moved.meta = {**view.meta}
        view.meta = {**view.meta, "val": computed(view)}
        view.replace_all_uses_with(moved)
        moved.replace_input_with(source_of(moved), view)
        graph.erase_node(cast)
        cast = moved
    return cast


def _drop_before_float(graph: Graph, cast: Node) -> None:
    """Remove `cast` if functions and view ops are all that is between it and float32."""
    path: list[Node] = []
    end = only_user(cast)
    while end is not None and (is_function(end) or end.target in _VIEW_OPS):
        path.append(end)
        end = only_user(end)
    if end is None or not (end.target is QUANTIZE or _is_in_float(end)):
        return
    cast.replace_all_uses_with(source_of(cast))
    graph.erase_node(cast)
    for node in path:
        node.meta = {**node.meta, "val": computed(node)}
    if end.target is _CAST:
        end.replace_all_uses_with(source_of(end))
        graph.erase_node(end)


def _is_in_float(node: Node) -> bool:
    """Say whether a node casts to float32, or is a sum or product in it."""
    return node.target in (_CAST, *_BINARY) and node.meta["val"].dtype == torch.float32
