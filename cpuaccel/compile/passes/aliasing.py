"""Finds the tensors that a captured graph holds, and those that its ops mutate or alias."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, GraphModule, Node

from cpuaccel._compat import OpOverload, tree_leaves


def attribute_of(captured: GraphModule, node: Node) -> Any:
    """Return the attribute that a get_attr node reads."""
    owner, _, name = str(node.target).rpartition(".")
    return getattr(captured.get_submodule(owner), name)


def mutated_by(graph: Graph) -> set[Node]:
    """Return the nodes that ops of a graph mutate."""
    ops = (node for node in graph.nodes if isinstance(node.target, OpOverload))
    return {each for node in ops for each in aliased_by(node, written=True)}


def aliased_by(node: Node, *, written: bool = False) -> list[Node]:
    """Return the arguments that an op's results may alias; only those it mutates if `written`."""
    op: Any = node.target
    return [
        leaf
        for argument, value in zip(op._schema.arguments, node.args, strict=False)
        if argument.alias_info is not None and (argument.alias_info.is_write or not written)
        for leaf in tree_leaves(value)
        if isinstance(leaf, Node)
    ]
