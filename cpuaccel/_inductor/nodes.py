"""Helpers for graph passes: insert calls into an FX graph and copy metadata between nodes."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node
from torch.fx.node import map_arg

_ORIGIN = ("stack_trace", "original_aten", "from_node", "nn_module_stack")


def keep_origin(node: Node, by: Node) -> None:
    """Copy the origin of `node` to `by`, which replaces it."""
    for name in _ORIGIN:
        if name in node.meta:
            by.meta.setdefault(name, node.meta[name])


def call(graph: Graph, op: Any, *args: Any, **kwargs: Any) -> Node:
    """Insert a call of `op` and set the fake value of its result; return the node."""
    node = graph.call_function(op, args, kwargs)
    node.meta["val"] = computed(node)
    return node


def computed(node: Node) -> Any:
    """Return the result of the op of `node` on the fake values of its arguments."""
    op: Any = node.target
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    return op(*args, **kwargs)


def copied_views(graph: Graph, views: list[Node], source: Node, copies: dict[Node, Node]) -> Node:
    """Return what view ops, each of the one before, make of `source`.

    `copies` has the copy of each view op that was copied before.
    """
    for view in views:
        if view not in copies:
            before: Any = view.args[0]
            with graph.inserting_after(view):
                copies[view] = graph.node_copy(view)
            copies[view].replace_input_with(before, source)
            copies[view].meta = {**view.meta, "val": computed(copies[view])}
        source = copies[view]
    return source
