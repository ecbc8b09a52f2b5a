"""Nodes that read memory by place: as eager lays it out, which a compiled graph need not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel.graph.bridge import does_nothing

_aten: Any = torch.ops.aten


def read_by_place(graph: Graph) -> Iterable[Node]:
    """Yield what reads memory as eager would have written it, but for inputs of the graph."""
    for op in (_aten.as_strided.default, _aten.as_strided_scatter.default):
        for node in graph.find_nodes(op="call_function", target=op):
            source: Any = node.args[0]
            if source.op == "call_function":
                yield node


def drop_what_does_nothing(graph: Graph) -> None:
    """Take out as_strided that asks for the strides that there are, as torch does behind means."""
    for node in graph.find_nodes(op="call_function", target=_aten.as_strided.default):
        if does_nothing(node) and not any(user.op == "output" for user in node.users):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
