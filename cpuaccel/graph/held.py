"""Tensors that a captured graph holds, and what it writes to."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves


def attribute_of(captured: GraphModule, node: Node) -> Any:
    """Return what a get_attr node reads."""
    owner, _, name = str(node.target).rpartition(".")
    return getattr(captured.get_submodule(owner), name)


def written_by(graph: Graph) -> set[Node]:
    """Return what ops of a graph write to, by their schemas."""
    written: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.update(each for each in tree_leaves(value) if isinstance(each, Node))
    return written
