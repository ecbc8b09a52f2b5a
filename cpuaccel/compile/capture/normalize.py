"""Normalizes a traced graph for the passes that read it: sizes, group norms, resizes, slices.

Each function changes the graph in place, but not what it computes.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.fx import Graph, Node, Proxy, map_arg
from torch.fx.proxy import GraphAppendingTracer

from cpuaccel._compat import PythonReferenceAnalysis, sympy_interp
from cpuaccel.compile.capture import symbolic_sizes

_aten: Any = torch.ops.aten


def sizes_of_inputs(graph: Graph) -> None:
    """Compute sizes from the sizes of inputs wherever possible.

    torch reads a size from any tensor that has it. A region cannot contain a node that needs the
    size of one of the region's own results.
    """
    nodes = graph.find_nodes(op="call_function", target=_aten.sym_size.int)
    read = {node: node.meta.get("val") for node in nodes}
    wanted = {node: size.node.expr for node, size in read.items() if isinstance(size, torch.SymInt)}
    if not wanted:
        return
    inputs = list(graph.find_nodes(op="placeholder"))
    symbols = {
        symbol: (inputs[number], dim)
        for symbol, (number, dim) in symbolic_sizes.dimensions_of_symbols(inputs).items()
    }
    made: dict[Any, Node] = {}
    before = next(node for node in graph.nodes if node.op not in ("placeholder", "get_attr"))
    for node, expression in wanted.items():
        if not expression.free_symbols <= symbols.keys():
            continue
        if expression not in made:
            with graph.inserting_before(before):
                made[expression] = _made_of(expression, symbols, graph)
        node.replace_all_uses_with(made[expression])
    for node in reversed(list(wanted)):
        if not node.users:
            graph.erase_node(node)


def _made_of(expression: Any, symbols: dict[Any, tuple[Node, int]], graph: Graph) -> Node:
    """Add nodes to `graph` that compute an expression of input sizes."""
    tracer = GraphAppendingTracer(graph)
    sizes = {
        symbol: Proxy(graph.call_function(_aten.sym_size.int, symbols[symbol]), tracer)
        for symbol in expression.free_symbols
    }
    proxy = sympy_interp(PythonReferenceAnalysis, sizes, expression)
    _give_value(proxy.node)
    made: Node = proxy.node
    return made


def _give_value(node: Node) -> Any:
    if "val" not in node.meta:
        function: Any = node.target
        node.meta["val"] = function(*map_arg(node.args, _give_value))
    return node.meta["val"]


def group_norms(graph: Graph) -> None:
    """Replace aten::native_group_norm by aten::group_norm, which takes any memory layout."""
    for node in graph.find_nodes(op="call_function", target=_aten.native_group_norm.default):
        src, weight, bias, _, _, _, groups, eps = node.args
        for result in [each for each in node.users if each.args[1] == 0]:
            with graph.inserting_before(result):
                norm = graph.call_function(
                    _aten.group_norm.default, (src, groups, weight, bias, eps)
                )
            norm.meta = dict(result.meta)
            result.replace_all_uses_with(norm)
            graph.erase_node(result)


def resizes(graph: Graph) -> None:
    """Replace cpuaccel::resize by torch's ops, which the passes that read the graph know."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.cpuaccel.resize.default):
        src, size, scales, mode, align_corners = node.args
        if mode == "nearest":
            node.target, node.args = _aten.upsample_nearest2d.vec, (src, size, scales)
        else:
            node.target = _aten.upsample_bilinear2d.vec
            node.args = (src, size, align_corners, scales)


def full_slices(graph: Graph) -> None:
    """Remove slices that cover a full dimension, such as the one of x[:, 0], and aliases.

    torch traces slices of known sizes as aliases.
    """
    returned = set(graph.output_node().all_input_nodes)  # results have to be separate objects
    for node in graph.find_nodes(op="call_function", target=_aten.alias.default):
        if node not in returned:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    for node in graph.find_nodes(op="call_function", target=_aten.slice.Tensor):
        given: list[Any] = [*node.args, *(0, None, None, 1)[len(node.args) - 1 :]]
        src, _, start, end, step = given
        is_whole = start in (0, None) and (end is None or end == sys.maxsize) and step == 1
        if is_whole and node not in returned and not node.kwargs:
            node.replace_all_uses_with(src)
            graph.erase_node(node)
