"""What passes over graphs do to nodes."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node
from torch.fx.node import map_arg

_ORIGIN = ("stack_trace", "original_aten", "from_node", "nn_module_stack")


def keep_origin(node: Node, by: Node) -> None:
    """Say of `by`, which stands for `node` from now on, where it came from."""
    for name in _ORIGIN:
        if name in node.meta:
            by.meta.setdefault(name, node.meta[name])


def call(graph: Graph, op: Any, *args: Any, **kwargs: Any) -> Node:
    """Return a call of `op`, whose result is known."""
    node = graph.call_function(op, args, kwargs)
    node.meta["val"] = computed(node)
    return node


def computed(node: Node) -> Any:
    """Return what the op of `node` makes of its arguments, as they are known."""
    op: Any = node.target
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    return op(*args, **kwargs)
